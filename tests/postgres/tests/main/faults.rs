//! Faults in a random order, while a client writes.

use std::{
    env,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use postgres::SWITCHOVER;
use postgres_model::failover::ANY;
use postgres_processes::Database;
use rustix::process::Signal;

use crate::{
    ledger::{Ledger, connect},
    life::database,
};

/// Names the number of faults.
const FAULTS: &str = "ENSEMBLE_POSTGRES_FAULTS";
/// Rows before each fault.
const ROWS: usize = 20;

/// How long a fault lasts that stops no primary.
const QUIET: Duration = Duration::from_secs(3);
/// How long responses are lost. Some reach a primary, so it may go on.
const LOST: Duration = Duration::from_secs(20);

/// What happens to a member.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The power of its node fails.
    Kill,
    /// The processes of PostgreSQL are killed, and the instance manager is not.
    Crash,
    /// The API server does not answer it.
    Cut,
    /// Its requests reach the API server, and the responses do not reach it.
    LostResponses,
    /// The API server answers it late.
    SlowResponses,
    /// The processes of PostgreSQL stand still.
    Hang,
    /// No fault: another member becomes the primary on request.
    SwitchOver,
}

const ALL: [Fault; 7] = [
    Fault::Kill,
    Fault::Crash,
    Fault::Cut,
    Fault::LostResponses,
    Fault::SlowResponses,
    Fault::Hang,
    Fault::SwitchOver,
];
/// How late slow responses are. A Lease is renewed in time nevertheless.
const LATE: Duration = Duration::from_millis(700);

/// A database with a client that has written rows.
struct Trial {
    database: Database,
    ledger: Ledger,
    random: fastrand::Rng,
}

impl Trial {
    /// Strikes the primary, or sometimes another member, while the client writes.
    async fn strike(&mut self) -> Result<(Fault, Duration)> {
        let fault = self.random.choice(ALL).unwrap_or(Fault::Kill);
        let client = connect(self.database.primary()?).await?;
        for _ in 0..ROWS {
            self.ledger.write(&client).await;
        }
        let primary = self.database.primary()?.name.clone();
        let others: Vec<_> = self.database.kubelet.members.iter().map(|member| member.name.clone()).collect();
        let other = self.random.choice(others).filter(|_| self.random.u8(0..4) == 0);
        let victim = other.unwrap_or_else(|| primary.clone());
        let began = Instant::now();
        if matches!(fault, Fault::SwitchOver) {
            self.database.annotate(SWITCHOVER, ANY).await?;
        }
        let member = self.database.kubelet.member(&victim)?;
        match fault {
            Fault::SwitchOver => {}
            Fault::Kill => member.kill()?,
            Fault::Crash => member.signal_postgresql(Signal::KILL)?,
            Fault::Cut => member.api.cut(),
            Fault::LostResponses => member.api.lose_responses(),
            Fault::SlowResponses => member.api.slow_down(LATE),
            Fault::Hang => member.signal_postgresql(Signal::STOP)?,
        }
        // The session writes as long as it can: a primary that is cut off, until it is fenced.
        let is_primary = victim == primary || matches!(fault, Fault::SwitchOver);
        let limit = match fault {
            Fault::LostResponses if is_primary => LOST,
            Fault::SlowResponses => QUIET,
            _ if is_primary => Duration::MAX,
            _ => QUIET,
        };
        while began.elapsed() < limit && self.ledger.write(&client).await {}
        let stopped = Instant::now();
        self.until_writable().await?;
        let unavailable = stopped.elapsed();
        let member = self.database.kubelet.member(&victim)?;
        match fault {
            Fault::Kill => member.start()?,
            Fault::Cut | Fault::LostResponses | Fault::SlowResponses => member.api.heal(),
            Fault::Crash | Fault::Hang | Fault::SwitchOver => {}
        }
        // A standby that hangs is nobody's concern but its own.
        if matches!(fault, Fault::Hang) {
            member.signal_postgresql(Signal::CONT)?;
        }
        self.database.until_complete().await?;
        Ok((fault, unavailable))
    }

    /// Waits until a primary acknowledges a row.
    async fn until_writable(&mut self) -> Result<()> {
        let end = Instant::now() + Duration::from_mins(2);
        loop {
            ensure!(Instant::now() < end, "no primary acknowledges rows\n{}", self.database.kubelet.logs());
            self.database.look().await?;
            if let Ok(primary) = self.database.primary()
                && let Ok(client) = connect(primary).await
                && self.ledger.write(&client).await
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn no_acknowledged_row_is_lost() {
    let count = env::var(FAULTS).map_or(6, |count| count.parse().unwrap());
    let seed = fastrand::u64(..);
    let mut database = database().await.unwrap();
    let ledger = Ledger::create(database.primary().unwrap()).unwrap();
    let mut trial = Trial { database, ledger, random: fastrand::Rng::with_seed(seed) };
    let (mut longest, mut acknowledged) = (Duration::ZERO, 0);
    for number in 1..=count {
        let (fault, unavailable) =
            trial.strike().await.unwrap_or_else(|error| panic!("seed {seed}, fault {number}: {error:#}"));
        longest = longest.max(unavailable);
        println!("fault {number}: {fault:?}, writable again after {:.1} s", unavailable.as_secs_f32());
        let (rows, lost) = trial.ledger.check(trial.database.primary().unwrap()).await.unwrap();
        assert_eq!(lost, [0; 0], "seed {seed}, fault {number}: {fault:?}\n{}", trial.database.kubelet.logs());
        acknowledged = rows;
    }
    println!(
        "{count} faults, {acknowledged} rows acknowledged, 0 lost, at most {:.1} s without writes",
        longest.as_secs_f32()
    );
}

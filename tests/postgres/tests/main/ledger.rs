//! Rows that were acknowledged.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, Result};
use postgres_processes::Member;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{Client, NoTls};

/// Time between two attempts to connect.
const RECONNECT: Duration = Duration::from_millis(20);
/// How long a statement may take.
const STATEMENT: Duration = Duration::from_secs(3);

/// Connects to a member as the writer.
pub(crate) async fn connect(member: &Member) -> Result<Client> {
    connect_to(member.address).await
}

async fn connect_to(address: IpAddr) -> Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host(address.to_string()).user("writer").password("secret").dbname("postgres");
    let (client, connection) = timeout(STATEMENT, config.connect(NoTls)).await??;
    tokio::spawn(connection);
    Ok(client)
}

/// A client that writes all the time, to whichever member accepts that.
pub(crate) struct Application {
    stop: oneshot::Sender<()>,
    task: JoinHandle<(Ledger, Duration)>,
}

impl Application {
    /// Starts to write.
    pub(crate) fn start(mut ledger: Ledger, members: &[Member]) -> Self {
        let addresses: Vec<_> = members.iter().map(|member| member.address).collect();
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            let mut last = Instant::now();
            for address in addresses.into_iter().cycle() {
                let client = connect_to(address).await;
                while let Ok(client) = &client
                    && ledger.write(client).await
                {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                    if stopped.try_recv().is_ok() {
                        return (ledger, longest);
                    }
                }
                sleep(RECONNECT).await;
            }
            (ledger, longest)
        });
        Self { stop, task }
    }

    /// Stops after the next row. Returns the ledger, and the longest time between two rows.
    pub(crate) async fn stop(self) -> Result<(Ledger, Duration)> {
        // Fails if the writer has panicked, which the task tells.
        let _ = self.stop.send(());
        Ok(self.task.await?)
    }
}

/// A writer, and the numbers that it saw acknowledged.
#[derive(Default)]
pub(crate) struct Ledger {
    next: i64,
    acknowledged: Vec<i64>,
}

impl Ledger {
    /// Creates the table and its writer.
    pub(crate) fn create(member: &Member) -> Result<Self> {
        member.sql("CREATE ROLE writer LOGIN PASSWORD 'secret'")?;
        member.sql("CREATE TABLE ledger (number bigint PRIMARY KEY)")?;
        member.sql("ALTER TABLE ledger OWNER TO writer")?;
        Ok(Self::default())
    }

    /// Writes a row. Returns whether it was acknowledged.
    pub(crate) async fn write(&mut self, client: &Client) -> bool {
        self.next += 1;
        let written =
            timeout(STATEMENT, client.execute("INSERT INTO ledger VALUES ($1)", &[&self.next])).await;
        let is_acknowledged = matches!(written, Ok(Ok(1)));
        if is_acknowledged {
            self.acknowledged.push(self.next);
        }
        is_acknowledged
    }

    /// Returns the number of acknowledged rows, and those of them that a member lacks.
    pub(crate) async fn check(&self, member: &Member) -> Result<(usize, Vec<i64>)> {
        let client = connect(member).await?;
        let rows = client.query("SELECT number FROM ledger", &[]).await.context("cannot read the ledger")?;
        let present: std::collections::HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let lost = self.acknowledged.iter().filter(|number| !present.contains(number)).copied().collect();
        Ok((self.acknowledged.len(), lost))
    }
}

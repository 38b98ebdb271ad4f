//! One run: a workload, with or without a fault.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    id::RunId,
    lane::Lane,
    learn::{Reference, Seen},
    oracle::{counts::counts, normal::end_state},
    plan::Planned,
    token::Token,
    trial::Trial,
    workload::Workload,
};

/// How long nothing may have happened for a run to be over.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// The same where it is learnt what there is to happen: longer than statuses are gathered.
const REST: Duration = Duration::from_secs(2);
/// How often to look, where nothing tells.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// What came of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Verdict {
    /// Its name.
    pub id: RunId,
    /// What went wrong, in words.
    pub fault: String,
    /// Whether the fault came at all.
    pub struck: bool,
    /// Whether it came to the same as without a fault, and if not, what differs.
    pub missed: Option<String>,
    /// What must not happen and did.
    pub violations: Vec<String>,
    /// How long it took until it was as it should be, in milliseconds.
    pub milliseconds: u64,
    /// What has happened, if not all is good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub story: Vec<String>,
}

impl Verdict {
    /// What came of a trial, which counts as missed if it failed itself.
    pub(crate) fn of(planned: &Planned, tried: Result<Self>) -> Self {
        tried.unwrap_or_else(|error| Self {
            id: planned.id.clone(),
            fault: planned.words.clone(),
            struck: false,
            missed: Some(format!("the trial itself failed: {error:#}")),
            violations: Vec::new(),
            milliseconds: 0,
            story: Vec::new(),
        })
    }

    /// Whether nothing is to be said against it.
    pub fn is_good(&self) -> bool {
        self.missed.is_none() && self.violations.is_empty()
    }
}

/// Brings about what there is before, with so much time for each step, and waits until the manager is at rest.
async fn prepare(lane: &Lane, workload: &Workload, token: Token, patience: Duration) -> Result<()> {
    let name = token.to_string();
    lane.stage.take(token, (workload.before)(&name), patience).await?;
    if !(workload.before)(&name).is_empty() {
        quiet(lane, token, QUIET).await?;
    }
    lane.proxy.rules().forget(token);
    Ok(())
}

/// Waits until nothing has happened in a run for a while.
async fn quiet(lane: &Lane, token: Token, time: Duration) -> Result<()> {
    let count = || (lane.stage.observer.count(token), lane.proxy.rules().writes(token).len());
    let began = Instant::now();
    let (mut last, mut since) = (count(), Instant::now());
    while since.elapsed() < time {
        ensure!(began.elapsed() < lane.stage.patience, "it does not come to rest");
        tokio::time::sleep(POLL).await;
        let now = count();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Looks at a workload without a fault.
pub async fn look(lane: &Lane, workload: &Workload) -> Result<Seen> {
    let (stage, token) = (&lane.stage, lane.stage.token());
    let name = token.to_string();
    let said = lane.said();
    prepare(lane, workload, token, stage.patience).await?;
    stage.take(token, (workload.act)(&name), stage.patience).await?;
    stage.until(token, &(workload.goals)(&name), stage.patience).await?;
    quiet(lane, token, REST).await?;
    let writes = lane.proxy.rules().writes(token);
    tokio::time::sleep(REST).await;
    let story = stage.observer.story(token);
    let all = lane.proxy.rules().writes(token);
    let restless: Vec<_> = all.iter().skip(writes.len()).map(|write| write.key.clone()).collect();
    ensure!(
        restless.is_empty(),
        "at rest, it writes {restless:?}; it has said:\n{}",
        said_of(lane, said, token)?
    );
    let notices = lane.proxy.rules().notices(token);
    let seen = Seen { end: end_state(token, &story.state), counts: counts(token, &story), writes, notices };
    clear(lane, token).await;
    Ok(seen)
}

/// What the manager has said of a run.
fn said_of(lane: &Lane, since: u64, token: Token) -> Result<String> {
    let words = lane.words(since)?;
    let of_run: Vec<_> = words.lines().filter(|line| line.contains(&token.to_string())).collect();
    Ok(of_run.join("\n"))
}

async fn clear(lane: &Lane, token: Token) {
    lane.stage.clear(token).await;
    lane.proxy.rules().heal(token);
    lane.proxy.rules().forget(token);
}

/// Tries a fault.
///
/// # Errors
/// When the trial itself fails, not what is tried.
pub async fn try_fault(
    lane: &Lane,
    workload: &Workload,
    planned: &Planned,
    reference: &Reference,
) -> Result<Verdict> {
    let token = begin(lane, workload, planned).await?;
    go(lane, workload, planned, reference, token).await
}

/// Brings about what there is before a fault.
pub(crate) async fn begin(lane: &Lane, workload: &Workload, planned: &Planned) -> Result<Token> {
    let token = lane.stage.token();
    prepare(lane, workload, token, planned.patience(&lane.stage)).await.context("before the fault")?;
    Ok(token)
}

/// Goes on with a run that has begun.
pub(crate) async fn go(
    lane: &Lane,
    workload: &Workload,
    planned: &Planned,
    reference: &Reference,
    token: Token,
) -> Result<Verdict> {
    let said = lane.said();
    let mut trial = Trial::new(lane, token, reference, planned);
    trial.arm();
    let acted = {
        let act = trial.planned.act(lane, workload, token);
        let mut act = std::pin::pin!(act);
        loop {
            tokio::select! {
                acted = &mut act => break acted,
                () = tokio::time::sleep(POLL) => trial.attend()?,
            }
        }
    };
    let missed = match acted {
        Err(error) => Some(format!("{error:#}")),
        Ok(()) => trial.converge().await?,
    };
    let took = trial.began.elapsed();
    lane.ensure_running()?;
    let struck = trial.disarm();
    let violations = trial.violations(said, took)?;
    let is_good = missed.is_none() && violations.is_empty();
    let story = if is_good { Vec::new() } else { trial.story() };
    clear(lane, token).await;
    lane.stage.observer.forget(token);
    Ok(Verdict {
        id: planned.id.clone(),
        fault: planned.words.clone(),
        struck,
        missed,
        violations,
        milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        story,
    })
}

//! Executes one run: a workload with or without a fault.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    baseline::{Baseline, Recording},
    id::RunId,
    oracle::{counts::counts, end_state::end_state},
    plan::Planned,
    token::Token,
    trial::{IDLE, POLL, Trial},
    worker::Worker,
    workload::Workload,
};

/// Timeout for recording a baseline: longer than the delay of status updates.
const BASELINE_IDLE: Duration = Duration::from_secs(2);

/// Result of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Verdict {
    /// Its name.
    pub id: RunId,
    /// Description of the fault.
    pub fault: String,
    /// Whether the fault was triggered.
    pub injected: bool,
    /// The difference to the baseline, if the run did not converge.
    pub difference: Option<String>,
    /// Violated invariants.
    pub violations: Vec<String>,
    /// Time until convergence, in milliseconds.
    pub milliseconds: u64,
    /// The history, if the run failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
}

impl Verdict {
    /// Converts the result of a trial into a verdict. An error counts as a failure to converge.
    pub(crate) fn of(planned: &Planned, result: Result<Self>) -> Self {
        result.unwrap_or_else(|error| Self {
            id: planned.id.clone(),
            fault: planned.description.clone(),
            injected: false,
            difference: Some(format!("the trial failed: {error:#}")),
            violations: Vec::new(),
            milliseconds: 0,
            history: Vec::new(),
        })
    }

    /// Returns whether the run passed.
    pub fn is_good(&self) -> bool {
        self.difference.is_none() && self.violations.is_empty()
    }
}

/// Prepares a workload and waits until the manager is idle.
async fn prepare(worker: &Worker, workload: &Workload, token: Token, patience: Duration) -> Result<()> {
    let name = token.to_string();
    worker.test_cluster.take(token, (workload.before)(&name), patience).await?;
    if !(workload.before)(&name).is_empty() {
        until_idle(worker, token, IDLE).await?;
    }
    worker.forget(token);
    Ok(())
}

/// Waits until a run had no changes, and no write without a response, for some time.
async fn until_idle(worker: &Worker, token: Token, time: Duration) -> Result<()> {
    let state = || {
        let rules = worker.proxy.rules();
        (worker.test_cluster.observer.count(token), rules.writes(token).len(), rules.pending(token))
    };
    let began = Instant::now();
    let (mut last, mut since) = (state(), Instant::now());
    while last.2 > 0 || since.elapsed() < time {
        ensure!(began.elapsed() < worker.test_cluster.patience, "the run does not become idle");
        tokio::time::sleep(POLL).await;
        let now = state();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Records a workload without a fault.
pub async fn record(worker: &Worker, workload: &Workload) -> Result<Recording> {
    let (test_cluster, token) = (&worker.test_cluster, worker.test_cluster.token());
    let name = token.to_string();
    let log_start = worker.log_position();
    prepare(worker, workload, token, test_cluster.patience).await?;
    test_cluster.take(token, (workload.act)(&name), test_cluster.patience).await?;
    test_cluster.until(token, &(workload.goals)(&name), test_cluster.patience).await?;
    until_idle(worker, token, BASELINE_IDLE).await?;
    let writes = worker.proxy.rules().writes(token);
    tokio::time::sleep(BASELINE_IDLE).await;
    let history = test_cluster.observer.history(token);
    let all = worker.proxy.rules().writes(token);
    let restless: Vec<_> = all.iter().skip(writes.len()).map(|write| write.key.clone()).collect();
    ensure!(
        restless.is_empty(),
        "the idle manager writes {restless:?}; its log:\n{}",
        log_of(worker, log_start, token)?
    );
    let frame_counts = worker.proxy.rules().frame_counts(token);
    let recording = Recording {
        end: end_state(token, &history.state),
        counts: counts(token, &history),
        writes,
        frame_counts,
        lease_writes: test_cluster.members.rules().writes(token),
    };
    clear(worker, token).await;
    Ok(recording)
}

/// Returns the manager's log lines about a run.
fn log_of(worker: &Worker, since: u64, token: Token) -> Result<String> {
    let description = worker.log_since(since)?;
    let of_run: Vec<_> = description.lines().filter(|line| line.contains(&token.to_string())).collect();
    Ok(of_run.join("\n"))
}

async fn clear(worker: &Worker, token: Token) {
    worker.test_cluster.clear(token).await;
    worker.clear_faults(token);
    worker.forget(token);
}

/// Executes a workload with a fault.
///
/// # Errors
/// Returns an error if the trial fails for another reason than the fault.
pub async fn try_fault(
    worker: &Worker,
    workload: &Workload,
    planned: &Planned,
    baseline: &Baseline,
) -> Result<Verdict> {
    let token = prepare_run(worker, workload, planned).await?;
    execute(worker, workload, planned, baseline, token).await
}

/// Prepares a workload for a fault.
pub(crate) async fn prepare_run(worker: &Worker, workload: &Workload, planned: &Planned) -> Result<Token> {
    let token = worker.test_cluster.token();
    prepare(worker, workload, token, planned.patience(&worker.test_cluster))
        .await
        .context("prepare the workload")?;
    Ok(token)
}

/// Executes a prepared run.
pub(crate) async fn execute(
    worker: &Worker,
    workload: &Workload,
    planned: &Planned,
    baseline: &Baseline,
    token: Token,
) -> Result<Verdict> {
    let log_start = worker.log_position();
    let mut trial = Trial::new(worker, token, baseline, planned);
    trial.arm();
    let acted = {
        let act = trial.planned.act(worker, workload, token);
        let mut act = std::pin::pin!(act);
        loop {
            tokio::select! {
                acted = &mut act => break acted,
                () = tokio::time::sleep(POLL) => trial.poll_fault()?,
            }
        }
    };
    let difference = match acted {
        Err(error) => Some(format!("{error:#}")),
        Ok(()) => trial.converge().await?,
    };
    let took = trial.began.elapsed();
    worker.ensure_running()?;
    let injected = trial.disarm();
    let violations = trial.violations(log_start, took)?;
    let is_good = difference.is_none() && violations.is_empty();
    let history = if is_good { Vec::new() } else { trial.history() };
    clear(worker, token).await;
    worker.test_cluster.observer.forget(token);
    Ok(Verdict {
        id: planned.id.clone(),
        fault: planned.description.clone(),
        injected,
        difference,
        violations,
        milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        history,
    })
}

//! Supervises controllers and restarts those that end unexpectedly.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use futures::FutureExt;
use operator_core::{DrainResult, Environment, Registration, Runnable, fence::Fence};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::election::{Election, Leadership};

/// Number of unexpected ends within [`WINDOW`] after which the process gives up.
const RESTARTS: usize = 5;
/// Time during which an unexpected end counts.
const WINDOW: Duration = Duration::from_mins(10);
/// Wait before the first restart. It doubles with each end that still counts.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Runs the controllers until the environment stops, each while this process leads it. Without
/// leader election, a controller always runs.
///
/// A controller that ends unexpectedly, which is a bug, is restarted with backoff. A controller
/// becomes a candidate only after its caches have synced, because another replica may be able to
/// run it.
///
/// # Errors
/// Returns an error if a controller keeps ending. Restart the process then. The other controllers
/// have been stopped.
pub async fn run(
    controllers: &[Registration],
    environment: &Environment,
    election: Option<Arc<Election>>,
) -> Result<()> {
    run_with(controllers, environment, election, FIRST_WAIT).await
}

async fn run_with(
    controllers: &[Registration],
    environment: &Environment,
    election: Option<Arc<Election>>,
    first_wait: Duration,
) -> Result<()> {
    let mut running = JoinSet::new();
    for controller in controllers {
        let candidacy = Candidacy::new(controller, environment, election.clone());
        running.spawn(supervise(*controller, candidacy, first_wait));
    }
    let mut result = Ok(());
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended.map_err(Into::into).flatten() {
            environment.stop.cancel();
            result = result.and(Err(error));
        }
    }
    result
}

/// Takes part in the leader election of one controller.
struct Candidacy {
    /// Environment with a fence for this controller.
    environment: Environment,
    controller: &'static str,
    election: Option<Arc<Election>>,
    /// Set once the controller can run.
    leadership: Option<Leadership>,
}

impl Candidacy {
    fn new(controller: &Registration, environment: &Environment, election: Option<Arc<Election>>) -> Self {
        let fence = if election.is_some() { Fence::closed() } else { Fence::open() };
        let environment = Environment { fence, ..environment.clone() };
        Self { environment, controller: controller.name, election, leadership: None }
    }

    /// Becomes a candidate, once.
    fn campaign(&mut self) -> &mut Leadership {
        let Self { environment, controller, election, leadership } = self;
        leadership.get_or_insert_with(|| {
            if let Some(election) = election {
                return election.campaign(controller, environment.fence.clone());
            }
            environment.metrics.leading(controller, true);
            Leadership::always()
        })
    }

    /// Ends the candidacy. The Lease is released only if the controller has drained. Otherwise a
    /// request may be in flight and the Lease expires.
    async fn end(self, drained: DrainResult) {
        if let (Some(leadership), DrainResult::Complete) = (self.leadership, drained) {
            leadership.resign().await;
        }
        info!(controller = self.controller, "stopped the controller");
    }
}

async fn supervise(controller: Registration, mut candidacy: Candidacy, first_wait: Duration) -> Result<()> {
    let Environment { stop, metrics, .. } = candidacy.environment.clone();
    let mut crashes = Vec::new();
    loop {
        let mut runnable = (controller.build)(&candidacy.environment);
        let result =
            AssertUnwindSafe(run_terms(runnable.as_mut(), &mut candidacy, &stop)).catch_unwind().await;
        if stop.is_cancelled() {
            candidacy.end(result.unwrap_or(Ok(DrainResult::TimedOut))?).await;
            return Ok(());
        }
        drop(runnable);
        crashes.retain(|at: &Instant| at.elapsed() < WINDOW);
        crashes.push(Instant::now());
        let cause = match result {
            Ok(ended) => ended.map(|_| "it returned".to_owned())?,
            Err(panic) => panic_message(panic.as_ref()),
        };
        if crashes.len() > RESTARTS {
            bail!(
                "the controller {} ended {} times within {WINDOW:?}: {cause}",
                controller.name,
                crashes.len()
            );
        }
        let wait = first_wait * 2_u32.pow(u32::try_from(crashes.len() - 1).unwrap_or_default());
        error!(
            controller = controller.name,
            error = cause,
            retry_in = ?wait,
            "the controller ended unexpectedly; restarting it"
        );
        metrics.restarted(controller.name);
        stop.run_until_cancelled(tokio::time::sleep(wait)).await;
    }
}

/// Runs a controller for one term of leadership after another. A lost lease ends a term
/// immediately.
async fn run_terms(
    runnable: &mut dyn Runnable,
    candidacy: &mut Candidacy,
    stop: &CancellationToken,
) -> Result<DrainResult> {
    if stop.run_until_cancelled(runnable.synced()).await.is_none() {
        return Ok(DrainResult::Complete);
    }
    let leadership = candidacy.campaign();
    let mut drain_result = DrainResult::Complete;
    loop {
        match stop.run_until_cancelled(leadership.gained()).await {
            Some(gained) => gained?,
            None => return Ok(drain_result),
        }
        tokio::select! {
            drained = runnable.run() => return Ok(drained),
            () = leadership.lost() => drain_result = DrainResult::TimedOut,
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    format!("it panicked: {message}")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;
    use tokio::sync::watch;

    use super::*;

    static RUNS: AtomicUsize = AtomicUsize::new(0);

    /// Controller that returns or panics immediately.
    struct Crashing;

    impl Runnable for Crashing {
        fn synced(&mut self) -> BoxFuture<'_, ()> {
            async {}.boxed()
        }

        fn run(&mut self) -> BoxFuture<'_, DrainResult> {
            let run = RUNS.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(run.is_multiple_of(2), "on purpose");
                DrainResult::Complete
            }
            .boxed()
        }
    }

    /// Controller that runs until it is stopped, and reports the number of runs and whether one is
    /// active.
    struct Recording {
        stop: CancellationToken,
        runs: watch::Sender<(usize, bool)>,
    }

    struct EndOnDrop<'a>(&'a watch::Sender<(usize, bool)>);

    impl Drop for EndOnDrop<'_> {
        fn drop(&mut self) {
            self.0.send_modify(|(_, is_active)| *is_active = false);
        }
    }

    impl Runnable for Recording {
        fn synced(&mut self) -> BoxFuture<'_, ()> {
            async {}.boxed()
        }

        fn run(&mut self) -> BoxFuture<'_, DrainResult> {
            async {
                self.runs.send_modify(|(runs, is_active)| (*runs, *is_active) = (*runs + 1, true));
                let _end = EndOnDrop(&self.runs);
                self.stop.cancelled().await;
                DrainResult::Complete
            }
            .boxed()
        }
    }

    fn good(environment: &Environment) -> Box<dyn Runnable> {
        Box::new(Recording { stop: environment.stop.clone(), runs: watch::Sender::default() })
    }

    const BAD: Registration = Registration::new("bad", |_| Box::new(Crashing));
    const GOOD: Registration = Registration::new("good", good);

    fn environment() -> Environment {
        let service = tower::service_fn(|_| async {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>().await
        });
        Environment::new(kube::Client::new(service, "default"))
    }

    #[tokio::test]
    async fn repeated_crashes_of_controller_stop_process_gracefully() {
        let environment = environment();
        let ended = run_with(&[BAD, GOOD], &environment, None, Duration::from_millis(1)).await;
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("the controller bad ended 6 times"), "{error}");
        assert!(error.contains("it panicked: on purpose"), "{error}");
        assert_eq!(RUNS.load(Ordering::Relaxed), RESTARTS + 1);
    }

    #[tokio::test]
    async fn stop_ends_all_controllers() {
        let environment = environment();
        environment.stop.cancel();
        run(&[GOOD, GOOD], &environment, None).await.unwrap();
    }

    #[tokio::test]
    async fn controller_runs_once_per_leadership_term() {
        let environment = environment();
        let runs = watch::Sender::default();
        let mut follow = runs.subscribe();
        let leads = watch::Sender::new(false);
        let mut candidacy = Candidacy::new(&GOOD, &environment, None);
        candidacy.leadership = Some(Leadership::from_channel(leads.subscribe()));
        let stop = environment.stop.clone();
        let life = tokio::spawn(async move {
            let mut good = Recording { stop: stop.clone(), runs };
            run_terms(&mut good, &mut candidacy, &stop).await
        });
        for term in 1..=3 {
            leads.send_replace(true);
            follow.wait_for(|seen| *seen == (term, true)).await.unwrap();
            leads.send_replace(false);
            follow.wait_for(|seen| *seen == (term, false)).await.unwrap();
        }
        environment.stop.cancel();
        assert_eq!(life.await.unwrap().unwrap(), DrainResult::TimedOut, "a request may be in flight");
    }
}

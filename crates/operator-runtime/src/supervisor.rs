//! Running controllers, and starting them again when they end by themselves.

use std::time::Duration;

use anyhow::{Result, bail};
use operator_core::{Environment, Registration};
use tokio::{task::JoinSet, time::Instant};
use tracing::{error, info};

/// How often a controller may end by itself within [`WINDOW`] before the process gives up.
const RESTARTS: usize = 5;
/// How long an end is held against a controller.
const WINDOW: Duration = Duration::from_mins(10);
/// The wait before the first restart; doubles with each that still counts.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Runs the controllers until the environment asks to stop. One that ends by itself, which is a bug, is started
/// again with backoff.
///
/// # Errors
/// When a controller keeps ending by itself: the process should end then and be started anew.
pub async fn run(controllers: &[Registration], environment: &Environment) -> Result<()> {
    run_with(controllers, environment, FIRST_WAIT).await
}

async fn run_with(
    controllers: &[Registration],
    environment: &Environment,
    first_wait: Duration,
) -> Result<()> {
    let mut running = JoinSet::new();
    for controller in controllers {
        running.spawn(supervise(*controller, environment.clone(), first_wait));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

async fn supervise(controller: Registration, environment: Environment, first_wait: Duration) -> Result<()> {
    let mut ends = Vec::new();
    loop {
        let life = (controller.start)(&environment);
        let end = tokio::spawn(life).await;
        if environment.stop.is_cancelled() {
            info!(controller = controller.name, "the controller has stopped");
            return Ok(());
        }
        ends.retain(|at: &Instant| at.elapsed() < WINDOW);
        ends.push(Instant::now());
        let why = end.err().map_or_else(|| "it returned".to_owned(), |error| error.to_string());
        if ends.len() > RESTARTS {
            bail!("the controller {} ended {} times within {WINDOW:?}: {why}", controller.name, ends.len());
        }
        let wait = first_wait * 2_u32.pow(u32::try_from(ends.len() - 1).unwrap_or_default());
        error!(
            controller = controller.name,
            why,
            ?wait,
            "the controller ended by itself and is started again"
        );
        environment.stop.run_until_cancelled(tokio::time::sleep(wait)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use operator_core::{Registration, environment::Environment};

    use super::*;

    static STARTS: AtomicUsize = AtomicUsize::new(0);

    const RETURNS_AT_ONCE: Registration = Registration {
        name: "returns",
        rules: Vec::new,
        crds: Vec::new,
        settings: || &[],
        start: |_| {
            STARTS.fetch_add(1, Ordering::Relaxed);
            async {}.boxed()
        },
    };

    const WAITS_FOR_STOP: Registration = Registration {
        start: |environment| environment.stop.clone().cancelled_owned().boxed(),
        ..RETURNS_AT_ONCE
    };

    fn environment() -> Environment {
        let service = tower::service_fn(|_| async {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>().await
        });
        Environment::new(kube::Client::new(service, "default"))
    }

    #[tokio::test]
    async fn a_controller_that_keeps_ending_ends_the_process() {
        let error = run_with(&[RETURNS_AT_ONCE], &environment(), Duration::from_millis(1)).await.unwrap_err();
        assert!(error.to_string().contains("the controller returns ended 6 times"), "{error}");
        assert_eq!(STARTS.load(Ordering::Relaxed), RESTARTS + 1);
    }

    #[tokio::test]
    async fn a_stop_ends_all_of_them() {
        let environment = environment();
        environment.stop.cancel();
        run(&[WAITS_FOR_STOP, WAITS_FOR_STOP], &environment).await.unwrap();
    }
}

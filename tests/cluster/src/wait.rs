//! Waits for conditions. The error of a timeout contains the last observed value.
//!
//! [`condition`] watches an object and is preferred. [`eventually`] polls if a watch is not
//! possible.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::Api;
use kube::runtime::wait::{Condition, await_condition};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Shortest and longest time between two polls, unless a probe takes long.
const POLL: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(250));
/// The time between two polls is this part of the time waited so far. A poll can start a program:
/// fewer of them leave the processor to what the test waits for.
const POLL_PART: u32 = 8;
/// Longest time between two probes, however long they take.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Result of a poll.
pub trait Outcome {
    /// Value that a successful wait returns.
    type Value;
    /// Returns the value if the wait is over, otherwise the observed state.
    fn settle(self) -> Result<Self::Value, String>;
}

impl Outcome for bool {
    type Value = ();

    fn settle(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("not yet".to_owned()) }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;

    fn settle(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing yet".to_owned())
    }
}

/// `Err` contains the observed state for the error message.
impl<T, S: Debug> Outcome for Result<T, S> {
    type Value = T;

    fn settle(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

/// Polls until `probe` returns `true`, `Some`, or an inner `Ok`, and returns the value. Errors of
/// the probe are retried.
///
/// # Errors
/// Returns an error after `patience` with what was waited for and what was last observed.
pub async fn eventually<O: Outcome>(
    what: &str,
    patience: Duration,
    mut probe: impl AsyncFnMut() -> Result<O>,
) -> Result<O::Value> {
    let start = Instant::now();
    let mut seen = "no answer in time".to_owned();
    loop {
        let remaining = patience.saturating_sub(start.elapsed()).max(POLL.0);
        let probed = Instant::now();
        match tokio::time::timeout(remaining, probe()).await {
            Ok(Ok(outcome)) => match outcome.settle() {
                Ok(value) => return Ok(value),
                Err(state) => seen = state,
            },
            Ok(Err(error)) => seen = format!("{error:#}"),
            // The end of the wait interrupts the last probe. What the one before saw is the cause.
            Err(_) => {}
        }
        if start.elapsed() >= patience {
            bail!("waited {:.1} s for {what}; last seen: {seen}", patience.as_secs_f64());
        }
        // Probes that take long, such as a kubectl on a busy machine, must not slow down what they wait for.
        let pause = (probed.elapsed() * 2).min(MAX_PAUSE);
        tokio::time::sleep((start.elapsed() / POLL_PART).clamp(POLL.0, POLL.1).max(pause)).await;
    }
}

/// Watches the object `name` until `condition` holds. Returns the object if it exists.
///
/// # Errors
/// Returns an error with the current object after `patience`.
pub async fn condition<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    patience: Duration,
    condition: impl Condition<K>,
) -> Result<Option<K>>
where
    K: Clone + Debug + Send + DeserializeOwned + Serialize + kube::Resource + 'static,
{
    let waited = tokio::time::timeout(patience, await_condition(api.clone(), name, condition)).await;
    if let Ok(found) = waited {
        return found.with_context(|| format!("wait for {name} {what}"));
    }
    let seen = match api.get_opt(name).await {
        Ok(Some(object)) => as_json(object),
        Ok(None) => "no such object".to_owned(),
        Err(error) => error.to_string(),
    };
    bail!("waited {:.1} s for {name} {what}; last seen: {seen}", patience.as_secs_f64())
}

/// Serializes an object without managed fields.
fn as_json<K: kube::Resource + Serialize>(mut object: K) -> String {
    object.meta_mut().managed_fields = None;
    serde_json::to_string(&object).unwrap_or_else(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn returns_value_of_probe() {
        let mut tries = 0;
        let found = eventually("the third try", Duration::from_secs(5), async || {
            tries += 1;
            Ok((tries == 3).then_some("found"))
        });
        assert_eq!(found.await.unwrap(), "found");
    }

    #[tokio::test]
    async fn timeout_error_contains_goal_and_last_value() {
        let wait = eventually("three replicas", Duration::from_millis(60), async || {
            Ok(Err::<(), _>("2 of 3 replicas"))
        });
        let error = wait.await.unwrap_err().to_string();
        assert!(error.contains("three replicas") && error.contains("2 of 3 replicas"), "{error}");
    }

    #[tokio::test]
    async fn retries_errors_and_reports_the_last() {
        let wait =
            eventually::<bool>("an answer", Duration::from_millis(60), async || bail!("connection refused"));
        assert!(wait.await.unwrap_err().to_string().contains("connection refused"));
    }

    #[tokio::test]
    async fn timeout_error_keeps_what_was_seen_before_the_last_probe() {
        let mut probes = 0;
        let wait = eventually::<Result<(), _>>("three replicas", Duration::from_millis(60), async || {
            probes += 1;
            if probes > 1 {
                std::future::pending::<()>().await;
            }
            Ok(Err("2 of 3 replicas"))
        });
        assert!(wait.await.unwrap_err().to_string().contains("2 of 3 replicas"));
    }

    #[tokio::test]
    async fn times_out_if_probe_hangs() {
        let wait =
            eventually::<bool>("an answer", Duration::from_millis(60), async || std::future::pending().await);
        assert!(wait.await.unwrap_err().to_string().contains("no answer in time"));
    }
}

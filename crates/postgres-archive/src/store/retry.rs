//! Attempts until an operation succeeds, or its deadline is over.

use std::{future::Future, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::error::{Failure, Operation, StoreError};

/// Wait before the second attempt.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How one attempt ends without a result.
pub(crate) enum AttemptError<E = StoreError> {
    /// The store failed. Another attempt follows if it can succeed.
    Failed(Failure),
    /// No other attempt is made.
    Final(E),
}

impl AttemptError {
    /// Returns the same for an operation with more errors.
    pub(crate) fn widen<E: From<StoreError>>(self) -> AttemptError<E> {
        match self {
            Self::Failed(failure) => AttemptError::Failed(failure),
            Self::Final(error) => AttemptError::Final(error.into()),
        }
    }
}

impl<E> From<Failure> for AttemptError<E> {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Repeats attempts with growing, random waits until `deadline`.
///
/// # Errors
/// Returns the error of an attempt that is not transient, or that of the last attempt.
pub(super) async fn retry<T, E, F>(
    operation: Operation,
    key: &str,
    deadline: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E>
where
    E: From<StoreError>,
    F: Future<Output = Result<T, AttemptError<E>>>,
{
    let end = Instant::now() + deadline;
    let (mut attempts, mut cause) = (0, format!("no answer within {deadline:?}"));
    while attempts == 0 || Instant::now() < end {
        attempts += 1;
        match timeout_at(end, attempt()).await {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(AttemptError::Final(error))) => return Err(error),
            Ok(Err(AttemptError::Failed(failure))) if !failure.is_transient() => {
                return Err(failure.into_error(operation, key).into());
            }
            Ok(Err(AttemptError::Failed(failure))) => cause = failure.to_string(),
            Err(_) => break,
        }
        sleep_until(end.min(Instant::now() + wait(attempts))).await;
    }
    Err(StoreError::Unavailable { operation, key: key.to_owned(), deadline, attempts, cause }.into())
}

/// Returns the wait after a number of attempts: between half of the full wait and all of it.
fn wait(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    let full = FIRST_WAIT.saturating_mul(1 << doublings).min(MAX_WAIT);
    full.mul_f64(0.5 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::store::refusal::Refusal;

    fn refused(status: u16) -> Result<u32, AttemptError> {
        Err(Failure::Refused(Refusal::parse(status, b"<Code>SlowDown</Code>")).into())
    }

    async fn run(
        deadline: u64,
        attempt: impl Fn(u32) -> Result<u32, AttemptError>,
    ) -> Result<u32, StoreError> {
        let attempts = Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            std::future::ready(attempt(attempts.get()))
        };
        retry(Operation::Get, "a/b", Duration::from_secs(deadline), attempt).await
    }

    #[tokio::test(start_paused = true)]
    async fn transient_failures_are_repeated() {
        let result = run(60, |attempt| if attempt < 5 { refused(503) } else { Ok(attempt) }).await;
        assert_eq!(result, Ok(5));
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_ends_the_attempts_with_the_last_cause() {
        let began = Instant::now();
        let error = run(60, |_| refused(503)).await.unwrap_err().to_string();
        assert_eq!(began.elapsed().as_secs(), 60);
        assert!(error.starts_with("cannot read a/b within 60s, in "), "{error}");
        assert!(error.contains("503 SlowDown"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn other_failures_are_returned_at_once() {
        let error = run(60, |_| refused(403)).await.unwrap_err();
        assert!(matches!(error, StoreError::Denied { operation: Operation::Get, .. }), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_without_an_answer_ends_at_the_deadline() {
        let attempt = || std::future::pending::<Result<(), AttemptError>>();
        let error = retry(Operation::Put, "a", Duration::from_secs(9), attempt).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { attempts: 1, .. }), "{error}");
    }

    #[test]
    fn waits_grow_to_a_limit() {
        for attempts in [1, 2, 10, u32::MAX] {
            let full =
                [200, 400, 10_000, 10_000][[1, 2, 10, u32::MAX].iter().position(|n| *n == attempts).unwrap()];
            assert!((full / 2..=full).contains(&u64::try_from(wait(attempts).as_millis()).unwrap()));
        }
    }
}

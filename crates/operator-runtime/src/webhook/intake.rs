//! Taking in the bodies of reviews, within bounds of size, time and memory.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Bytes, to_bytes},
    extract::Request,
    http::{
        HeaderMap, Method, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::refusal::Refusal;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// What the smallest body counts for: what else a review takes.
const UNIT: usize = 16 * KIB;
/// The largest body that counts as small.
const SMALL: usize = 128 * KIB;
/// How long a review waits for room.
const PATIENCE: Duration = Duration::from_secs(1);

/// The bounds of one sort of reviews. The room is for all bodies together, so that no number of strangers can make
/// the process grow without end. Small bodies, which nearly all are, have room of their own: a few large ones that
/// never arrive do not hold them up.
pub(super) struct Intake {
    /// The largest body.
    limit: usize,
    /// How long a body may take to arrive.
    time: Duration,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A body, and the room that it takes.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) body: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Intake {
    /// The API server takes no object above 3 MiB; an admission review has the old and the new one.
    pub(super) fn admission() -> Self {
        Self::new(8 * MIB, Duration::from_secs(3), 32 * MIB)
    }

    /// A conversion review has all objects of a list, so it may be much larger.
    pub(super) fn conversion() -> Self {
        Self::new(64 * MIB, Duration::from_secs(10), 128 * MIB)
    }

    /// Half of the room is for small bodies. The other half must be able to take in the largest.
    pub(super) fn new(limit: usize, time: Duration, room: usize) -> Self {
        let half = || Arc::new(Semaphore::new(room / 2 / UNIT));
        Self { limit, time, small: half(), large: half() }
    }

    /// Takes in the body of a review.
    ///
    /// # Errors
    /// When it is none, is too large or too slow, or there is no room.
    pub(super) async fn take(&self, request: Request) -> Result<Taken, Refusal> {
        check_method(request.method())?;
        check_type(request.headers())?;
        let length = self.length(request.headers())?;
        let units = u32::try_from(length.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX);
        let room = if length <= SMALL { &self.small } else { &self.large };
        let room = timeout(PATIENCE, room.clone().acquire_many_owned(units)).await;
        let Ok(Ok(room)) = room else {
            return Err(Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too many reviews are under way; try again, or run more replicas",
            ));
        };
        let body = match timeout(self.time, to_bytes(request.into_body(), length)).await {
            Ok(Ok(body)) if body.len() == length => body,
            Ok(_) => {
                return Err(Refusal::new(
                    StatusCode::BAD_REQUEST,
                    "the body is not as long as Content-Length says",
                ));
            }
            Err(_) => {
                let message = format!("the body did not arrive within {:?}", self.time);
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message));
            }
        };
        Ok(Taken { body, _room: room })
    }

    /// The length that is announced. It has to be, for the room is set apart before the body is read; the API server
    /// always says it.
    fn length(&self, headers: &HeaderMap) -> Result<usize, Refusal> {
        let length: Option<usize> =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        match length {
            None => Err(Refusal::new(
                StatusCode::LENGTH_REQUIRED,
                "send the length of the body in Content-Length",
            )),
            Some(length) if length > self.limit => Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "a review may have at most {} MiB; this one has {}",
                    self.limit / MIB,
                    length.div_ceil(MIB)
                ),
            )),
            Some(length) => Ok(length),
        }
    }
}

fn check_method(method: &Method) -> Result<(), Refusal> {
    if *method == Method::POST {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "reviews are sent by POST; the API server does so"))
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "reviews are sent as Content-Type: application/json",
    ))
}

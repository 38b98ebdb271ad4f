//! Limits on the size, duration, and memory of review requests.
//!
//! ```text
//! Content-Length -> memory for the body -> read body -> memory for its values -> handler
//! ```
//!
//! The limits apply to the memory that a review needs, because three bytes of JSON can become
//! hundreds of bytes of values. Each memory budget has one pool for small reviews, which are most
//! of them, and one for large reviews, so that large reviews do not delay small ones. A request
//! that waits for the second budget never waits for the first, so requests cannot deadlock.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody},
    extract::Request,
    http::{
        HeaderMap, Method, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
};
use futures::future::poll_fn;
use operator_core::admission::MemoryEstimate;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use crate::error_response::ErrorResponse;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Bytes of one semaphore permit, and the minimum for each body.
const PERMIT: usize = 4 * KIB;
/// Time after the arrival of a review until which it waits for memory, for its body and for its values. The API server
/// waits 5 s for a webhook, and clients do not retry a request whose webhook failed.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(4);
/// Largest body in the pool of small bodies.
const SMALL_BODY: usize = 128 * KIB;
/// Largest memory of a review in the pool of small reviews.
const SMALL_REVIEW: usize = MIB;
/// Maximum ratio between the response of a conversion review and its body.
const CONVERSION_GROWTH: usize = 3;
/// Bytes of the response of a conversion review in addition to its objects.
const CONVERSION_OVERHEAD: usize = 64 * KIB;
/// Longest string in a conversion review: as long as the largest object. The parser quotes and
/// escapes a string in the wrong place.
const MAX_CONVERSION_STRING: usize = 2 * MIB;
/// Largest response of a conversion review.
const MAX_CONVERSION_RESPONSE: usize = 20 * MIB;

/// Memory budgets of all reviews of a process. Their sum and the memory of an idle manager stay
/// below 96 MiB.
#[derive(Clone)]
pub(super) struct MemoryBudgets {
    bodies: Pools,
    reviews: Pools,
    /// Bytes in the pool of large reviews.
    large_reviews: usize,
}

#[derive(Clone)]
struct Pools {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Pools {
    fn new(small: usize, large: usize) -> Self {
        let pool = |bytes: usize| Arc::new(Semaphore::new(bytes / PERMIT));
        Self { small: pool(small), large: pool(large) }
    }
}

impl Default for MemoryBudgets {
    fn default() -> Self {
        Self::new([2 * MIB, 16 * MIB], [6 * MIB, 28 * MIB])
    }
}

impl MemoryBudgets {
    /// Creates budgets from the bytes for small and large bodies, and for small and large reviews.
    pub(super) fn new(bodies: [usize; 2], reviews: [usize; 2]) -> Self {
        let [small_bodies, large_bodies] = bodies;
        let [small_reviews, large_reviews] = reviews;
        Self {
            bodies: Pools::new(small_bodies, large_bodies),
            reviews: Pools::new(small_reviews, large_reviews),
            large_reviews,
        }
    }
}

/// Limits on the requests of one type of review.
pub(super) struct RequestLimits {
    /// Largest body.
    max_body: usize,
    /// Maximum time to receive a body.
    timeout: Duration,
    budgets: MemoryBudgets,
}

/// Body of a review and its memory reservation.
#[derive(Debug)]
pub(super) struct ReviewBody {
    pub(super) bytes: Vec<u8>,
    /// Time until which the review waits for more memory.
    deadline: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Memory reservation of a review. Dropping it releases the memory.
#[derive(Debug)]
pub(super) struct Reservation {
    _permit: OwnedSemaphorePermit,
}

/// Memory that a conversion can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConversionMemory {
    /// Bytes for the object that is being converted.
    pub(super) object: usize,
    /// Bytes for the response.
    pub(super) response: usize,
}

impl RequestLimits {
    /// Returns the limits of admission reviews. An object in etcd has at most 1.5 MiB. A review
    /// contains the old and the new object, and the attributes of the request.
    pub(super) fn admission(budgets: &MemoryBudgets) -> Self {
        Self::new(4 * MIB, Duration::from_secs(3), budgets)
    }

    /// Returns the limits of conversion reviews. A review can contain all objects of a list, such
    /// as some thousand Tenants.
    pub(super) fn conversion(budgets: &MemoryBudgets) -> Self {
        Self::new(16 * MIB, Duration::from_secs(10), budgets)
    }

    pub(super) fn new(max_body: usize, timeout: Duration, budgets: &MemoryBudgets) -> Self {
        Self { max_body, timeout, budgets: budgets.clone() }
    }

    /// Reads the body of a review.
    ///
    /// # Errors
    /// Returns an error response if the request is not a review, its body is too large or arrives
    /// too slowly, or the memory for bodies is in use.
    pub(super) async fn read_body(&self, request: Request) -> Result<ReviewBody, ErrorResponse> {
        let deadline = Instant::now() + MEMORY_TIMEOUT;
        check_method(request.method())?;
        check_content_type(request.headers())?;
        let length = self.content_length(request.headers())?;
        // Drops the headers before the body arrives.
        let body = request.into_body();
        let pools = &self.budgets.bodies;
        let pool = if length <= SMALL_BODY { &pools.small } else { &pools.large };
        let permit = reserve(pool, length, deadline).await?;
        match timeout(self.timeout, read(body, length)).await {
            Ok(Some(bytes)) => Ok(ReviewBody { bytes, deadline, _permit: permit }),
            Ok(None) => {
                let message = "cannot read the review: the length of the body differs from Content-Length";
                Err(ErrorResponse::new(StatusCode::BAD_REQUEST, message))
            }
            Err(_) => {
                let message =
                    format!("cannot read the review: the body did not arrive within {:?}", self.timeout);
                Err(ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, message))
            }
        }
    }

    /// Waits for the memory of an admission review that stores its objects `copies` times.
    ///
    /// # Errors
    /// Returns an error response if the review needs more memory than the budget has, or the memory
    /// is in use.
    pub(super) async fn reserve_for_admission(
        &self,
        body: &ReviewBody,
        copies: usize,
    ) -> Result<Reservation, ErrorResponse> {
        let needed = footprint(&body.bytes)?.bytes(copies);
        if needed > self.budgets.large_reviews {
            return Err(ErrorResponse::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "the review has too many values: it needs {} MiB of memory, and the limit is {} MiB",
                    needed.div_ceil(MIB),
                    self.budgets.large_reviews / MIB
                ),
            ));
        }
        let pools = &self.budgets.reviews;
        let pool = if needed <= SMALL_REVIEW { &pools.small } else { &pools.large };
        Ok(Reservation { _permit: reserve(pool, needed, body.deadline).await? })
    }

    /// Waits for the memory of a conversion review. A large review reserves the whole pool.
    ///
    /// # Errors
    /// Returns an error response if the body is not JSON, or the memory is in use.
    pub(super) async fn reserve_for_conversion<C: Fn(&MemoryEstimate) -> usize>(
        &self,
        body: &ReviewBody,
        object_memory: C,
    ) -> Result<(Reservation, ConversionMemory), ErrorResponse> {
        let footprint = footprint(&body.bytes)?;
        if footprint.longest > MAX_CONVERSION_STRING {
            return Err(ErrorResponse::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a string in a review may have at most {} MiB", MAX_CONVERSION_STRING / MIB),
            ));
        }
        let object = object_memory(&footprint);
        let response = body.bytes.len() * CONVERSION_GROWTH + CONVERSION_OVERHEAD;
        let pools = &self.budgets.reviews;
        let (pool, needed, memory) = if object + response <= SMALL_REVIEW {
            (&pools.small, object + response, ConversionMemory { object, response })
        } else {
            let all = self.budgets.large_reviews;
            let response = response.min(MAX_CONVERSION_RESPONSE);
            (&pools.large, all, ConversionMemory { object: all.saturating_sub(response), response })
        };
        Ok((Reservation { _permit: reserve(pool, needed, body.deadline).await? }, memory))
    }

    /// Returns the length of the body. The header is required, because the memory is reserved
    /// before the body is read. The API server always sends it.
    fn content_length(&self, headers: &HeaderMap) -> Result<usize, ErrorResponse> {
        let length: Option<usize> =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        match length {
            None => Err(ErrorResponse::new(
                StatusCode::LENGTH_REQUIRED,
                "cannot read the review: set Content-Length to the length of the body",
            )),
            Some(length) if length > self.max_body => Err(ErrorResponse::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "the review is too large: it has {} MiB, and the limit is {} MiB",
                    length.div_ceil(MIB),
                    self.max_body / MIB
                ),
            )),
            Some(length) => Ok(length),
        }
    }
}

/// Waits for memory in a pool. After the deadline, returns only memory that is free.
async fn reserve(
    pool: &Arc<Semaphore>,
    bytes: usize,
    deadline: Instant,
) -> Result<OwnedSemaphorePermit, ErrorResponse> {
    let permits = u32::try_from(bytes.div_ceil(PERMIT).max(1)).unwrap_or(u32::MAX);
    match timeout_at(deadline, pool.clone().acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(ErrorResponse::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too many reviews in progress; retry, or run more replicas",
        )),
    }
}

/// Reads a body into memory that is allocated once, so that the body is never stored twice. Returns
/// `None` if the body has another length or the connection fails.
async fn read(mut body: Body, length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while let Some(frame) = poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.ok()?.into_data() {
            if data.len() > length - bytes.len() {
                return None;
            }
            bytes.extend_from_slice(&data);
        }
    }
    (bytes.len() == length).then_some(bytes)
}

fn footprint(body: &[u8]) -> Result<MemoryEstimate, ErrorResponse> {
    MemoryEstimate::of(body).map_err(|error| {
        ErrorResponse::new(StatusCode::BAD_REQUEST, format!("the body is not a review in JSON: {error}"))
    })
}

fn check_method(method: &Method) -> Result<(), ErrorResponse> {
    if *method == Method::POST {
        return Ok(());
    }
    let message = format!("method {method} is not supported; send reviews with POST, as the API server does");
    Err(ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, message))
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ErrorResponse::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "content type is not supported; send reviews with Content-Type: application/json",
    ))
}

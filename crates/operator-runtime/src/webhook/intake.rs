//! Taking in the bodies of reviews, within bounds of size, time and memory.
//!
//! ```text
//! Content-Length -> room to arrive -> body -> what it parses into -> room to be answered -> handler
//! ```
//!
//! What is counted is what a review takes, not what was sent: three bytes can become hundreds. Each
//! room has two lanes, one for small reviews, which nearly all are, and one for large ones, so that
//! a few large reviews do not hold up the small ones. Who waits for the second room never waits for
//! the first, so nobody waits in a circle.

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
use operator_core::admission::Footprint;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::refusal::Refusal;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// What room is counted in; the smallest body counts for one.
const UNIT: usize = 4 * KIB;
/// How long a review waits for room.
const PATIENCE: Duration = Duration::from_secs(1);
/// The largest body that arrives in the lane of small ones.
const SMALL_BODY: usize = 128 * KIB;
/// The most memory of a review in the lane of small ones.
const SMALL_REVIEW: usize = MIB;
/// How much larger than its objects the answer to a conversion review may be.
const GROWTH: usize = 3;
/// What the answer to a conversion review has besides its objects.
const MARGIN: usize = 64 * KIB;
/// The longest string in a conversion review: as long as the largest object. The parser quotes a string that is in
/// the wrong place, and escapes it.
const LONGEST_STRING: usize = 2 * MIB;
/// The largest answer to a conversion review.
const LARGEST_ANSWER: usize = 24 * MIB;

/// What all reviews of a process may take together. The sum, with what the manager takes at rest, stays
/// below 96 MiB.
#[derive(Clone)]
pub(super) struct Rooms {
    arriving: Lanes,
    answered: Lanes,
    large: usize,
}

#[derive(Clone)]
struct Lanes {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Lanes {
    fn new(small: usize, large: usize) -> Self {
        let room = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self { small: room(small), large: room(large) }
    }
}

impl Default for Rooms {
    fn default() -> Self {
        Self::new([2 * MIB, 16 * MIB], [8 * MIB, 36 * MIB])
    }
}

impl Rooms {
    /// Room for small and large bodies that arrive, and for small and large reviews that are answered.
    pub(super) fn new(arriving: [usize; 2], answered: [usize; 2]) -> Self {
        let [arriving_small, arriving_large] = arriving;
        let [small, large] = answered;
        Self {
            arriving: Lanes::new(arriving_small, arriving_large),
            answered: Lanes::new(small, large),
            large,
        }
    }
}

/// The bounds of one sort of reviews.
pub(super) struct Intake {
    /// The largest body.
    limit: usize,
    /// How long a body may take to arrive.
    time: Duration,
    rooms: Rooms,
}

/// A body, and the room that it takes.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) body: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// The room that a review takes while it is answered.
#[derive(Debug)]
pub(super) struct Room {
    _room: OwnedSemaphorePermit,
}

/// What a conversion may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// For one object that is being converted.
    pub(super) object: usize,
    /// For the answer.
    pub(super) answer: usize,
}

impl Intake {
    /// etcd stores no object above 1.5 MiB; an admission review has the old and the new one, and what the API server
    /// says of the request.
    pub(super) fn admission(rooms: &Rooms) -> Self {
        Self::new(4 * MIB, Duration::from_secs(3), rooms)
    }

    /// A conversion review may have all objects of a list: some thousand Tenants.
    pub(super) fn conversion(rooms: &Rooms) -> Self {
        Self::new(16 * MIB, Duration::from_secs(10), rooms)
    }

    pub(super) fn new(limit: usize, time: Duration, rooms: &Rooms) -> Self {
        Self { limit, time, rooms: rooms.clone() }
    }

    /// Takes in the body of a review.
    ///
    /// # Errors
    /// When it is none, is too large or too slow, or there is no room.
    pub(super) async fn take(&self, request: Request) -> Result<Taken, Refusal> {
        check_method(request.method())?;
        check_type(request.headers())?;
        let length = self.length(request.headers())?;
        // The head is not kept while the body arrives.
        let body = request.into_body();
        let lanes = &self.rooms.arriving;
        let lane = if length <= SMALL_BODY { &lanes.small } else { &lanes.large };
        let room = acquire(lane, length).await?;
        match timeout(self.time, read(body, length)).await {
            Ok(Some(body)) => Ok(Taken { body, _room: room }),
            Ok(None) => {
                let message = "the body is not as long as Content-Length says";
                Err(Refusal::new(StatusCode::BAD_REQUEST, message))
            }
            Err(_) => {
                let message = format!("the body did not arrive within {:?}", self.time);
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message))
            }
        }
    }

    /// Waits for room to answer an admission review whose objects are held so many times.
    ///
    /// # Errors
    /// Returns a refusal if the review holds more than there can be room for, or there is none.
    pub(super) async fn room_to_admit(&self, taken: &Taken, copies: usize) -> Result<Room, Refusal> {
        let needed = footprint(&taken.body)?.bytes(copies);
        if needed > self.rooms.large {
            return Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "the review holds too many values: it would take {} MiB of memory, and may take {}",
                    needed.div_ceil(MIB),
                    self.rooms.large / MIB
                ),
            ));
        }
        let lanes = &self.rooms.answered;
        let lane = if needed <= SMALL_REVIEW { &lanes.small } else { &lanes.large };
        Ok(Room { _room: acquire(lane, needed).await? })
    }

    /// Waits for room to answer a conversion review. A large one has the whole lane for itself.
    ///
    /// # Errors
    /// Returns a refusal if there is no room.
    pub(super) async fn room_to_convert<C: Fn(&Footprint) -> usize>(
        &self,
        taken: &Taken,
        memory: C,
    ) -> Result<(Room, Share), Refusal> {
        let found = footprint(&taken.body)?;
        if found.longest > LONGEST_STRING {
            return Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a string in a review may have at most {} MiB", LONGEST_STRING / MIB),
            ));
        }
        let (object, answer) = (memory(&found), taken.body.len() * GROWTH + MARGIN);
        let (lane, needed, share) = if object + answer <= SMALL_REVIEW {
            (&self.rooms.answered.small, object + answer, Share { object, answer })
        } else {
            let answer = answer.min(LARGEST_ANSWER);
            let share = Share { object: self.rooms.large.saturating_sub(answer), answer };
            (&self.rooms.answered.large, self.rooms.large, share)
        };
        Ok((Room { _room: acquire(lane, needed).await? }, share))
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

/// Waits for so much room.
async fn acquire(lane: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
    let units = u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX);
    match timeout(PATIENCE, lane.clone().acquire_many_owned(units)).await {
        Ok(Ok(room)) => Ok(room),
        _ => Err(Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too many reviews are under way; try again, or run more replicas",
        )),
    }
}

/// Reads a body into memory that is set apart once, so that it is never held twice. Returns `None` if
/// it has another length or breaks off.
async fn read(mut body: Body, length: usize) -> Option<Vec<u8>> {
    let mut read = Vec::with_capacity(length);
    while let Some(frame) = poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.ok()?.into_data() {
            if data.len() > length - read.len() {
                return None;
            }
            read.extend_from_slice(&data);
        }
    }
    (read.len() == length).then_some(read)
}

fn footprint(body: &[u8]) -> Result<Footprint, Refusal> {
    Footprint::of(body).map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("the body is no review in JSON: {error}"))
    })
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

//! Requests in flight and deadline of one connection.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::Version,
};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

/// Timeout of the TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a request of a server whose requests have none.
const ENDLESS: Duration = Duration::from_hours(24 * 365);
/// Timeout of a connection without a request in flight. Longer than that of Go's clients, so that they
/// close connections first. They also keep connections that they have never used: a request that waits
/// for a new connection takes another one if that is free earlier.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum excess of cancelled over answered requests before a connection is closed.
pub(super) const MAX_CANCELLED: u64 = 100;

/// Activity of one connection.
pub(super) struct Activity {
    accepted: Instant,
    request_timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Start times of the requests in flight.
    in_flight: BTreeMap<u64, Instant>,
    next: u64,
    answered: u64,
    cancelled: u64,
    is_http2: bool,
    is_handshake_done: bool,
    idle_since: Option<Instant>,
}

/// Priority of a connection. A full server closes the connection with the lowest priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// No request since the connection was accepted at this time.
    Unused(Instant),
    /// Idle since this time.
    Idle(Instant),
    /// The oldest request in flight started at this time.
    Busy(Instant),
}

impl Activity {
    pub(super) fn new(request_timeout: Option<Duration>) -> Self {
        let request_timeout = request_timeout.unwrap_or(ENDLESS);
        Self { accepted: Instant::now(), request_timeout, state: Mutex::default() }
    }

    /// Starts a request. It ends when the returned value is dropped.
    pub(super) fn start_request(activity: &Arc<Self>, permit: Option<OwnedSemaphorePermit>) -> InFlight {
        let mut state = activity.state.lock();
        let number = state.next;
        state.next += 1;
        state.in_flight.insert(number, Instant::now());
        InFlight { activity: activity.clone(), number, permit, is_answered: false }
    }

    /// Returns the time at which the connection is closed unless its activity changes.
    pub(super) fn deadline(&self) -> Instant {
        let state = self.state.lock();
        if state.cancelled > state.answered + MAX_CANCELLED {
            return self.accepted;
        }
        match (state.in_flight.values().next(), state.idle_since) {
            (Some(started), _) => *started + self.request_timeout,
            (None, Some(since)) => since + IDLE_TIMEOUT,
            (None, None) if state.is_handshake_done => self.accepted + IDLE_TIMEOUT,
            (None, None) => self.accepted + HANDSHAKE_TIMEOUT,
        }
    }

    /// Records that the TLS handshake has completed, or that the server has no TLS.
    pub(super) fn complete_handshake(&self) {
        self.state.lock().is_handshake_done = true;
    }

    /// Records the protocol version of a request.
    pub(super) fn set_version(&self, version: Version) {
        self.state.lock().is_http2 = version == Version::HTTP_2;
    }

    /// Returns whether requests arrive over HTTP/2. Returns `false` before the first request.
    pub(super) fn is_http2(&self) -> bool {
        self.state.lock().is_http2
    }

    /// Returns whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().in_flight.is_empty()
    }

    pub(super) fn priority(&self) -> Priority {
        let state = self.state.lock();
        match (state.in_flight.values().next(), state.idle_since) {
            (Some(started), _) => Priority::Busy(*started),
            (None, Some(since)) => Priority::Idle(since),
            (None, None) => Priority::Unused(self.accepted),
        }
    }
}

/// Request in flight.
pub(super) struct InFlight {
    activity: Arc<Activity>,
    number: u64,
    permit: Option<OwnedSemaphorePermit>,
    is_answered: bool,
}

impl InFlight {
    /// Returns whether the server had a permit for the request.
    pub(super) fn has_permit(&self) -> bool {
        self.permit.is_some()
    }

    /// Records that the handler has returned a response. Otherwise the request counts as cancelled.
    pub(super) fn mark_answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.in_flight.remove(&self.number);
        if self.is_answered {
            state.answered += 1;
        } else {
            state.cancelled += 1;
        }
        if state.in_flight.is_empty() {
            state.idle_since = Some(Instant::now());
        }
    }
}

/// Response body that keeps its request in flight until the last byte is written to the socket.
///
/// A client that does not read its response therefore still has a request in flight.
pub(super) struct TrackedBody {
    body: Body,
    in_flight: Arc<InFlight>,
}

impl TrackedBody {
    pub(super) fn new(body: Body, in_flight: InFlight) -> Self {
        Self { body, in_flight: Arc::new(in_flight) }
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let in_flight = &self.in_flight;
        let tracked = |bytes| Bytes::from_owner(TrackedBytes { bytes, _in_flight: in_flight.clone() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(tracked))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct TrackedBytes {
    bytes: Bytes,
    _in_flight: Arc<InFlight>,
}

impl AsRef<[u8]> for TrackedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

    fn activity() -> Arc<Activity> {
        Arc::new(Activity::new(Some(REQUEST_TIMEOUT)))
    }

    fn start(activity: &Arc<Activity>) -> InFlight {
        Activity::start_request(activity, None)
    }

    #[test]
    fn connection_always_has_deadline() {
        let activity = activity();
        assert_eq!(activity.deadline(), activity.accepted + HANDSHAKE_TIMEOUT);
        activity.complete_handshake();
        assert_eq!(activity.deadline(), activity.accepted + IDLE_TIMEOUT);
        let first = start(&activity);
        let started = Instant::now();
        let second = start(&activity);
        assert!(activity.deadline() <= started + REQUEST_TIMEOUT, "the oldest request sets the deadline");
        drop(first);
        assert!(activity.deadline() >= started + REQUEST_TIMEOUT);
        assert!(!activity.is_idle());
        drop(second);
        assert!(activity.is_idle() && activity.deadline() >= started + IDLE_TIMEOUT);
    }

    #[test]
    fn deadline_passes_after_too_many_cancelled_requests() {
        let activity = activity();
        let answer_one = || {
            let mut in_flight = start(&activity);
            in_flight.mark_answered();
        };
        for _ in 0..10 * MAX_CANCELLED {
            answer_one();
            drop(start(&activity));
        }
        assert!(activity.deadline() > Instant::now(), "some cancelled requests are allowed");
        for _ in 0..=MAX_CANCELLED {
            drop(start(&activity));
        }
        assert!(activity.deadline() <= Instant::now());
    }

    #[tokio::test]
    async fn request_ends_when_response_is_sent() {
        let activity = activity();
        let mut body = TrackedBody::new(Body::from("response"), start(&activity));
        let frame = futures::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let bytes = frame.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert!(!activity.is_idle(), "the response is queued, not sent");
        assert_eq!(bytes, "response");
        drop(bytes);
        assert!(activity.is_idle());
    }
}

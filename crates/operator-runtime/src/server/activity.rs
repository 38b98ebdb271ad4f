//! Requests of one connection: how many are under way, and until when the connection may stay open.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

/// How long a client may take from the connection to its first whole head, the TLS handshake included.
pub(super) const FIRST: Duration = Duration::from_secs(10);
/// How long one request may take from its head to the last byte of its response.
pub(super) const REQUEST: Duration = Duration::from_secs(30);
/// How long a connection may be idle. Longer than Go's clients keep theirs, so that they close them first.
pub(super) const IDLE: Duration = Duration::from_mins(2);
/// How many more requests than were answered a client may give up before its connection is closed.
pub(super) const GIVEN_UP: u64 = 100;

/// What happens on one connection.
pub(super) struct Activity {
    accepted: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the requests that are under way began.
    under_way: BTreeMap<u64, Instant>,
    next: u64,
    answered: u64,
    given_up: u64,
    idle_since: Option<Instant>,
}

/// How little a connection is needed: the smallest is closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// It has never sent a request, since then.
    Unused(Instant),
    /// It is idle since then.
    Idle(Instant),
    /// It has had a request under way since then.
    Busy(Instant),
}

impl Activity {
    pub(super) fn new() -> Self {
        Self { accepted: Instant::now(), state: Mutex::default() }
    }

    /// Begins a request, which ends when what is returned is dropped.
    pub(super) fn begin(activity: &Arc<Self>, slot: Option<OwnedSemaphorePermit>) -> UnderWay {
        let mut state = activity.state.lock();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number, Instant::now());
        UnderWay { activity: activity.clone(), number, slot, is_answered: false }
    }

    /// When the connection is to be closed unless something happens before.
    pub(super) fn deadline(&self) -> Instant {
        let state = self.state.lock();
        if state.given_up > state.answered + GIVEN_UP {
            return self.accepted;
        }
        match (state.under_way.values().next(), state.idle_since) {
            (Some(began), _) => *began + REQUEST,
            (None, Some(since)) => since + IDLE,
            (None, None) => self.accepted + FIRST,
        }
    }

    /// Whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().under_way.is_empty()
    }

    pub(super) fn need(&self) -> Need {
        let state = self.state.lock();
        match (state.under_way.values().next(), state.idle_since) {
            (Some(began), _) => Need::Busy(*began),
            (None, Some(since)) => Need::Idle(since),
            (None, None) => Need::Unused(self.accepted),
        }
    }
}

/// A request that is under way.
pub(super) struct UnderWay {
    activity: Arc<Activity>,
    number: u64,
    slot: Option<OwnedSemaphorePermit>,
    is_answered: bool,
}

impl UnderWay {
    /// Whether there was room for the request.
    pub(super) fn has_slot(&self) -> bool {
        self.slot.is_some()
    }

    /// Records that there is a response: the client has not given the request up.
    pub(super) fn answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.under_way.remove(&self.number);
        if self.is_answered {
            state.answered += 1;
        } else {
            state.given_up += 1;
        }
        if state.under_way.is_empty() {
            state.idle_since = Some(Instant::now());
        }
    }
}

/// The body of a response. The request ends when the last byte was handed to the system, not when
/// it was queued: a client that does not read still has its request under way.
pub(super) struct Tracked {
    body: Body,
    under_way: Arc<UnderWay>,
}

impl Tracked {
    pub(super) fn new(body: Body, under_way: UnderWay) -> Self {
        Self { body, under_way: Arc::new(under_way) }
    }
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let under_way = &self.under_way;
        let tracked = |bytes| Bytes::from_owner(TrackedBytes { bytes, _under_way: under_way.clone() });
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
    _under_way: Arc<UnderWay>,
}

impl AsRef<[u8]> for TrackedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(activity: &Arc<Activity>) -> UnderWay {
        Activity::begin(activity, None)
    }

    #[test]
    fn a_connection_has_a_deadline_at_all_times() {
        let activity = Arc::new(Activity::new());
        assert_eq!(activity.deadline(), activity.accepted + FIRST);
        let first = begin(&activity);
        let began = Instant::now();
        let second = begin(&activity);
        assert!(activity.deadline() <= began + REQUEST, "it is that of the oldest request");
        drop(first);
        assert!(activity.deadline() >= began + REQUEST);
        assert!(!activity.is_idle());
        drop(second);
        assert!(activity.is_idle() && activity.deadline() >= began + IDLE);
    }

    #[test]
    fn who_gives_up_many_requests_and_waits_for_few_answers_is_overdue() {
        let activity = Arc::new(Activity::new());
        let answer = || {
            let mut under_way = begin(&activity);
            under_way.answered();
        };
        for _ in 0..10 * GIVEN_UP {
            answer();
            drop(begin(&activity));
        }
        assert!(
            activity.deadline() > Instant::now(),
            "an API server that is in a hurry now and then is none of them"
        );
        for _ in 0..=GIVEN_UP {
            drop(begin(&activity));
        }
        assert!(activity.deadline() <= Instant::now());
    }

    #[tokio::test]
    async fn a_request_ends_when_the_last_byte_of_its_answer_is_gone() {
        let activity = Arc::new(Activity::new());
        let mut body = Tracked::new(Body::from("answer"), begin(&activity));
        let frame = futures::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let bytes = frame.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert!(!activity.is_idle(), "it is queued, not sent");
        assert_eq!(bytes, "answer");
        drop(bytes);
        assert!(activity.is_idle());
    }
}

//! Delivery of the calls that are due at one time.
//!
//! A call is made only after the status marks it as started, with a deadline. The status is written
//! with the resource version that was read, so only one replica succeeds, regardless of its cache.
//! A new leader waits for the deadline of calls that a crashed or paused leader started.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use operator_core::fence;
use parking_lot::Mutex;
use tokio::sync::SemaphorePermit;

use super::plan::{self, Call};
use crate::api::{HookStatus, NamespacePlus};

/// Calls for events, with permits for those that are due.
pub(crate) struct Round<'h> {
    pub(super) calls: Vec<Call<'h>>,
    pub(super) room: Vec<SemaphorePermit<'h>>,
    pub(super) now: Timestamp,
    /// The same time on the monotonic clock of the fence.
    pub(super) began: Duration,
    /// IDs of the calls that the latest status marks as started.
    begun: Mutex<Vec<String>>,
}

/// Results of calls, by ID.
#[derive(Default)]
pub(crate) struct Answers(pub(super) Vec<(String, Result<u16, String>)>);

impl<'h> Round<'h> {
    pub(super) fn new(calls: Vec<Call<'h>>) -> Self {
        let (now, began) = (Timestamp::now(), fence::now());
        Self { calls, room: Vec::new(), now, began, begun: Mutex::default() }
    }

    /// Returns the number of due calls according to the status.
    pub(super) fn due(&self, object: &NamespacePlus) -> usize {
        let known = plan::known_of(object, &self.calls);
        known.iter().filter(|one| self.is_due(one)).count()
    }

    /// Returns the status to write before the calls: due calls with a permit are started.
    pub(crate) fn begin(&self, object: &NamespacePlus) -> Vec<HookStatus> {
        let mut known = plan::known_of(object, &self.calls);
        let mut begun = Vec::new();
        for one in known.iter_mut().filter(|one| self.is_due(one)).take(self.room.len()) {
            if let Some(call) = self.calls.iter().find(|call| call.id == one.id) {
                plan::begin(one, call.hook, self.now);
                begun.push(one.id.clone());
            }
        }
        *self.begun.lock() = begun;
        known
    }

    /// Returns the status to write after the calls.
    pub(crate) fn end(&self, object: &NamespacePlus, answers: &Answers) -> Vec<HookStatus> {
        let mut known = plan::known_of(object, &self.calls);
        let now = Timestamp::now();
        for (id, answer) in &answers.0 {
            if let Some(one) = known.iter_mut().find(|one| one.id == *id) {
                plan::note(one, answer.clone(), now);
            }
        }
        known
    }

    /// Returns the calls to make after the status is written.
    pub(super) fn begun(&self) -> Vec<&Call<'h>> {
        let begun = self.begun.lock();
        self.calls.iter().filter(|call| begun.contains(&call.id)).collect()
    }

    fn is_due(&self, one: &HookStatus) -> bool {
        self.calls.iter().any(|call| call.id == one.id) && plan::is_due(one, self.now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::{
        api::{HookEvent, NamespacePlusStatus},
        hooks::plan::{Happened, calls},
        testing::object,
    };

    fn plus() -> NamespacePlus {
        let hook = |name| json!({ "name": name, "on": ["Created"], "url": "https://chat.example.com/" });
        object(json!({ "hooks": [hook("a"), hook("b")] }))
    }

    fn round<'h>(object: &'h NamespacePlus, room: &'h Semaphore) -> Round<'h> {
        let happened = Happened { event: HookEvent::Created, occasion: "1".into() };
        let mut round = Round::new(calls(object, &[happened]));
        round.room = std::iter::from_fn(|| room.try_acquire().ok()).take(round.due(object)).collect();
        round
    }

    fn saying(object: &NamespacePlus, hooks: Vec<HookStatus>) -> NamespacePlus {
        let status = NamespacePlusStatus { hooks, ..NamespacePlusStatus::default() };
        NamespacePlus { status: Some(status), ..object.clone() }
    }

    #[test]
    fn what_the_last_write_did_not_say_is_not_made() {
        let (object, room) = (plus(), Semaphore::new(8));
        let (mine, theirs) = (round(&object, &room), round(&object, &room));
        let live = saying(&object, theirs.begin(&object));
        mine.begin(&object);
        assert_eq!(mine.begun().len(), 2);
        // The write failed with a conflict, so the status is computed again.
        assert_eq!(mine.begin(&live), live.status.clone().unwrap().hooks);
        assert_eq!((mine.begun().len(), theirs.begun().len()), (0, 2));
    }

    #[test]
    fn without_room_a_call_stays_due() {
        let (object, room) = (plus(), Semaphore::new(1));
        let one = round(&object, &room);
        let said = one.begin(&object);
        assert_eq!(one.begun().len(), 1);
        let answers = Answers(vec![(one.begun()[0].id.clone(), Ok(200))]);
        let object = saying(&object, one.end(&saying(&object, said), &answers));
        drop(one);
        let other = round(&object, &room);
        other.begin(&object);
        assert_eq!(other.begun().iter().map(|call| call.hook.name.as_str()).collect::<Vec<_>>(), ["b"]);
    }
}

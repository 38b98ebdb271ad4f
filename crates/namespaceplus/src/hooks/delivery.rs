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
pub(crate) struct Delivery<'h> {
    pub(super) calls: Vec<Call<'h>>,
    pub(super) permits: Vec<SemaphorePermit<'h>>,
    pub(super) now: Timestamp,
    /// The same time on the monotonic clock of the fence.
    pub(super) started_at: Duration,
    /// IDs of the calls that the latest status marks as started.
    started: Mutex<Vec<String>>,
}

/// Results of calls, by ID.
#[derive(Default)]
pub(crate) struct Responses(pub(super) Vec<(String, Result<u16, String>)>);

impl<'h> Delivery<'h> {
    pub(super) fn new(calls: Vec<Call<'h>>) -> Self {
        let (now, started_at) = (Timestamp::now(), fence::now());
        Self { calls, permits: Vec::new(), now, started_at, started: Mutex::default() }
    }

    /// Returns the number of due calls according to the status.
    pub(super) fn due(&self, object: &NamespacePlus) -> usize {
        let known = plan::statuses_for(object, &self.calls);
        known.iter().filter(|one| self.is_due(one)).count()
    }

    /// Returns the status to write before the calls: due calls with a permit are started.
    pub(crate) fn start(&self, object: &NamespacePlus) -> Vec<HookStatus> {
        let mut known = plan::statuses_for(object, &self.calls);
        let mut started = Vec::new();
        for one in known.iter_mut().filter(|one| self.is_due(one)).take(self.permits.len()) {
            if let Some(call) = self.calls.iter().find(|call| call.id == one.id) {
                plan::start(one, call.hook, self.now);
                started.push(one.id.clone());
            }
        }
        *self.started.lock() = started;
        known
    }

    /// Returns the status to write after the calls.
    pub(crate) fn end(&self, object: &NamespacePlus, responses: &Responses) -> Vec<HookStatus> {
        let mut known = plan::statuses_for(object, &self.calls);
        let now = Timestamp::now();
        for (id, answer) in &responses.0 {
            if let Some(one) = known.iter_mut().find(|one| one.id == *id) {
                plan::record_result(one, answer.clone(), now);
            }
        }
        known
    }

    /// Returns the calls to make after the status is written.
    pub(super) fn started(&self) -> Vec<&Call<'h>> {
        let started = self.started.lock();
        self.calls.iter().filter(|call| started.contains(&call.id)).collect()
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
        hooks::plan::{Occurrence, calls},
        testing::object,
    };

    fn namespace_plus() -> NamespacePlus {
        let hook = |name| json!({ "name": name, "on": ["Created"], "url": "https://chat.example.com/" });
        object(json!({ "hooks": [hook("a"), hook("b")] }))
    }

    fn delivery<'h>(object: &'h NamespacePlus, permits: &'h Semaphore) -> Delivery<'h> {
        let occurrences = Occurrence { event: HookEvent::Created, occurrence_id: "1".into() };
        let mut delivery = Delivery::new(calls(object, &[occurrences]));
        delivery.permits =
            std::iter::from_fn(|| permits.try_acquire().ok()).take(delivery.due(object)).collect();
        delivery
    }

    fn with_status(object: &NamespacePlus, hooks: Vec<HookStatus>) -> NamespacePlus {
        let status = NamespacePlusStatus { hooks, ..NamespacePlusStatus::default() };
        NamespacePlus { status: Some(status), ..object.clone() }
    }

    #[test]
    fn makes_only_calls_in_the_latest_status() {
        let (object, permits) = (namespace_plus(), Semaphore::new(8));
        let (mine, theirs) = (delivery(&object, &permits), delivery(&object, &permits));
        let live = with_status(&object, theirs.start(&object));
        mine.start(&object);
        assert_eq!(mine.started().len(), 2);
        // The write failed with a conflict, so the status is computed again.
        assert_eq!(mine.start(&live), live.status.clone().unwrap().hooks);
        assert_eq!((mine.started().len(), theirs.started().len()), (0, 2));
    }

    #[test]
    fn call_without_permit_stays_due() {
        let (object, permits) = (namespace_plus(), Semaphore::new(1));
        let one = delivery(&object, &permits);
        let statuses = one.start(&object);
        assert_eq!(one.started().len(), 1);
        let responses = Responses(vec![(one.started()[0].id.clone(), Ok(200))]);
        let object = with_status(&object, one.end(&with_status(&object, statuses), &responses));
        drop(one);
        let other = delivery(&object, &permits);
        other.start(&object);
        assert_eq!(other.started().iter().map(|call| call.hook.name.as_str()).collect::<Vec<_>>(), ["b"]);
    }
}

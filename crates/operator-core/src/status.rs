//! Writing status: one PUT when it differs, the first at once, the rest gathered.
//!
//! A change of status that another client made has the object reconciled, which repairs it. A change that the writer
//! itself made does not: the writer knows the status that is on its way.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::{Client, ResourceExt, api::PostParams, core::object::HasStatus};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    error::{is_conflict, is_missing, is_not_found},
    informer::{Change, Informer},
    kind::{Kind, ObjectKey, describe},
    outcome::Outcome,
    write::{WriteError, retry_on_conflict},
};

/// The least time between two status writes of one object. A status write costs the API server more than the
/// creation of a pod, and a person cannot read faster.
const GATHER: Duration = Duration::from_millis(100);
/// The least time before a write that tells only how far things are, which nobody waits for.
const PROGRESS: Duration = Duration::from_secs(1);

/// Writes the status of the objects of a kind.
pub struct StatusWriter<K: HasStatus> {
    client: Client,
    informer: Informer<K>,
    written: Mutex<HashMap<ObjectKey, Instant>>,
    own: Arc<OwnWrites<K>>,
}

/// Clears the fields of a status that others write by right.
pub(crate) type ClearShared<K> = fn(&mut <K as HasStatus>::Status);

/// The status writes that are on their way: serialized, because times lose their fractions when they are sent.
pub(crate) struct OwnWrites<K: HasStatus> {
    in_flight: Mutex<HashMap<ObjectKey, Value>>,
    clear_shared: ClearShared<K>,
}

impl<K> OwnWrites<K>
where
    K: Kind + HasStatus,
    K::Status: Clone + PartialEq + Serialize,
{
    /// Whether another client changed what the controller says in the status.
    ///
    /// A write of our own is known from before it is sent until its answer is in the store. After that, its event is no
    /// change any more.
    pub(crate) fn is_foreign(&self, change: &Change<K>) -> bool {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
        if old.status() == new.status() {
            return false;
        }
        let after = self.own_part(new);
        self.own_part(old) != after
            && self.in_flight.lock().get(&change.key) != Some(&serialized(after.as_ref()))
    }

    fn own_part(&self, object: &K) -> Option<K::Status> {
        let mut status = object.status().cloned();
        if let Some(status) = &mut status {
            (self.clear_shared)(status);
        }
        status
    }

    fn begin(&self, key: &ObjectKey, sent: &K) -> InFlight<'_, K> {
        self.in_flight.lock().insert(key.clone(), serialized(self.own_part(sent).as_ref()));
        InFlight { own: self, key: key.clone() }
    }
}

fn serialized(status: Option<&impl Serialize>) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

/// A status write that is on its way; also ends when the reconcile is cut off.
struct InFlight<'o, K: HasStatus> {
    own: &'o OwnWrites<K>,
    key: ObjectKey,
}

impl<K: HasStatus> Drop for InFlight<'_, K> {
    fn drop(&mut self) {
        self.own.in_flight.lock().remove(&self.key);
    }
}

impl<K> StatusWriter<K>
where
    K: Kind + Serialize + HasStatus,
    K::Status: Clone + PartialEq + Serialize,
{
    /// Writes through `client` and lets `informer` know. `clear_shared` clears the fields that others write by right.
    pub(crate) fn new(client: Client, informer: Informer<K>, clear_shared: ClearShared<K>) -> Self {
        let own = Arc::new(OwnWrites { in_flight: Mutex::default(), clear_shared });
        Self { client, informer, written: Mutex::default(), own }
    }

    /// Tells own changes of status from those of others.
    pub(crate) fn own_writes(&self) -> Arc<OwnWrites<K>> {
        self.own.clone()
    }

    /// Makes the object's status what `next` says, and tells how the reconcile goes on.
    ///
    /// `next` is given the object as it was reconciled, with the status that it has now: what was done was done
    /// for that spec, whatever somebody has asked since. If the status is that already, nothing is sent. The first
    /// write goes out at once. One that comes within 100 ms of the last is put off; so is one that comes within a
    /// second and only tells how far things are, in numbers, lists of names, or other words of a condition. The outcome
    /// asks to be called again then, so that the last word always gets written.
    ///
    /// An object that is gone, or was replaced by a namesake, is left alone.
    pub async fn write(&self, object: &K, next: impl Fn(&K) -> K::Status) -> Result<Outcome, WriteError> {
        let status = next(object);
        if object.status() == Some(&status) {
            return Ok(Outcome::Done);
        }
        let key = ObjectKey::of(object);
        let is_news = || object.status().is_none_or(|before| news(before) != news(&status));
        if let Some(wait) = self.must_wait(&key, is_news) {
            return Ok(Outcome::RequeueAfter(wait));
        }
        self.put(&key, object, status, next).await?;
        Ok(Outcome::Done)
    }

    async fn put(
        &self,
        key: &ObjectKey,
        object: &K,
        status: K::Status,
        next: impl Fn(&K) -> K::Status,
    ) -> Result<(), WriteError> {
        let api = K::api(self.client.clone(), key.namespace());
        let attempt = async |round: u32| {
            let send = match round {
                0 => Some(with_status(object, Some(status.clone()))),
                _ => api.get_opt(key.name()).await?.and_then(|live| renewed(object, live, &next)),
            };
            let Some(send) = send else { return Ok(()) };
            let moment = self.informer.store().now();
            let _in_flight = self.own.begin(key, &send);
            let answer = api.replace_status(key.name(), &PostParams::default(), &send).await;
            let mut answer = answer.inspect_err(|error| {
                if is_missing(error, key) {
                    self.informer.removed(moment, key, send.uid().as_deref());
                }
            })?;
            answer.meta_mut().managed_fields = None;
            self.informer.wrote(moment, answer);
            Ok(())
        };
        match retry_on_conflict(attempt, is_conflict).await {
            Err(error) if !is_not_found(&error) => Err(WriteError::Api {
                action: "write the status of",
                object: describe::<K>(key),
                source: error,
            }),
            _ => Ok(()),
        }
    }

    /// How long the object has to wait for its next status write, which may be news; `None`, which counts as a write, if
    /// it may go at once.
    fn must_wait(&self, key: &ObjectKey, is_news: impl FnOnce() -> bool) -> Option<Duration> {
        let now = Instant::now();
        let mut written = self.written.lock();
        written.retain(|_, at| now.duration_since(*at) < PROGRESS);
        let wait = written.get(key).and_then(|at| {
            let pause = if is_news() { GATHER } else { PROGRESS };
            pause.checked_sub(now.duration_since(*at)).filter(|wait| !wait.is_zero())
        });
        if wait.is_none() {
            written.insert(key.clone(), now);
        }
        wait
    }
}

/// What of a status is more than how far things are: all but numbers, lists of names, and the words of conditions.
fn news(status: &impl Serialize) -> Value {
    let mut status = serde_json::to_value(status).unwrap_or_default();
    for (field, value) in status.as_object_mut().into_iter().flatten() {
        match value {
            Value::Number(_) if field != "observedGeneration" => *value = Value::Null,
            Value::Array(items) if field == "conditions" => {
                for condition in items.iter_mut().filter_map(Value::as_object_mut) {
                    condition.retain(|field, _| field == "type" || field == "status");
                }
            }
            Value::Array(items) if items.iter().all(Value::is_string) => *value = Value::Null,
            _ => {}
        }
    }
    status
}

fn with_status<K: Kind + HasStatus>(object: &K, status: Option<K::Status>) -> K {
    let mut object = object.clone();
    *object.status_mut() = status;
    object
}

/// The live object with its next status, unless it has that already or is another incarnation.
fn renewed<K>(object: &K, mut live: K, next: impl Fn(&K) -> K::Status) -> Option<K>
where
    K: Kind + HasStatus,
    K::Status: Clone + PartialEq,
{
    let status = next(&with_status(object, live.status().cloned()));
    if live.uid() != object.uid() || live.status() == Some(&status) {
        return None;
    }
    *live.status_mut() = Some(status);
    Some(live)
}

#[cfg(test)]
mod tests {
    use kube::CustomResource;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize)]
    #[kube(
        group = "example.com",
        version = "v1",
        kind = "Gadget",
        status = "GadgetStatus",
        schema = "disabled"
    )]
    struct GadgetSpec {}

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct GadgetStatus {
        count: i64,
        shared: i64,
    }

    fn gadget(status: Option<(i64, i64)>) -> Gadget {
        let mut gadget = Gadget::new("a", GadgetSpec {});
        gadget.status = status.map(|(count, shared)| GadgetStatus { count, shared });
        gadget
    }

    #[test]
    fn a_change_of_status_is_foreign_unless_it_is_on_its_way_or_shared() {
        let own = OwnWrites::<Gadget> {
            in_flight: Mutex::default(),
            clear_shared: |status: &mut GadgetStatus| status.shared = 0,
        };
        let is_foreign = |old: Option<(i64, i64)>, new: Option<(i64, i64)>| {
            let [old, new] = [old, new].map(|status| Some(Arc::new(gadget(status))));
            own.is_foreign(&Change { key: ObjectKey::cluster("a"), old, new })
        };
        assert!(is_foreign(Some((1, 0)), Some((2, 0))));
        assert!(is_foreign(Some((1, 0)), None), "it was cleared");
        assert!(!is_foreign(Some((1, 0)), Some((1, 0))));
        assert!(!is_foreign(Some((1, 0)), Some((1, 5))), "others write that field by right");
        let in_flight = own.begin(&ObjectKey::cluster("a"), &gadget(Some((2, 0))));
        assert!(!is_foreign(Some((1, 0)), Some((2, 5))));
        assert!(is_foreign(Some((1, 0)), Some((3, 0))), "something else than what was sent");
        drop(in_flight);
        assert!(is_foreign(Some((1, 0)), Some((2, 0))));
    }

    #[test]
    fn numbers_names_and_words_are_no_news_and_all_else_is() {
        let status = |ready: &str, message: &str, generation: i64, pods: i32, hook: &str| {
            let condition = json!({ "type": "Ready", "status": ready, "message": message });
            let names: Vec<_> = (0..pods).map(|number| format!("pod-{number}")).collect();
            news(&json!({
                "observedGeneration": generation, "replicas": pods, "podNames": names, "conditions": [condition],
                "hooks": [{ "state": hook }],
            }))
        };
        let before = status("False", "0 of 3", 1, 0, "Pending");
        assert_eq!(before, status("False", "2 of 3", 1, 2, "Pending"));
        assert_ne!(before, status("True", "all", 1, 3, "Pending"));
        assert_ne!(before, status("False", "0 of 3", 2, 0, "Pending"));
        assert_ne!(before, status("False", "0 of 3", 1, 0, "Calling"));
        assert_ne!(before, news(&json!({})));
    }
}

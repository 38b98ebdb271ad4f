//! Writes of the status: one PUT if it differs, at a limited rate.
//!
//! If another client changes a status, the object is reconciled, which repairs it. The writer's own
//! changes do not trigger a reconcile: the writer tracks the status that is in flight.

mod throttle;

use std::{collections::HashMap, sync::Arc};

use kube::{Client, ResourceExt, api::PostParams, core::object::HasStatus};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use self::throttle::{Throttle, Write};
use crate::{
    error::{WriteError, is_conflict, is_not_found, is_object_not_found},
    informer::{Change, Informer},
    kind::{Kind, ObjectKey, describe},
    outcome::Outcome,
    write::retry_on_conflict,
};

/// Writes the status of objects of one kind.
pub struct StatusWriter<K: HasStatus> {
    client: Client,
    informer: Informer<K>,
    throttle: Mutex<Throttle>,
    own: Arc<OwnWrites<K>>,
}

/// Clears the fields of a status that other clients write too.
pub(crate) type ClearShared<K> = fn(&mut <K as HasStatus>::Status);

/// Status writes in flight. Serialized, because timestamps lose their fractions when they are sent.
pub(crate) struct OwnWrites<K: HasStatus> {
    in_flight: Mutex<HashMap<ObjectKey, Value>>,
    clear_shared: ClearShared<K>,
}

impl<K> OwnWrites<K>
where
    K: Kind + HasStatus,
    K::Status: Clone + PartialEq + Serialize,
{
    /// Returns whether another client changed the fields that the controller owns.
    ///
    /// A write of this process is tracked until its response is in the store. After that, its event
    /// is no change.
    pub(crate) fn is_foreign(&self, change: &Change<K>) -> bool {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
        if old.status() == new.status() {
            return false;
        }
        let after = self.owned_fields(new);
        self.owned_fields(old) != after
            && self.in_flight.lock().get(&change.key) != Some(&serialized(after.as_ref()))
    }

    fn owned_fields(&self, object: &K) -> Option<K::Status> {
        let mut status = object.status().cloned();
        if let Some(status) = &mut status {
            (self.clear_shared)(status);
        }
        status
    }

    fn begin(&self, key: &ObjectKey, sent: &K) -> InFlight<'_, K> {
        self.in_flight.lock().insert(key.clone(), serialized(self.owned_fields(sent).as_ref()));
        InFlight { own: self, key: key.clone() }
    }
}

fn serialized(status: Option<&impl Serialize>) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

/// A status write in flight. Ends when dropped, also if the reconcile is aborted.
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
    /// Returns a writer that sends with `client` and records responses in `informer`.
    /// `clear_shared` clears the fields that other clients write too.
    pub(crate) fn new(client: Client, informer: Informer<K>, clear_shared: ClearShared<K>) -> Self {
        let own = Arc::new(OwnWrites { in_flight: Mutex::default(), clear_shared });
        Self { client, informer, throttle: Mutex::default(), own }
    }

    /// Returns the tracker of this writer's requests in flight.
    pub(crate) fn own_writes(&self) -> Arc<OwnWrites<K>> {
        self.own.clone()
    }

    /// Writes the status that `next` computes, if it differs from the current one.
    ///
    /// `next` receives the object as it was reconciled, with its current status: the reconcile used
    /// that spec, even if the spec has changed since.
    ///
    /// The first write is sent immediately. A write within 100 ms of the previous one is postponed.
    /// So is a write within one second that only reports progress: numbers, lists of names, and
    /// messages and reasons of conditions. While the condition `Ready` is false, that is three seconds,
    /// and up to one minute while many objects are not ready. Then the outcome requests another
    /// reconcile, so the last status is always written.
    ///
    /// Does nothing if the object no longer exists or was replaced by another one with its name.
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if the request fails.
    pub async fn write(&self, object: &K, next: impl Fn(&K) -> K::Status) -> Result<Outcome, WriteError> {
        let status = next(object);
        if object.status() == Some(&status) {
            return Ok(Outcome::Done);
        }
        let key = ObjectKey::of(object);
        let write = Write::between(object.status(), &status);
        if let Some(wait) = self.throttle.lock().delay(&key, write, Instant::now()) {
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
                _ => api.get_opt(key.name()).await?.and_then(|live| rebase(object, live, &next)),
            };
            let Some(send) = send else { return Ok(()) };
            let epoch = self.informer.store().epoch();
            let _in_flight = self.own.begin(key, &send);
            let response = api.replace_status(key.name(), &PostParams::default(), &send).await;
            let mut response = response.inspect_err(|error| {
                if is_object_not_found(error, key) {
                    self.informer.record_delete(epoch, key, send.uid().as_deref());
                }
            })?;
            response.meta_mut().managed_fields = None;
            self.informer.record_write(epoch, response);
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
}

fn with_status<K: Kind + HasStatus>(object: &K, status: Option<K::Status>) -> K {
    let mut object = object.clone();
    *object.status_mut() = status;
    object
}

/// Returns the live object with its next status. Returns `None` if the status is equal or the UID
/// differs.
fn rebase<K>(object: &K, mut live: K, next: impl Fn(&K) -> K::Status) -> Option<K>
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
    fn detects_foreign_status_changes() {
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
        assert!(!is_foreign(Some((1, 0)), Some((1, 5))), "other clients write that field");
        let in_flight = own.begin(&ObjectKey::cluster("a"), &gadget(Some((2, 0))));
        assert!(!is_foreign(Some((1, 0)), Some((2, 5))));
        assert!(is_foreign(Some((1, 0)), Some((3, 0))), "differs from what was sent");
        drop(in_flight);
        assert!(is_foreign(Some((1, 0)), Some((2, 0))));
    }
}

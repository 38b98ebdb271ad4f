//! Writing status: one PUT when it differs, the first at once, the rest gathered.

use std::{collections::HashMap, time::Duration};

use kube::{Client, ResourceExt, api::PostParams, core::object::HasStatus};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    error::{is_conflict, is_missing, is_not_found},
    informer::Informer,
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
pub struct StatusWriter<K> {
    client: Client,
    informer: Informer<K>,
    written: Mutex<HashMap<ObjectKey, Instant>>,
}

impl<K> StatusWriter<K>
where
    K: Kind + Serialize + HasStatus,
    K::Status: Clone + PartialEq + Serialize,
{
    /// Writes through `client` and lets `informer` know.
    pub fn new(client: Client, informer: Informer<K>) -> Self {
        Self { client, informer, written: Mutex::default() }
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
    use serde_json::json;

    use super::*;

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

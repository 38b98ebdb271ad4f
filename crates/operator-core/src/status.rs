//! Writing status: one PUT when it differs, the first at once, the rest gathered.

use std::{collections::HashMap, time::Duration};

use kube::{Client, ResourceExt, api::PostParams};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    error::{is_conflict, is_not_found},
    informer::Informer,
    kind::{Kind, ObjectKey, describe},
    outcome::Outcome,
    write::{WriteError, retry_on_conflict},
};

/// The least time between two status writes of one object. A status write costs the API server more than the
/// creation of a pod, and a person cannot read faster.
const GATHER: Duration = Duration::from_millis(100);

/// Writes the status of the objects of a kind.
pub struct StatusWriter<K> {
    client: Client,
    informer: Informer<K>,
    written: Mutex<HashMap<ObjectKey, Instant>>,
}

impl<K: Kind + Serialize> StatusWriter<K> {
    /// Writes through `client` and lets `informer` know.
    pub fn new(client: Client, informer: Informer<K>) -> Self {
        Self { client, informer, written: Mutex::default() }
    }

    /// Makes the object's status what `set` says, and tells how the reconcile goes on.
    ///
    /// `set` changes the status in a copy of the object and says whether it differs from what was there; if
    /// not, nothing is sent. The first write goes out at once. One that comes within 100 ms of the last is put
    /// off: the outcome asks to be called again then, so that the last word always gets written.
    ///
    /// An object that is gone, or was replaced by a namesake, is left alone.
    pub async fn write(&self, object: &K, set: impl Fn(&mut K) -> bool) -> Result<Outcome, WriteError> {
        let mut wanted = object.clone();
        if !set(&mut wanted) {
            return Ok(Outcome::Done);
        }
        let key = ObjectKey::of(object);
        if let Some(wait) = self.must_wait(&key) {
            return Ok(Outcome::RequeueAfter(wait));
        }
        self.put(&key, object, wanted, &set).await?;
        Ok(Outcome::Done)
    }

    async fn put(
        &self,
        key: &ObjectKey,
        object: &K,
        wanted: K,
        set: &impl Fn(&mut K) -> bool,
    ) -> Result<(), WriteError> {
        let api = K::api(self.client.clone(), key.namespace());
        let attempt = async |round: u32| {
            let mut next = wanted.clone();
            if round > 0 {
                let Some(live) = api.get_opt(key.name()).await? else { return Ok(()) };
                next = live;
                if next.uid() != object.uid() || !set(&mut next) {
                    return Ok(());
                }
            }
            let moment = self.informer.store().now();
            let mut answer = api.replace_status(key.name(), &PostParams::default(), &next).await?;
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

    /// How long the object has to wait for its next status write; `None`, which counts as a write, if it may
    /// go at once.
    fn must_wait(&self, key: &ObjectKey) -> Option<Duration> {
        let now = Instant::now();
        let mut written = self.written.lock();
        written.retain(|_, at| now.duration_since(*at) < GATHER);
        let wait = written.get(key).map(|at| GATHER.saturating_sub(now.duration_since(*at)));
        if wait.is_none() {
            written.insert(key.clone(), now);
        }
        wait
    }
}

//! Observes the cluster with watches that bypass the proxy.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures::{StreamExt, pin_mut};
use kube::{
    Client, ResourceExt,
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{Config, Event, watcher},
    },
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    kinds::{Kind, LEASE, OBSERVED},
    token::Token,
};

/// Kind, namespace, and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its kind.
    pub kind: &'static str,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource version after the change. It orders the changes of all objects.
    pub version: u64,
    /// The object.
    pub id: Id,
    /// The object after the change, or before its deletion.
    pub object: Arc<Value>,
    /// Whether the object was deleted.
    pub is_gone: bool,
    /// Whether a list reported the change after a watch failed. Earlier changes may be missing.
    pub is_listed: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |pointer: &str| self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let Id { kind, namespace, name } = &self.id;
        write!(f, "{} {kind} {namespace}/{name} uid={}", self.version, text("/metadata/uid"))?;
        let owner = text("/metadata/ownerReferences/0/uid");
        if !owner.is_empty() {
            write!(f, " owner={owner}")?;
        }
        if self.is_gone {
            return write!(f, " is gone");
        }
        if !text("/metadata/deletionTimestamp").is_empty() {
            return write!(f, " is terminating");
        }
        Ok(())
    }
}

/// The current objects of a run.
pub type State = BTreeMap<Id, Arc<Value>>;

/// The history of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The changes in the order in which they were received.
    pub changes: Vec<Change>,
    /// The current state.
    pub state: State,
}

impl History {
    /// Returns the changes ordered by resource version.
    pub fn in_order(&self) -> Vec<Change> {
        let mut changes = self.changes.clone();
        changes.sort_by_key(|change| change.version);
        changes
    }

    /// Returns the state before this version.
    pub fn before(&self, version: u64) -> State {
        let mut state = State::new();
        for change in self.in_order().into_iter().filter(|change| change.version < version) {
            if change.is_gone {
                state.remove(&change.id);
            } else {
                state.insert(change.id, change.object);
            }
        }
        state
    }
}

/// Watches all kinds. Stops on drop.
pub struct Observer {
    histories: Arc<Mutex<BTreeMap<Token, History>>>,
    moment: watch::Receiver<u64>,
    _watches: JoinSet<()>,
}

impl Observer {
    /// Starts watching.
    pub fn follow(client: &Client) -> Self {
        let histories = Arc::<Mutex<BTreeMap<Token, History>>>::default();
        let (tick, moment) = watch::channel(0);
        let tick = Arc::new(tick);
        let mut watches = JoinSet::new();
        for kind in OBSERVED {
            watches.spawn(follow(kind, client.clone(), histories.clone(), tick.clone()));
        }
        Self { histories, moment, _watches: watches }
    }

    /// Returns the history of a run.
    pub fn history(&self, token: Token) -> History {
        self.histories.lock().get(&token).cloned().unwrap_or_default()
    }

    /// Returns the current state of a run.
    pub fn state(&self, token: Token) -> State {
        self.histories.lock().get(&token).map(|history| history.state.clone()).unwrap_or_default()
    }

    /// Returns the number of changes in a run.
    pub fn count(&self, token: Token) -> usize {
        self.histories.lock().get(&token).map_or(0, |history| history.changes.len())
    }

    /// Returns a channel that is notified of every change.
    pub fn moment(&self) -> watch::Receiver<u64> {
        self.moment.clone()
    }

    /// Drops the history of a run.
    pub fn forget(&self, token: Token) {
        self.histories.lock().remove(&token);
    }
}

async fn follow(
    kind: &'static Kind,
    client: Client,
    histories: Arc<Mutex<BTreeMap<Token, History>>>,
    tick: Arc<watch::Sender<u64>>,
) {
    let events = watcher(kind.everywhere(client), Config::default().streaming_lists()).default_backoff();
    pin_mut!(events);
    // The objects of the current list, while there is one.
    let mut listed: Option<Vec<Id>> = None;
    while let Some(event) = events.next().await {
        let mut histories = histories.lock();
        match event {
            Ok(Event::Init) => listed = Some(Vec::new()),
            Ok(Event::InitApply(object)) => {
                if let Some(listed) = &mut listed {
                    listed.push(id(kind, &object));
                }
                record(&mut histories, kind, object, How::Listed);
            }
            Ok(Event::InitDone) => record_missing(&mut histories, kind, &listed.take().unwrap_or_default()),
            Ok(Event::Apply(object)) => record(&mut histories, kind, object, How::Changed),
            Ok(Event::Delete(object)) => record(&mut histories, kind, object, How::Gone),
            Err(_) => {}
        }
        drop(histories);
        tick.send_modify(|count| *count += 1);
    }
}

fn id(kind: &Kind, object: &DynamicObject) -> Id {
    Id { kind: kind.singular, namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

/// Source of a change.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Changed,
    Gone,
    Listed,
}

fn record(histories: &mut BTreeMap<Token, History>, kind: &Kind, mut object: DynamicObject, how: How) {
    let is_gone = how == How::Gone;
    let id = id(kind, &object);
    let Some(token) = Token::of(&id.namespace, &id.name) else { return };
    object.metadata.managed_fields = None;
    let version = object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default();
    let history = histories.entry(token).or_default();
    let object = Arc::new(serde_json::to_value(&object).unwrap_or_default());
    let known = history.state.get(&id);
    if !is_gone && known.is_some_and(|known| *known == object || is_renewal(kind, known, &object)) {
        return;
    }
    if is_gone {
        history.state.remove(&id);
    } else {
        history.state.insert(id.clone(), object.clone());
    }
    history.changes.push(Change { version, id, object, is_gone, is_listed: how == How::Listed });
}

/// Returns whether the holder of a Lease renewed it, which says nothing about its cluster.
fn is_renewal(kind: &Kind, before: &Value, after: &Value) -> bool {
    let is_same = |field: &str| before.pointer(field) == after.pointer(field);
    *kind == LEASE
        && ["/metadata/uid", "/metadata/annotations", "/spec/holderIdentity"].into_iter().all(is_same)
}

/// Records the deletion of objects that are missing in a list.
fn record_missing(histories: &mut BTreeMap<Token, History>, kind: &Kind, listed: &[Id]) {
    for history in histories.values_mut() {
        let last = history.changes.iter().map(|change| change.version).max().unwrap_or_default();
        let gone = history.state.extract_if(.., |id, _| id.kind == kind.singular && !listed.contains(id));
        let gone: Vec<_> = gone.collect();
        for (id, object) in gone {
            let version = last + 1;
            history.changes.push(Change { version, id, object, is_gone: true, is_listed: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::POD;

    fn pod(name: &str, version: &str) -> DynamicObject {
        let metadata = json!({ "namespace": "n", "name": name, "resourceVersion": version });
        serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata })).unwrap()
    }

    #[test]
    fn history_returns_earlier_state() {
        let mut histories = BTreeMap::new();
        record(&mut histories, &POD, pod("r000001-a", "5"), How::Changed);
        record(&mut histories, &POD, pod("r000001-b", "9"), How::Changed);
        record(&mut histories, &POD, pod("r000001-a", "7"), How::Gone);
        record(&mut histories, &POD, pod("stranger", "8"), How::Changed);
        let history = &histories[&Token::nth(1)];
        assert_eq!(history.before(7).len(), 1);
        assert_eq!(history.before(8).len(), 0);
        assert_eq!(history.state.len(), 1);
        assert_eq!(histories.len(), 1);
    }

    #[test]
    fn objects_missing_in_a_list_are_deleted() {
        let mut histories = BTreeMap::new();
        record(&mut histories, &POD, pod("r000001-a", "5"), How::Changed);
        record(&mut histories, &POD, pod("r000001-b", "6"), How::Listed);
        record_missing(&mut histories, &POD, &[id(&POD, &pod("r000001-a", "5"))]);
        let history = &histories[&Token::nth(1)];
        assert_eq!(history.state.len(), 1);
        assert!(history.changes.last().unwrap().is_gone);
    }
}

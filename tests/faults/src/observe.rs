//! What really happens: watches of its own, directly at the API server.

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
    kinds::{Kind, OBSERVED},
    token::Token,
};

/// One object, by kind, namespace and name.
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
    /// The version that came of it. Of two changes, the later one has the higher version, whatever they change.
    pub version: u64,
    /// The object.
    pub id: Id,
    /// The object as it became, or as it was last if it is gone.
    pub object: Arc<Value>,
    /// Whether it is gone.
    pub is_gone: bool,
    /// Whether a list has told of it, after a watch that broke: there may have been others before it.
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
            return write!(f, " is being deleted");
        }
        Ok(())
    }
}

/// The objects of a run as they are.
pub type State = BTreeMap<Id, Arc<Value>>;

/// All that has happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// The changes, as they came.
    pub changes: Vec<Change>,
    /// What is there now.
    pub state: State,
}

impl Story {
    /// The changes in the order in which they happened, whichever watch told of them first.
    pub fn in_order(&self) -> Vec<Change> {
        let mut changes = self.changes.clone();
        changes.sort_by_key(|change| change.version);
        changes
    }

    /// What there was before this version.
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

/// Follows all kinds. Ends when it is dropped.
pub struct Observer {
    stories: Arc<Mutex<BTreeMap<Token, Story>>>,
    moment: watch::Receiver<u64>,
    _watches: JoinSet<()>,
}

impl Observer {
    /// Begins.
    pub fn follow(client: &Client) -> Self {
        let stories = Arc::<Mutex<BTreeMap<Token, Story>>>::default();
        let (tick, moment) = watch::channel(0);
        let tick = Arc::new(tick);
        let mut watches = JoinSet::new();
        for kind in OBSERVED {
            watches.spawn(follow(kind, client.clone(), stories.clone(), tick.clone()));
        }
        Self { stories, moment, _watches: watches }
    }

    /// What has happened in a run so far.
    pub fn story(&self, token: Token) -> Story {
        self.stories.lock().get(&token).cloned().unwrap_or_default()
    }

    /// The objects of a run as they are now.
    pub fn state(&self, token: Token) -> State {
        self.stories.lock().get(&token).map(|story| story.state.clone()).unwrap_or_default()
    }

    /// How many changes a run has seen.
    pub fn count(&self, token: Token) -> usize {
        self.stories.lock().get(&token).map_or(0, |story| story.changes.len())
    }

    /// Tells of every change.
    pub fn moment(&self) -> watch::Receiver<u64> {
        self.moment.clone()
    }

    /// Forgets a run.
    pub fn forget(&self, token: Token) {
        self.stories.lock().remove(&token);
    }
}

async fn follow(
    kind: &'static Kind,
    client: Client,
    stories: Arc<Mutex<BTreeMap<Token, Story>>>,
    tick: Arc<watch::Sender<u64>>,
) {
    let events = watcher(kind.everywhere(client), Config::default().streaming_lists()).default_backoff();
    pin_mut!(events);
    // The objects that a list has told of so far, while there is one.
    let mut listed: Option<Vec<Id>> = None;
    while let Some(event) = events.next().await {
        let mut stories = stories.lock();
        match event {
            Ok(Event::Init) => listed = Some(Vec::new()),
            Ok(Event::InitApply(object)) => {
                if let Some(listed) = &mut listed {
                    listed.push(id(kind, &object));
                }
                take_in(&mut stories, kind, object, How::Listed);
            }
            Ok(Event::InitDone) => vanish(&mut stories, kind, &listed.take().unwrap_or_default()),
            Ok(Event::Apply(object)) => take_in(&mut stories, kind, object, How::Changed),
            Ok(Event::Delete(object)) => take_in(&mut stories, kind, object, How::Gone),
            Err(_) => {}
        }
        drop(stories);
        tick.send_modify(|count| *count += 1);
    }
}

fn id(kind: &Kind, object: &DynamicObject) -> Id {
    Id { kind: kind.singular, namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

/// How a change came to be known.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Changed,
    Gone,
    Listed,
}

fn take_in(stories: &mut BTreeMap<Token, Story>, kind: &Kind, mut object: DynamicObject, how: How) {
    let is_gone = how == How::Gone;
    let id = id(kind, &object);
    let Some(token) = Token::of(&id.namespace, &id.name) else { return };
    object.metadata.managed_fields = None;
    let version = object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default();
    let story = stories.entry(token).or_default();
    let object = Arc::new(serde_json::to_value(&object).unwrap_or_default());
    if !is_gone && story.state.get(&id) == Some(&object) {
        return;
    }
    if is_gone {
        story.state.remove(&id);
    } else {
        story.state.insert(id.clone(), object.clone());
    }
    story.changes.push(Change { version, id, object, is_gone, is_listed: how == How::Listed });
}

/// Takes out what a list no longer has.
fn vanish(stories: &mut BTreeMap<Token, Story>, kind: &Kind, listed: &[Id]) {
    for story in stories.values_mut() {
        let last = story.changes.iter().map(|change| change.version).max().unwrap_or_default();
        let gone = story.state.extract_if(.., |id, _| id.kind == kind.singular && !listed.contains(id));
        let gone: Vec<_> = gone.collect();
        for (id, object) in gone {
            let version = last + 1;
            story.changes.push(Change { version, id, object, is_gone: true, is_listed: true });
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
    fn a_story_knows_what_there_was_before() {
        let mut stories = BTreeMap::new();
        take_in(&mut stories, &POD, pod("r000001-a", "5"), How::Changed);
        take_in(&mut stories, &POD, pod("r000001-b", "9"), How::Changed);
        take_in(&mut stories, &POD, pod("r000001-a", "7"), How::Gone);
        take_in(&mut stories, &POD, pod("stranger", "8"), How::Changed);
        let story = &stories[&Token::nth(1)];
        assert_eq!(story.before(7).len(), 1);
        assert_eq!(story.before(8).len(), 0);
        assert_eq!(story.state.len(), 1);
        assert_eq!(stories.len(), 1);
    }

    #[test]
    fn what_a_list_no_longer_has_is_gone() {
        let mut stories = BTreeMap::new();
        take_in(&mut stories, &POD, pod("r000001-a", "5"), How::Changed);
        take_in(&mut stories, &POD, pod("r000001-b", "6"), How::Listed);
        vanish(&mut stories, &POD, &[id(&POD, &pod("r000001-a", "5"))]);
        let story = &stories[&Token::nth(1)];
        assert_eq!(story.state.len(), 1);
        assert!(story.changes.last().unwrap().is_gone);
    }
}

//! A model of an API server with lists and a watch. It drives a store through random orders of
//! events.
//!
//! The process's own requests are sent, committed, and answered in separate steps. Relists, writes
//! of other clients, events, and a restore of etcd can happen between them. When everything has
//! been delivered, the store must contain the objects of the server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use proptest::{collection::vec, prelude::*, strategy::Union};

use super::{
    super::Selection,
    tests::{key, object},
    *,
};
use crate::labels::{MANAGED_BY, MANAGER};

/// The objects of one name have no packed form.
impl Pack for ConfigMap {
    type Packed = Self;

    fn pack(&self) -> Option<Self> {
        (self.name_any() == NAMES[0]).then(|| Self {
            metadata: ObjectMeta { name: None, namespace: None, ..self.metadata.clone() },
            ..self.clone()
        })
    }

    fn unpack(key: &ObjectKey, packed: &Self) -> Self {
        let mut object = packed.clone();
        object.metadata.name = Some(key.name().to_owned());
        object.metadata.namespace = key.namespace().map(str::to_owned);
        object
    }
}

/// Names of the objects in the model.
const NAMES: [&str; 2] = ["a", "b"];

#[derive(Clone, Copy, Debug)]
enum Verb {
    Create,
    Update,
    Delete,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Another client changes an object.
    Foreign(Verb, usize),
    /// Another client removes or adds the label of the selection.
    Relabel(usize),
    /// The process sends a request.
    Send(Verb, usize),
    /// The server executes one of the sent requests.
    Commit(usize),
    /// A response arrives.
    Respond(usize),
    /// A response is lost.
    Lose(usize),
    /// The next event of the watch arrives.
    Event,
    /// The watch breaks.
    Break,
    /// The relist takes one step. The list is this many revisions old.
    List(usize),
    /// etcd is restored to a state that is this many revisions old.
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let verb = || prop_oneof![Just(Verb::Create), Just(Verb::Update), Just(Verb::Delete)];
    let name = || 0..NAMES.len();
    prop_oneof![
        6 => (verb(), name()).prop_map(|(verb, name)| Step::Foreign(verb, name)),
        1 => name().prop_map(Step::Relabel),
        6 => (verb(), name()).prop_map(|(verb, name)| Step::Send(verb, name)),
        6 => (0_usize..3).prop_map(Step::Commit),
        6 => (0_usize..3).prop_map(Step::Respond),
        1 => (0_usize..3).prop_map(Step::Lose),
        6 => Just(Step::Event),
        2 => Just(Step::Break),
        12 => (0_usize..3).prop_map(Step::List),
        1 => (0_usize..4).prop_map(Step::Restore),
    ]
}

/// An object of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    uid: usize,
    version: u64,
    is_labelled: bool,
    is_terminating: bool,
}

impl Record {
    /// Returns whether another finalizer delays the deletion. Every other object has one.
    fn has_finalizer(&self) -> bool {
        self.uid.is_multiple_of(2)
    }

    fn object(&self, name: usize) -> ConfigMap {
        let mut object = object(NAMES[name], self.version);
        object.metadata.uid = Some(self.uid.to_string());
        object.metadata.labels =
            self.is_labelled.then(|| [(MANAGED_BY.to_owned(), MANAGER.to_owned())].into());
        object.metadata.deletion_timestamp = self.is_terminating.then_some(Time(Timestamp::UNIX_EPOCH));
        object
    }
}

type State = BTreeMap<usize, Record>;

struct Server {
    restores: u64,
    next_uid: usize,
    /// The state after each revision with its version. The first one is empty.
    states: Vec<(u64, State)>,
}

/// Larger than the number of restores in a run.
const RESTORES: u64 = 100;

impl Server {
    fn new() -> Self {
        Self { restores: 0, next_uid: 0, states: vec![(0, State::new())] }
    }

    fn state(&self) -> State {
        self.states.last().map(|(_, state)| state.clone()).unwrap_or_default()
    }

    fn revision(&self) -> usize {
        self.states.len() - 1
    }

    /// Returns the version of the next revision. Versions decrease with a restore. An object never
    /// gets the same version again: in a real cluster, other objects use up nearly all versions.
    fn next_version(&self) -> u64 {
        (self.revision() as u64 + 1) * RESTORES + self.restores
    }

    fn commit(&mut self, state: State) {
        self.states.push((self.next_version(), state));
    }

    /// Applies a request, if possible. Returns the object after it, or its last version.
    fn execute(&mut self, verb: Verb, name: usize) -> Option<Record> {
        let (mut state, version) = (self.state(), self.next_version());
        let changed = match (verb, state.get(&name).cloned()) {
            (Verb::Create, None) => {
                self.next_uid += 1;
                Record { uid: self.next_uid, version, is_labelled: true, is_terminating: false }
            }
            (Verb::Update, Some(found)) => Record { version, ..found },
            (Verb::Delete, Some(found)) => {
                let ends = !found.has_finalizer() || found.is_terminating;
                let changed = Record { version, is_terminating: true, ..found };
                if ends {
                    state.remove(&name);
                    self.commit(state);
                    return Some(changed);
                }
                changed
            }
            _ => return None,
        };
        state.insert(name, changed.clone());
        self.commit(state);
        Some(changed)
    }
}

/// A request of the process.
struct Request {
    epoch: Epoch,
    verb: Verb,
    name: usize,
    /// UID of the object in the request.
    uid: Option<String>,
}

enum Response {
    Object(Record),
    Gone,
    NotFound,
    /// A conflict, or the name exists already.
    Rejected,
}

/// State of the watch.
enum Watch {
    Broken,
    /// The relist has begun, but its request was not executed.
    Begun,
    /// Listed objects that have not arrived, and the revision of the list.
    Listing(VecDeque<ConfigMap>, usize),
    /// The events up to this revision have arrived.
    Following(usize),
}

struct Model {
    selection: Selection,
    server: Server,
    store: Store<ConfigMap>,
    /// Sum of the changes that the store reported.
    mirror: BTreeMap<String, ConfigMap>,
    watch: Watch,
    sent: Vec<Request>,
    responses: Vec<(Request, Response)>,
}

impl Model {
    fn new(selection: Selection, packer: Option<Packer<ConfigMap>>) -> Self {
        let store = Store::new(&[None], selection, packer);
        Self {
            selection,
            server: Server::new(),
            store,
            mirror: BTreeMap::new(),
            watch: Watch::Broken,
            sent: Vec::new(),
            responses: Vec::new(),
        }
    }

    fn selects(&self, record: &Record) -> bool {
        self.selection == Selection::All || record.is_labelled
    }

    /// Returns the selected objects of a state.
    fn selected(&self, state: &State) -> Vec<ConfigMap> {
        let selected = state.iter().filter(|(_, record)| self.selects(record));
        selected.map(|(name, record)| record.object(*name)).collect()
    }

    fn record(&mut self, changes: impl IntoIterator<Item = Change<ConfigMap>>) {
        for Change { key, old, new } in changes {
            let before = match new {
                Some(new) => self.mirror.insert(key.name().to_owned(), (*new).clone()),
                None => self.mirror.remove(key.name()),
            };
            assert_eq!(
                before.as_ref(),
                old.as_deref(),
                "the change of {key} does not continue the previous one"
            );
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Foreign(verb, name) => drop(self.server.execute(verb, name)),
            Step::Relabel(name) => self.relabel(name),
            Step::Send(verb, name) => self.send(verb, name),
            Step::Commit(number) if number < self.sent.len() => self.commit(number),
            Step::Respond(number) if number < self.responses.len() => self.respond(number),
            Step::Lose(number) if number < self.responses.len() => drop(self.responses.remove(number)),
            Step::Event => self.event(),
            Step::Break => self.watch = Watch::Broken,
            Step::List(age) => self.list(age),
            Step::Restore(age) => self.restore(age),
            Step::Commit(_) | Step::Respond(_) | Step::Lose(_) => {}
        }
    }

    fn relabel(&mut self, name: usize) {
        if let Some(found) = self.server.execute(Verb::Update, name) {
            let record = Record { is_labelled: !found.is_labelled, ..found };
            self.server.states.last_mut().unwrap().1.insert(name, record);
        }
    }

    fn send(&mut self, verb: Verb, name: usize) {
        let uid = self.store.get(&key(NAMES[name])).and_then(|cached| cached.uid());
        if matches!(verb, Verb::Create) == uid.is_none() {
            self.sent.push(Request { epoch: self.store.epoch(), verb, name, uid });
        }
    }

    fn commit(&mut self, number: usize) {
        let request = self.sent.remove(number);
        let found = self.server.state().get(&request.name).cloned();
        let matches = |found: &Record| request.uid.as_ref().is_some_and(|uid| *uid == found.uid.to_string());
        let response = match (request.verb, found) {
            (Verb::Create, Some(_)) => Response::Rejected,
            (Verb::Update | Verb::Delete, None) => Response::NotFound,
            (Verb::Update | Verb::Delete, Some(found)) if !matches(&found) => Response::Rejected,
            (verb, _) => match self.server.execute(verb, request.name) {
                Some(_) if !self.server.state().contains_key(&request.name) => Response::Gone,
                Some(record) => Response::Object(record),
                None => Response::Rejected,
            },
        };
        self.responses.push((request, response));
    }

    fn respond(&mut self, number: usize) {
        let (request, response) = self.responses.remove(number);
        let change = match response {
            Response::Object(record) => self.store.record_write(request.epoch, record.object(request.name)),
            Response::Gone | Response::NotFound => {
                self.store.record_delete(request.epoch, &key(NAMES[request.name]), request.uid.as_deref())
            }
            Response::Rejected => None,
        };
        self.record(change);
    }

    /// Delivers the next event.
    fn event(&mut self) {
        let Watch::Following(revision) = self.watch else { return };
        let Some((version, after)) = self.server.states.get(revision + 1).cloned() else { return };
        let before = self.server.states[revision].1.clone();
        self.watch = Watch::Following(revision + 1);
        for name in before.keys().chain(after.keys()).copied().collect::<BTreeSet<_>>() {
            let old = before.get(&name).filter(|record| self.selects(record));
            let new = after.get(&name).filter(|record| self.selects(record));
            let change = match (old, new) {
                (old, new) if old == new => None,
                (_, Some(record)) => self.store.apply_event(record.object(name)),
                _ => self.store.apply_deletion(&key(NAMES[name]), version),
            };
            self.record(change);
        }
    }

    fn list(&mut self, age: usize) {
        match std::mem::replace(&mut self.watch, Watch::Broken) {
            Watch::Broken => {
                self.store.begin_relist(None);
                self.watch = Watch::Begun;
            }
            Watch::Begun => {
                let revision = self.server.revision().saturating_sub(age);
                let objects = self.selected(&self.server.states[revision].1);
                self.watch = Watch::Listing(objects.into(), revision);
            }
            Watch::Listing(mut objects, revision) => {
                if let Some(object) = objects.pop_front() {
                    let change = self.store.apply_listed(object);
                    self.record(change);
                    self.watch = Watch::Listing(objects, revision);
                } else {
                    let changes = self.store.end_relist(None);
                    self.record(changes);
                    self.watch = Watch::Following(revision);
                }
            }
            Watch::Following(revision) => self.watch = Watch::Following(revision),
        }
    }

    fn restore(&mut self, age: usize) {
        self.server.states.truncate(self.server.states.len().saturating_sub(age).max(1));
        self.server.restores += 1;
        self.watch = Watch::Broken;
    }

    /// Delivers everything, with the responses before or after lists and events.
    fn deliver_all(&mut self, responses_first: bool) {
        while !self.sent.is_empty() {
            self.commit(0);
        }
        if responses_first {
            self.respond_all();
        }
        while !matches!(self.watch, Watch::Following(revision) if revision == self.server.revision()) {
            self.list(0);
            self.event();
        }
        self.respond_all();
    }

    fn respond_all(&mut self) {
        while !self.responses.is_empty() {
            self.respond(0);
        }
    }
}

fn check(
    selection: Selection,
    packer: Option<Packer<ConfigMap>>,
    steps: &[Step],
    responses_first: bool,
) -> Result<(), TestCaseError> {
    let mut model = Model::new(selection, packer);
    for step in steps {
        model.step(*step);
    }
    model.deliver_all(responses_first);
    let expected = model.selected(&model.server.state());
    let mut cached: Vec<_> = model.store.list().iter().map(|object| (**object).clone()).collect();
    cached.sort_by_key(ResourceExt::name_any);
    prop_assert_eq!(&cached, &expected, "the store differs from the server");
    prop_assert_eq!(model.mirror.into_values().collect::<Vec<_>>(), expected, "a change was not reported");
    Ok(())
}

#[test]
fn store_converges_for_any_order_of_events_and_responses() {
    let selection = || prop_oneof![Just(Selection::All), Just(Selection::Managed)];
    let config = ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() };
    let packer = || {
        let packed = [pack::<ConfigMap> as Packer<_>, pack_as_json].map(|packer| Just(Some(packer)));
        prop_oneof![Just(None), Union::new(packed)]
    };
    let steps = || vec(step(), 1..40);
    proptest!(config, |(selection in selection(), packer in packer(), steps in steps(), responses_first: bool)| {
        check(selection, packer, &steps, responses_first)?;
    });
}

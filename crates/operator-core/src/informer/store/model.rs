//! A model of an API server, its lists and its watch, that drives a store through every order of events.
//!
//! Requests of our own are sent, committed and answered in separate steps, so that anything can happen between them:
//! a relist that begins or ends, writes of others, events, a restore of etcd. Once everything has been delivered, the
//! store must hold what the server holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use proptest::{collection::vec, prelude::*};

use super::{
    super::Selection,
    tests::{key, object},
    *,
};
use crate::labels::{MANAGED_BY, MANAGER};

/// Names of objects in the model.
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
    /// Another client takes the label away by which an informer selects objects, or puts it back.
    Relabel(usize),
    /// A request of our own is sent.
    Send(Verb, usize),
    /// The server executes one of the requests that were sent.
    Commit(usize),
    /// An answer arrives.
    Answer(usize),
    /// An answer is lost.
    Lose(usize),
    /// The next event of the watch arrives.
    Event,
    /// The watch breaks.
    Break,
    /// The relist goes one step further; the list is that many revisions old.
    List(usize),
    /// etcd is restored to a state that is that many revisions old.
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
        6 => (0_usize..3).prop_map(Step::Answer),
        1 => (0_usize..3).prop_map(Step::Lose),
        6 => Just(Step::Event),
        2 => Just(Step::Break),
        12 => (0_usize..3).prop_map(Step::List),
        1 => (0_usize..4).prop_map(Step::Restore),
    ]
}

/// An object as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    uid: usize,
    version: u64,
    is_labelled: bool,
    is_terminating: bool,
}

impl Record {
    /// Every other object has a finalizer of somebody else, so that a delete does not end it.
    fn is_held(&self) -> bool {
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
    /// The state after each revision, with its version; the empty one first.
    states: Vec<(u64, State)>,
}

/// More than the restores of a run.
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

    /// Versions go back with a restore. That one object gets the very version again that it had before is left out: other
    /// objects use up nearly all versions.
    fn next_version(&self) -> u64 {
        (self.revision() as u64 + 1) * RESTORES + self.restores
    }

    fn commit(&mut self, state: State) {
        self.states.push((self.next_version(), state));
    }

    /// Changes an object, if that is possible; returns it as it is, or was last.
    fn execute(&mut self, verb: Verb, name: usize) -> Option<Record> {
        let (mut state, version) = (self.state(), self.next_version());
        let changed = match (verb, state.get(&name).cloned()) {
            (Verb::Create, None) => {
                self.next_uid += 1;
                Record { uid: self.next_uid, version, is_labelled: true, is_terminating: false }
            }
            (Verb::Update, Some(found)) => Record { version, ..found },
            (Verb::Delete, Some(found)) => {
                let ends = !found.is_held() || found.is_terminating;
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

/// A request of our own on its way.
struct Request {
    moment: Moment,
    verb: Verb,
    name: usize,
    /// The incarnation that is meant.
    uid: Option<String>,
}

enum Answer {
    Object(Record),
    Gone,
    NotFound,
    /// A conflict, or a name that is taken.
    Refused,
}

/// What the watch does.
enum Watch {
    Broken,
    /// The relist has begun; its request has not been executed.
    Begun,
    /// Objects of the list that have not arrived, and the revision of the list.
    Listing(VecDeque<ConfigMap>, usize),
    /// The events up to this revision have arrived.
    Following(usize),
}

struct Model {
    selection: Selection,
    server: Server,
    store: Store<ConfigMap>,
    /// What the changes that the store reported add up to.
    mirror: BTreeMap<String, ConfigMap>,
    watch: Watch,
    sent: Vec<Request>,
    answered: Vec<(Request, Answer)>,
}

impl Model {
    fn new(selection: Selection) -> Self {
        let store = Store::new(&[None], selection);
        Self {
            selection,
            server: Server::new(),
            store,
            mirror: BTreeMap::new(),
            watch: Watch::Broken,
            sent: Vec::new(),
            answered: Vec::new(),
        }
    }

    fn selects(&self, record: &Record) -> bool {
        self.selection == Selection::All || record.is_labelled
    }

    /// What an informer shows of a state.
    fn selected(&self, state: &State) -> Vec<ConfigMap> {
        let selected = state.iter().filter(|(_, record)| self.selects(record));
        selected.map(|(name, record)| record.object(*name)).collect()
    }

    fn told(&mut self, changes: impl IntoIterator<Item = Change<ConfigMap>>) {
        for Change { key, old, new } in changes {
            let before = match new {
                Some(new) => self.mirror.insert(key.name().to_owned(), (*new).clone()),
                None => self.mirror.remove(key.name()),
            };
            assert_eq!(
                before.as_ref(),
                old.as_deref(),
                "the change of {key} does not continue the one before"
            );
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Foreign(verb, name) => drop(self.server.execute(verb, name)),
            Step::Relabel(name) => self.relabel(name),
            Step::Send(verb, name) => self.send(verb, name),
            Step::Commit(number) if number < self.sent.len() => self.commit(number),
            Step::Answer(number) if number < self.answered.len() => self.answer(number),
            Step::Lose(number) if number < self.answered.len() => drop(self.answered.remove(number)),
            Step::Event => self.event(),
            Step::Break => self.watch = Watch::Broken,
            Step::List(age) => self.list(age),
            Step::Restore(age) => self.restore(age),
            Step::Commit(_) | Step::Answer(_) | Step::Lose(_) => {}
        }
    }

    fn relabel(&mut self, name: usize) {
        if let Some(found) = self.server.execute(Verb::Update, name) {
            let record = Record { is_labelled: !found.is_labelled, ..found };
            self.server.states.last_mut().unwrap().1.insert(name, record);
        }
    }

    fn send(&mut self, verb: Verb, name: usize) {
        let uid = self.store.get(&key(NAMES[name])).and_then(|known| known.uid());
        if matches!(verb, Verb::Create) == uid.is_none() {
            self.sent.push(Request { moment: self.store.now(), verb, name, uid });
        }
    }

    fn commit(&mut self, number: usize) {
        let request = self.sent.remove(number);
        let found = self.server.state().get(&request.name).cloned();
        let is_meant = |found: &Record| request.uid.as_ref().is_some_and(|uid| *uid == found.uid.to_string());
        let answer = match (request.verb, found) {
            (Verb::Create, Some(_)) => Answer::Refused,
            (Verb::Update | Verb::Delete, None) => Answer::NotFound,
            (Verb::Update | Verb::Delete, Some(found)) if !is_meant(&found) => Answer::Refused,
            (verb, _) => match self.server.execute(verb, request.name) {
                Some(_) if !self.server.state().contains_key(&request.name) => Answer::Gone,
                Some(record) => Answer::Object(record),
                None => Answer::Refused,
            },
        };
        self.answered.push((request, answer));
    }

    fn answer(&mut self, number: usize) {
        let (request, answer) = self.answered.remove(number);
        let change = match answer {
            Answer::Object(record) => self.store.wrote(request.moment, record.object(request.name)),
            Answer::Gone | Answer::NotFound => {
                self.store.removed(request.moment, &key(NAMES[request.name]), request.uid.as_deref())
            }
            Answer::Refused => None,
        };
        self.told(change);
    }

    /// Delivers the first event after the one that arrived last.
    fn event(&mut self) {
        let Watch::Following(revision) = self.watch else { return };
        let Some((version, after)) = self.server.states.get(revision + 1).cloned() else { return };
        let before = self.server.states[revision].1.clone();
        self.watch = Watch::Following(revision + 1);
        for name in before.keys().chain(after.keys()).copied().collect::<BTreeSet<_>>() {
            let was_shown = before.get(&name).filter(|record| self.selects(record));
            let is_shown = after.get(&name).filter(|record| self.selects(record));
            let change = match (was_shown, is_shown) {
                (before, after) if before == after => None,
                (_, Some(record)) => self.store.applied(record.object(name)),
                _ => self.store.deleted(&key(NAMES[name]), version),
            };
            self.told(change);
        }
    }

    fn list(&mut self, age: usize) {
        match std::mem::replace(&mut self.watch, Watch::Broken) {
            Watch::Broken => {
                self.store.relist_began(None);
                self.watch = Watch::Begun;
            }
            Watch::Begun => {
                let revision = self.server.revision().saturating_sub(age);
                let objects = self.selected(&self.server.states[revision].1);
                self.watch = Watch::Listing(objects.into(), revision);
            }
            Watch::Listing(mut objects, revision) => {
                if let Some(object) = objects.pop_front() {
                    let change = self.store.listed(object);
                    self.told(change);
                    self.watch = Watch::Listing(objects, revision);
                } else {
                    let changes = self.store.relist_ended(None);
                    self.told(changes);
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

    /// Delivers everything; answers come before the rest of lists and events, or after it.
    fn settle(&mut self, answers_first: bool) {
        while !self.sent.is_empty() {
            self.commit(0);
        }
        if answers_first {
            self.answer_all();
        }
        while !matches!(self.watch, Watch::Following(revision) if revision == self.server.revision()) {
            self.list(0);
            self.event();
        }
        self.answer_all();
    }

    fn answer_all(&mut self) {
        while !self.answered.is_empty() {
            self.answer(0);
        }
    }
}

fn check(selection: Selection, steps: &[Step], answers_first: bool) -> Result<(), TestCaseError> {
    let mut model = Model::new(selection);
    for step in steps {
        model.step(*step);
    }
    model.settle(answers_first);
    let expected = model.selected(&model.server.state());
    let mut held: Vec<_> = model.store.list().iter().map(|object| (**object).clone()).collect();
    held.sort_by_key(ResourceExt::name_any);
    prop_assert_eq!(&held, &expected, "the store is not what the server has");
    prop_assert_eq!(model.mirror.into_values().collect::<Vec<_>>(), expected, "a change was not reported");
    Ok(())
}

#[test]
fn a_store_comes_to_hold_what_the_server_holds_in_whatever_order_it_learns_of_it() {
    let selection = || prop_oneof![Just(Selection::All), Just(Selection::Managed)];
    let config = ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(selection in selection(), steps in vec(step(), 1..40), answers_first: bool)| {
        check(selection, &steps, answers_first)?;
    });
}

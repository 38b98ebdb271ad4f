//! Model test: several processes that share renewals of several Leases, and one API server, with
//! arbitrary events in any order. At most one process leads by each Lease at any time.
//!
//! Time is real time in milliseconds. Each process has its own clock, with an arbitrary start and as
//! much drift as the margin between renew deadline and lease duration allows.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::Timestamp;
use proptest::{collection::vec, prelude::*, strategy::ValueTree};

use super::*;
use crate::{Machine, Step, Timing, WriteResult, Writer, record_with_anchor, unused};

const PROCESSES: usize = 3;
const LEASES: [&str; 3] = ["a", "b", "c"];
/// Maximum drift of a clock with the default durations.
const DRIFT: f64 = 0.2;

#[derive(Clone, Debug)]
enum Event {
    /// Time passes.
    Pass(u64),
    /// A candidate sends a request and receives the response.
    Exchange(usize, usize),
    /// All candidates of a process do, and then its watch delivers everything.
    Round(usize),
    /// All processes do, once a second.
    Steady(u64),
    /// A candidate sends its request, which arrives at the API server. Its response arrives, if there is
    /// one; otherwise the request fails after its timeout.
    Send(usize, usize),
    Arrive(usize, usize),
    Respond(usize, usize),
    /// The response is lost.
    Lose(usize, usize),
    /// A request arrives after its timeout.
    ArriveLate(usize),
    /// The watch of a process delivers some changes. It breaks, and works again.
    Watch(usize, usize),
    Break(usize),
    Mend(usize),
    /// A process is paused and resumed.
    Freeze(usize),
    Thaw(usize),
    /// The network between a process and the API server fails and recovers.
    Cut(usize),
    Heal(usize),
    /// A candidate is stopped. It ends without a release, and begins again. A process is killed.
    Resign(usize, usize),
    Abandon(usize, usize),
    Crash(usize),
    /// A user changes a Lease.
    Delete(usize),
    Empty(usize),
    Seize(usize),
    Touch(usize),
    Shorten(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let (process, lease) = (|| 0..PROCESSES, || 0..LEASES.len());
    let candidate = || (process(), lease());
    prop_oneof![
        24 => prop_oneof![1_u64..100, 100_u64..3_000, 3_000_u64..16_000].prop_map(Event::Pass),
        20 => candidate().prop_map(|(process, lease)| Event::Exchange(process, lease)),
        20 => process().prop_map(Event::Round),
        12 => (1_u64..12).prop_map(Event::Steady),
        8 => candidate().prop_map(|(process, lease)| Event::Send(process, lease)),
        10 => candidate().prop_map(|(process, lease)| Event::Arrive(process, lease)),
        8 => candidate().prop_map(|(process, lease)| Event::Respond(process, lease)),
        2 => candidate().prop_map(|(process, lease)| Event::Lose(process, lease)),
        2 => (0_usize..8).prop_map(Event::ArriveLate),
        10 => (process(), 1_usize..5).prop_map(|(process, changes)| Event::Watch(process, changes)),
        1 => process().prop_map(Event::Break),
        2 => process().prop_map(Event::Mend),
        2 => process().prop_map(Event::Freeze),
        3 => process().prop_map(Event::Thaw),
        2 => process().prop_map(Event::Cut),
        3 => process().prop_map(Event::Heal),
        1 => candidate().prop_map(|(process, lease)| Event::Resign(process, lease)),
        1 => candidate().prop_map(|(process, lease)| Event::Abandon(process, lease)),
        1 => process().prop_map(Event::Crash),
        2 => (0_usize..6, lease()).prop_map(|(change, lease)| match change {
            0 | 1 => Event::Delete(lease),
            2 => Event::Empty(lease),
            3 => Event::Seize(lease),
            4 => Event::Touch(lease),
            _ => Event::Shorten(lease),
        }),
    ]
}

/// Request in flight.
#[derive(Clone, Debug)]
struct Request {
    step: Step,
    /// What a write sends.
    desired: Option<Lease>,
    from: String,
    started: Duration,
    arrived: bool,
    /// The Lease as it was read, and its anchor.
    found: Option<Lease>,
    anchor: Option<Lease>,
    /// The result of a write, with the Lease as it was stored.
    written: Option<(WriteResult, Option<Lease>)>,
    is_complete: bool,
    is_lost: bool,
}

struct Candidate {
    machine: Machine,
    /// The Lease as it was last read or written.
    lease: Option<Lease>,
    cached: Option<crate::LeaseRecord>,
    leads: bool,
    request: Option<Request>,
}

impl Candidate {
    fn new(identity: &str, now: Duration) -> Self {
        let machine = Machine::new(identity.to_owned(), Timing::default(), now);
        Self { machine, lease: None, cached: None, leads: false, request: None }
    }
}

struct Process {
    identity: String,
    candidates: Vec<Candidate>,
    shared: SharedRenewal,
    /// How many changes the watch has delivered.
    watched: usize,
    is_live: bool,
    /// Start and speed of its clock.
    offset: f64,
    speed: f64,
    frozen: bool,
    cut: bool,
    restarts: usize,
}

struct Model {
    time: u64,
    processes: Vec<Process>,
    /// The Leases after each change.
    history: Vec<BTreeMap<String, Lease>>,
    /// Requests after their timeout, with their Leases.
    late: Vec<(usize, Request)>,
    terms: usize,
    extensions: usize,
    /// Number of writes that were stored, of each Lease.
    writes: [usize; LEASES.len()],
}

impl Model {
    fn new(clocks: &[(f64, f64)]) -> Self {
        let leases = LEASES.map(|name| {
            let mut lease = unused(name, "default", BTreeMap::new());
            lease.metadata.resource_version = Some(format!("0{name}"));
            (name.to_owned(), lease)
        });
        let processes = clocks.iter().enumerate().map(|(number, (offset, speed))| {
            let identity = format!("{number}-0");
            Process {
                candidates: LEASES.map(|_| Candidate::new(&identity, Duration::ZERO)).into(),
                identity,
                shared: SharedRenewal::default(),
                watched: 0,
                is_live: true,
                offset: *offset,
                speed: *speed,
                frozen: false,
                cut: false,
                restarts: 0,
            }
        });
        Self {
            time: 0,
            processes: processes.collect(),
            history: vec![leases.into()],
            late: Vec::new(),
            terms: 0,
            extensions: 0,
            writes: [0; LEASES.len()],
        }
    }

    /// Returns the time of a process's clock.
    fn clock(&self, process: usize) -> Duration {
        let Process { offset, speed, .. } = self.processes[process];
        #[allow(clippy::cast_precision_loss, reason = "the time of a test is small")]
        Duration::from_secs_f64(offset + self.time as f64 * speed / 1000.0)
    }

    fn stored(&self, lease: usize) -> Option<&Lease> {
        self.history.last()?.get(LEASES[lease])
    }

    fn store(&mut self, mut lease: Lease) -> Lease {
        let mut leases = self.history.last().unwrap().clone();
        lease.metadata.resource_version = Some(self.history.len().to_string());
        leases.insert(lease.metadata.name.clone().unwrap(), lease.clone());
        self.history.push(leases);
        lease
    }

    fn change(&mut self, lease: usize, change: impl FnOnce(&mut LeaseSpec)) {
        if let Some(mut lease) = self.stored(lease).cloned() {
            change(lease.spec.get_or_insert_default());
            self.store(lease);
        }
    }

    /// Handles a request like the API server: creates only a missing Lease, and replaces only the
    /// expected version.
    fn serve(
        &mut self,
        lease: usize,
        write: &Write,
        desired: Option<&Lease>,
    ) -> (WriteResult, Option<Lease>) {
        let version = self.stored(lease).map(|lease| lease.metadata.resource_version.clone().unwrap());
        let is_possible = match write {
            Write::Create | Write::Recreate => version.is_none(),
            Write::Acquire(expected) | Write::Renew(expected) | Write::Release(expected) => {
                version.as_ref() == Some(expected)
            }
        };
        match desired.filter(|_| is_possible) {
            Some(desired) => {
                self.writes[lease] += 1;
                let stored = self.store(desired.clone());
                (WriteResult::Committed(stored.metadata.resource_version.clone().unwrap()), Some(stored))
            }
            None => (WriteResult::Rejected, None),
        }
    }

    /// Does what a candidate does after each event: it learns of renewals of its anchor, and tells the
    /// others when it no longer leads.
    fn update(&mut self, process: usize, lease: usize) {
        let now = self.clock(process);
        let Process { identity, candidates, shared, watched, is_live, .. } = &mut self.processes[process];
        let candidate = &mut candidates[lease];
        if let Some(known) = &candidate.lease {
            candidate.machine.expect_anchor(*is_live && shared.covers(known, identity));
            if let Some(started) = shared.renewal_of(known, identity, &self.history[*watched]) {
                let version = known.metadata.resource_version.as_ref().unwrap();
                let before = candidate.machine.leads_until();
                candidate.machine.renewed_with_anchor(version, started, now);
                self.extensions += usize::from(candidate.machine.leads_until() > before);
            }
        }
        candidate.machine.expire(now);
        let leads = now < candidate.machine.leads_until();
        if candidate.leads && !leads {
            shared.record_end(LEASES[lease]);
        }
        candidate.leads = leads;
    }

    fn send(&mut self, process: usize, lease: usize) {
        if self.processes[process].frozen || self.processes[process].candidates[lease].request.is_some() {
            return;
        }
        self.update(process, lease);
        let now = self.clock(process);
        let time = Timestamp::from_microsecond(i64::try_from(self.history.len()).unwrap()).unwrap();
        let Process { identity, candidates, shared, is_live, .. } = &mut self.processes[process];
        let Candidate { machine, lease: known, request, .. } = &mut candidates[lease];
        let step = machine.next(now, Duration::ZERO, *is_live);
        let desired = match &step {
            Step::Wait(_) => return,
            Step::Done => return self.begin_again(process, lease),
            Step::Read => None,
            Step::Write(write) => {
                let writer = Writer::new(identity.clone(), Timing::default());
                let unused = || unused(LEASES[lease], "default", BTreeMap::new());
                let mut desired = writer.desired(write, known.as_ref(), unused, time);
                if let Some(desired) = &mut desired {
                    shared.complete(write, desired, *is_live);
                }
                desired
            }
        };
        *request = Some(Request {
            step,
            desired,
            from: identity.clone(),
            started: now,
            arrived: false,
            found: None,
            anchor: None,
            written: None,
            is_complete: false,
            is_lost: false,
        });
    }

    fn arrive(&mut self, process: usize, lease: usize) {
        if self.processes[process].cut {
            return;
        }
        let Some(mut request) = self.processes[process].candidates[lease].request.take() else { return };
        let present = self.history.last().unwrap();
        match (&request.step, request.arrived) {
            (Step::Write(write), false) => {
                request.written = Some(self.serve(lease, write, request.desired.as_ref()));
                request.is_complete = true;
            }
            (Step::Read, false) => {
                request.found = present.get(LEASES[lease]).cloned();
                let is_other = request.found.as_ref().and_then(holder) != Some(&request.from);
                let anchor = request.found.as_ref().and_then(anchor_name);
                request.is_complete = anchor.is_none() || !is_other;
            }
            (Step::Read, true) if !request.is_complete => {
                let anchor = request.found.as_ref().and_then(anchor_name).unwrap();
                request.anchor = present.get(anchor).cloned();
                request.is_complete = true;
            }
            _ => {}
        }
        request.arrived = true;
        self.processes[process].candidates[lease].request = Some(request);
    }

    fn respond(&mut self, process: usize, lease: usize) {
        let now = self.clock(process);
        let Process { candidates, shared, frozen, cut, .. } = &mut self.processes[process];
        let candidate = &mut candidates[lease];
        if *frozen {
            return;
        }
        let Some(sent) = candidate.request.take() else { return };
        // After a pause, the response can be old.
        let is_late = now >= sent.started + Timing::default().attempt();
        let is_answered = sent.is_complete && !sent.is_lost && !*cut;
        let machine = &mut candidate.machine;
        match (&sent.step, sent.written.clone()) {
            (Step::Read, _) if is_answered => {
                let anchor = sent.anchor.as_ref();
                let record = sent.found.as_ref().map(|found| record_with_anchor(found, anchor));
                machine.read_done(sent.started, now, Ok(record));
                candidate.lease = sent.found.or_else(|| candidate.lease.take());
            }
            (Step::Write(write), Some((result, stored))) if is_answered => {
                let led = machine.leads_until() > now;
                machine.write_done(write, sent.started, now, result);
                let leads = machine.leads_until() > now;
                self.terms += usize::from(!led && leads);
                if let Some(stored) = stored {
                    if leads {
                        shared.record_write(&stored, sent.started);
                    }
                    candidate.lease = Some(stored);
                }
            }
            _ if !is_late => candidate.request = Some(sent),
            (Step::Write(write), _) => {
                machine.write_done(write, sent.started, now, WriteResult::Unknown);
                self.late.push((lease, sent));
            }
            _ => machine.read_done(sent.started, now, Err(())),
        }
        self.update(process, lease);
    }

    /// A candidate ends, and another one of the same process begins.
    fn begin_again(&mut self, process: usize, lease: usize) {
        let now = self.clock(process);
        let Process { identity, candidates, shared, .. } = &mut self.processes[process];
        shared.record_end(LEASES[lease]);
        let before = std::mem::replace(&mut candidates[lease], Candidate::new(identity, now));
        self.late.extend(before.request.map(|request| (lease, request)));
    }

    fn restart(&mut self, process: usize) {
        let now = self.clock(process);
        let Process { identity, candidates, shared, frozen, restarts, is_live, .. } =
            &mut self.processes[process];
        *restarts += 1;
        *identity = format!("{process}-{restarts}");
        (*frozen, *is_live, *shared) = (false, true, SharedRenewal::default());
        let new = LEASES.map(|_| Candidate::new(identity, now)).into();
        for (lease, before) in std::mem::replace(candidates, new).into_iter().enumerate() {
            self.late.extend(before.request.map(|request| (lease, request)));
        }
    }

    fn exchange(&mut self, process: usize, lease: usize) {
        self.send(process, lease);
        self.arrive(process, lease);
        self.arrive(process, lease);
        self.respond(process, lease);
    }

    fn round(&mut self, process: usize) {
        for lease in 0..LEASES.len() {
            self.exchange(process, lease);
        }
        self.watch(process, usize::MAX);
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Pass(time) => self.time += time,
            Event::Exchange(process, lease) => self.exchange(process, lease),
            Event::Round(process) => self.round(process),
            Event::Steady(seconds) => {
                for _ in 0..seconds {
                    self.time += 1_000;
                    (0..PROCESSES).for_each(|process| self.round(process));
                }
            }
            Event::Send(process, lease) => self.send(process, lease),
            Event::Arrive(process, lease) => self.arrive(process, lease),
            Event::Respond(process, lease) => self.respond(process, lease),
            Event::Lose(process, lease) => {
                if let Some(request) = &mut self.processes[process].candidates[lease].request {
                    request.is_lost = true;
                }
            }
            Event::ArriveLate(number) if !self.late.is_empty() => {
                let (lease, request) = self.late.remove(number % self.late.len());
                if let (Step::Write(write), false) = (&request.step, request.arrived) {
                    self.serve(lease, write, request.desired.as_ref());
                }
            }
            Event::ArriveLate(_) => {}
            Event::Watch(process, changes) => self.watch(process, changes),
            Event::Break(process) => self.processes[process].is_live = false,
            Event::Mend(process) => self.processes[process].is_live = true,
            Event::Freeze(process) => self.processes[process].frozen = true,
            Event::Thaw(process) => self.processes[process].frozen = false,
            Event::Cut(process) => self.processes[process].cut = true,
            Event::Heal(process) => self.processes[process].cut = false,
            Event::Resign(process, lease) => {
                let now = self.clock(process);
                self.processes[process].candidates[lease].machine.resign(now);
                self.update(process, lease);
            }
            Event::Abandon(process, lease) => self.begin_again(process, lease),
            Event::Crash(process) => self.restart(process),
            Event::Delete(lease) => {
                let mut leases = self.history.last().unwrap().clone();
                leases.remove(LEASES[lease]);
                self.history.push(leases);
            }
            Event::Empty(lease) => self.change(lease, |spec| spec.holder_identity = None),
            Event::Seize(lease) => self.change(lease, |spec| spec.holder_identity = Some("other".into())),
            Event::Touch(lease) => self.change(lease, |_| {}),
            Event::Shorten(lease) => self.change(lease, |spec| spec.lease_duration_seconds = Some(1)),
        }
    }

    /// The watch delivers changes one after the other.
    fn watch(&mut self, process: usize, changes: usize) {
        let now = self.clock(process);
        for _ in 0..changes {
            let Process { candidates, watched, is_live, frozen, cut, .. } = &mut self.processes[process];
            if !*is_live || *frozen || *cut || *watched + 1 == self.history.len() {
                return;
            }
            *watched += 1;
            let leases = &self.history[*watched];
            for (lease, candidate) in candidates.iter_mut().enumerate() {
                let news = leases.get(LEASES[lease]);
                let anchor = news.and_then(anchor_name).and_then(|anchor| leases.get(anchor));
                let news = news.map(|news| record_with_anchor(news, anchor));
                if candidate.cached != news {
                    candidate.cached.clone_from(&news);
                    candidate.machine.watch_event(now, news);
                }
            }
            for lease in 0..LEASES.len() {
                self.update(process, lease);
            }
        }
    }

    /// Returns the processes that may write now. A paused process counts, because it can resume at any
    /// time.
    fn leaders(&self, lease: usize) -> Vec<usize> {
        let leads = |process: &usize| {
            self.clock(*process) < self.processes[*process].candidates[lease].machine.leads_until()
        };
        (0..PROCESSES).filter(leads).collect()
    }

    fn most_leaders(&self) -> usize {
        (0..LEASES.len()).map(|lease| self.leaders(lease).len()).max().unwrap()
    }

    /// Runs a time without faults.
    fn run_without_faults(&mut self, seconds: usize) {
        for process in &mut self.processes {
            (process.frozen, process.cut, process.is_live) = (false, false, true);
        }
        for _ in 0..seconds {
            self.time += 1_000;
            for process in 0..PROCESSES {
                self.round(process);
                assert!(self.most_leaders() <= 1, "two processes lead without faults");
            }
        }
    }
}

fn clocks() -> impl Strategy<Value = Vec<(f64, f64)>> {
    vec((0.0..1_000_000.0, (1.0 - DRIFT)..(1.0 + DRIFT)), PROCESSES)
}

/// `ENSEMBLE_SCHEDULES` sets the number of schedules.
fn config(cases: u32) -> ProptestConfig {
    let cases =
        std::env::var("ENSEMBLE_SCHEDULES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn at_most_one_leader(clocks in clocks(), events in vec(event(), 1..400)) {
        let mut model = Model::new(&clocks);
        for event in &events {
            model.apply(event);
            prop_assert!(model.most_leaders() <= 1, "after {event:?}");
        }
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn eventually_one_leader_that_renews_one_lease(clocks in clocks(), events in vec(event(), 1..200)) {
        let mut model = Model::new(&clocks);
        for event in &events {
            model.apply(event);
        }
        model.run_without_faults(120);
        for (lease, name) in LEASES.iter().enumerate() {
            prop_assert_eq!(model.leaders(lease).len(), 1, "{}", name);
        }
        let before: usize = model.writes.iter().sum();
        model.run_without_faults(60);
        let writes = model.writes.iter().sum::<usize>() - before;
        let leaders = (0..PROCESSES).filter(|process| {
            (0..LEASES.len()).any(|lease| model.leaders(lease) == [*process])
        });
        // A fast clock renews up to 15 times a minute.
        prop_assert!(writes <= 15 * leaders.count(), "{writes} writes in a minute");
    }
}

/// Returns a model in which process 0 leads by all Leases, and each but one names the anchor.
fn settled() -> Model {
    let mut model = Model::new(&[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)]);
    model.round(0);
    model.run_without_faults(10);
    assert_eq!((0..LEASES.len()).map(|lease| model.leaders(lease)).collect::<Vec<_>>(), [[0], [0], [0]]);
    model
}

impl Model {
    /// Passes a time in which one process has no connection, second by second.
    fn run_without(&mut self, cut: usize, seconds: usize) {
        self.processes[cut].cut = true;
        for _ in 0..seconds {
            self.time += 1_000;
            (0..PROCESSES).for_each(|process| self.round(process));
        }
        self.processes[cut].cut = false;
    }

    /// Returns a Lease that names an anchor, and the anchor.
    fn member(&self) -> (usize, usize) {
        let named = |lease: usize| anchor_name(self.stored(lease).unwrap());
        let member = (0..LEASES.len()).find(|lease| named(*lease).is_some()).unwrap();
        (member, LEASES.iter().position(|name| Some(*name) == named(member)).unwrap())
    }
}

/// The holder comes back, and renews the anchor between the reads and the acquisition of a candidate.
#[test]
fn late_renewal_of_the_anchor_renews_nothing() {
    let mut model = settled();
    let (member, anchor) = model.member();
    model.run_without(0, 8);
    // A candidate reads both. Its acquisition is on the way.
    for _ in 0..300 {
        model.send(1, member);
        match &model.processes[1].candidates[member].request {
            Some(Request { step: Step::Write(Write::Acquire(_)), .. }) => break,
            Some(_) => model.exchange(1, member),
            None => model.time += 100,
        }
    }
    // The holder renews the anchor, and learns that the member has not changed.
    for _ in 0..50 {
        model.time += 100;
        model.exchange(0, anchor);
    }
    assert_eq!(model.leaders(anchor), [0], "its renewal was stored");
    model.watch(0, usize::MAX);
    model.arrive(1, member);
    model.respond(1, member);
    assert_eq!(model.leaders(member), [1]);
    model.run_without_faults(60);
    assert_eq!(model.leaders(member), [1]);
}

/// The acquisition of a member is stored, but its process learns of that too late to lead by it. Nobody else
/// can acquire the member, because the anchor is renewed.
#[test]
fn member_is_acquired_again_by_its_holder() {
    let mut model = Model::new(&[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)]);
    let (anchor, member) = (0, 1);
    (0..3).for_each(|_| model.exchange(0, anchor));
    model.exchange(0, member);
    model.send(0, member);
    model.arrive(0, member);
    assert_eq!(model.member(), (member, anchor));
    model.apply(&Event::Lose(0, member));
    for _ in 0..12 {
        model.time += 1_000;
        model.exchange(0, anchor);
        model.watch(0, usize::MAX);
    }
    model.run_without_faults(2);
    assert_eq!(model.leaders(member), [0_usize; 0]);
    model.run_without_faults(25);
    assert_eq!(model.leaders(member), [0]);
}

/// A candidate ends without a release. The anchor's renewals do not hold its Lease.
#[test]
fn member_of_an_ended_candidate_expires() {
    let mut model = settled();
    let (member, _) = model.member();
    model.begin_again(0, member);
    let mut waited = 0;
    while model.leaders(member).is_empty() {
        model.run_without_faults(1);
        waited += 1;
        assert!(waited < 25, "nobody leads");
    }
    assert!(waited > 5, "another candidate could still lead");
}

/// All candidates wait for the anchor and for its members from the same moment on.
#[test]
fn everything_of_a_dead_process_is_acquired_after_one_lease_duration() {
    let mut model = settled();
    model.processes[0].cut = true;
    model.processes[0].frozen = true;
    for _ in 0..17 {
        model.time += 1_000;
        (1..PROCESSES).for_each(|process| model.round(process));
        (1..PROCESSES).for_each(|process| model.round(process));
    }
    assert!((0..LEASES.len()).all(|lease| !model.leaders(lease).is_empty()), "{:?}", model.history.last());
}

/// Checks that the model generates enough changes of leadership, and renewals by anchors.
#[test]
fn model_reaches_leadership_changes_and_shared_renewals() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut terms, mut extensions) = (0, 0);
    let cases = 100;
    for _ in 0..cases {
        let tree = (clocks(), vec(event(), 400)).new_tree(&mut runner).unwrap();
        let (clocks, events) = tree.current();
        let mut model = Model::new(&clocks);
        for event in &events {
            model.apply(event);
        }
        terms += model.terms;
        extensions += model.extensions;
    }
    assert!(terms > 6 * cases && extensions > 4 * cases, "{terms} terms, {extensions} renewals");
}

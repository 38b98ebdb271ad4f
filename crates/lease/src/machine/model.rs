//! Model test: several state machines and one API server, with arbitrary events in any order. At
//! most one machine leads at any time.
//!
//! Time is real time in milliseconds. Each machine has its own clock, with an arbitrary start and
//! as much drift as the margin between renew deadline and lease duration allows.

use proptest::{collection::vec, prelude::*, strategy::ValueTree};

use super::*;

/// Number of machines.
const NODES: usize = 3;
/// Maximum drift of a clock with the default durations.
const DRIFT: f64 = 0.2;

#[derive(Clone, Debug)]
enum Event {
    /// Time passes.
    Pass(u64),
    /// A machine sends a request and receives the response.
    Exchange(usize),
    /// A machine sends its request.
    Send(usize),
    /// The request arrives at the API server.
    Arrive(usize),
    /// The response arrives, if there is one. Otherwise the request fails after its timeout.
    Respond(usize),
    /// The response is lost.
    Lose(usize),
    /// A request arrives after its timeout.
    ArriveLate(usize),
    /// The machine receives a watch event that is this many changes old.
    Watch(usize, usize),
    /// A process is paused and resumed.
    Freeze(usize),
    Thaw(usize),
    /// The network between a machine and the API server fails and recovers.
    Cut(usize),
    Heal(usize),
    /// A process is stopped, or killed and restarted.
    Resign(usize),
    Crash(usize),
    /// A user changes the Lease.
    Delete,
    Empty,
    Seize,
    Touch,
    Shorten,
}

fn event() -> impl Strategy<Value = Event> {
    let node = || 0..NODES;
    prop_oneof![
        20 => prop_oneof![1_u64..100, 100_u64..3_000, 3_000_u64..16_000].prop_map(Event::Pass),
        30 => node().prop_map(Event::Exchange),
        8 => node().prop_map(Event::Send),
        8 => node().prop_map(Event::Arrive),
        8 => node().prop_map(Event::Respond),
        2 => node().prop_map(Event::Lose),
        2 => (0_usize..8).prop_map(Event::ArriveLate),
        6 => (node(), 0_usize..4).prop_map(|(node, ago)| Event::Watch(node, ago)),
        2 => node().prop_map(Event::Freeze),
        3 => node().prop_map(Event::Thaw),
        2 => node().prop_map(Event::Cut),
        3 => node().prop_map(Event::Heal),
        1 => node().prop_map(Event::Resign),
        1 => node().prop_map(Event::Crash),
        2 => prop_oneof![
            2 => Just(Event::Delete), 1 => Just(Event::Empty), 1 => Just(Event::Seize), 1 => Just(Event::Touch),
            1 => Just(Event::Shorten),
        ],
    ]
}

/// Response of the API server.
#[derive(Clone, Debug)]
enum Response {
    Found(Option<LeaseRecord>),
    WriteResult(WriteResult),
}

/// Request in flight.
#[derive(Clone, Debug)]
struct Request {
    step: Step,
    from: String,
    started: Moment,
    arrived: bool,
    response: Option<Response>,
}

struct Node {
    machine: Machine,
    /// Start and speed of its clock.
    offset: f64,
    speed: f64,
    request: Option<Request>,
    frozen: bool,
    cut: bool,
    restarts: usize,
}

struct Model {
    time: u64,
    nodes: Vec<Node>,
    /// All versions of the Lease.
    history: Vec<Option<LeaseRecord>>,
    versions: u64,
    /// Requests after their timeout.
    late: Vec<Request>,
    terms: usize,
}

impl Model {
    fn new(clocks: &[(f64, f64)]) -> Self {
        let initial = LeaseRecord { version: "1".into(), free: true, ..LeaseRecord::default() };
        let mut model = Self {
            time: 0,
            nodes: Vec::new(),
            history: vec![Some(initial)],
            versions: 1,
            late: Vec::new(),
            terms: 0,
        };
        for (number, (offset, speed)) in clocks.iter().enumerate() {
            let machine = Machine::new(format!("{number}-0"), Timing::default(), Moment::ZERO);
            model.nodes.push(Node {
                machine,
                offset: *offset,
                speed: *speed,
                request: None,
                frozen: false,
                cut: false,
                restarts: 0,
            });
        }
        model
    }

    /// Returns the time of a machine's clock.
    fn clock(&self, node: usize) -> Moment {
        let Node { offset, speed, .. } = self.nodes[node];
        #[allow(clippy::cast_precision_loss, reason = "the time of a test is small")]
        Moment::from_secs_f64(offset + self.time as f64 * speed / 1000.0)
    }

    fn lease(&self) -> Option<&LeaseRecord> {
        self.history.last().and_then(Option::as_ref)
    }

    fn change(&mut self, change: impl FnOnce(&mut LeaseRecord)) {
        if let Some(mut lease) = self.lease().cloned() {
            change(&mut lease);
            self.store(lease);
        }
    }

    fn store(&mut self, mut lease: LeaseRecord) -> String {
        self.versions += 1;
        lease.version = self.versions.to_string();
        let version = lease.version.clone();
        self.history.push(Some(lease));
        version
    }

    /// Handles a request like the API server: creates only a missing Lease, and replaces only the
    /// expected version.
    fn serve(&mut self, request: &Request) -> Response {
        let Step::Write(write) = &request.step else { return Response::Found(self.lease().cloned()) };
        let is_possible = match write {
            Write::Create | Write::Recreate => self.lease().is_none(),
            Write::Acquire(version) | Write::Renew(version) | Write::Release(version) => {
                self.lease().is_some_and(|lease| lease.version == *version)
            }
        };
        if !is_possible {
            return Response::WriteResult(WriteResult::Rejected);
        }
        let released = matches!(write, Write::Release(_));
        let has_no_holder = released || *write == Write::Create;
        let holder = if has_no_holder { String::new() } else { request.from.clone() };
        let duration = Timing::default().lease();
        Response::WriteResult(WriteResult::Committed(self.store(LeaseRecord {
            holder,
            duration,
            free: released,
            ..LeaseRecord::default()
        })))
    }

    fn send(&mut self, node: usize) {
        let now = self.clock(node);
        let Node { machine, request, frozen, .. } = &mut self.nodes[node];
        if *frozen || request.is_some() {
            return;
        }
        match machine.next(now, Duration::ZERO, true) {
            Step::Wait(_) => {}
            Step::Done => self.restart(node),
            step => {
                let from = machine.identity.clone();
                *request = Some(Request { step, from, started: now, arrived: false, response: None });
            }
        }
    }

    fn arrive(&mut self, node: usize) {
        if self.nodes[node].cut {
            return;
        }
        let Some(mut request) = self.nodes[node].request.take() else { return };
        if !request.arrived {
            request.arrived = true;
            request.response = Some(self.serve(&request));
        }
        self.nodes[node].request = Some(request);
    }

    fn respond(&mut self, node: usize) {
        let now = self.clock(node);
        let Node { machine, request, frozen, cut, .. } = &mut self.nodes[node];
        if *frozen {
            return;
        }
        let Some(sent) = request.take() else { return };
        // After a pause, the response can be old.
        let is_late = now >= sent.started + Timing::default().attempt();
        let response = sent.response.clone().filter(|_| !*cut);
        match (&sent.step, response) {
            (Step::Read, Some(Response::Found(found))) => machine.read_done(sent.started, now, Ok(found)),
            (Step::Write(write), Some(Response::WriteResult(written))) => {
                let led = machine.leads_until() > now;
                machine.write_done(write, sent.started, now, written);
                self.terms += usize::from(!led && machine.leads_until() > now);
            }
            _ if !is_late => *request = Some(sent),
            (Step::Write(write), _) => {
                machine.write_done(write, sent.started, now, WriteResult::Unknown);
                self.late.push(sent);
            }
            _ => machine.read_done(now, now, Err(())),
        }
    }

    fn restart(&mut self, node: usize) {
        let now = self.clock(node);
        let Node { machine, request, frozen, restarts, .. } = &mut self.nodes[node];
        *restarts += 1;
        *machine = Machine::new(format!("{node}-{restarts}"), Timing::default(), now);
        *frozen = false;
        self.late.extend(request.take());
    }

    fn exchange(&mut self, node: usize) {
        self.send(node);
        self.arrive(node);
        self.respond(node);
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Pass(time) => self.time += time,
            Event::Exchange(node) => self.exchange(node),
            Event::Send(node) => self.send(node),
            Event::Arrive(node) => self.arrive(node),
            Event::Respond(node) => self.respond(node),
            Event::Lose(node) => {
                if let Some(request) = &mut self.nodes[node].request {
                    request.response = None;
                }
            }
            Event::ArriveLate(number) if !self.late.is_empty() => {
                let request = self.late.remove(number % self.late.len());
                if !request.arrived {
                    self.serve(&request);
                }
            }
            Event::ArriveLate(_) => {}
            Event::Watch(node, ago) => self.watch(node, ago),
            Event::Freeze(node) => self.nodes[node].frozen = true,
            Event::Thaw(node) => self.nodes[node].frozen = false,
            Event::Cut(node) => self.nodes[node].cut = true,
            Event::Heal(node) => self.nodes[node].cut = false,
            Event::Resign(node) => {
                let now = self.clock(node);
                self.nodes[node].machine.resign(now);
            }
            Event::Crash(node) => self.restart(node),
            Event::Delete => self.history.push(None),
            Event::Empty => self.change(|lease| {
                lease.holder.clear();
                lease.free = false;
            }),
            Event::Seize => self.change(|lease| lease.holder = "other".into()),
            Event::Touch => self.change(|_| {}),
            Event::Shorten => self.change(|lease| lease.duration = Duration::from_secs(1)),
        }
    }

    fn watch(&mut self, node: usize, ago: usize) {
        let event = self.history[self.history.len().saturating_sub(ago + 1)].clone();
        let now = self.clock(node);
        let Node { machine, frozen, cut, .. } = &mut self.nodes[node];
        if !*frozen && !*cut {
            machine.watch_event(now, event);
        }
    }

    /// Returns the machines that may write now. A paused machine counts, because it can resume at
    /// any time.
    fn leaders(&self) -> Vec<usize> {
        (0..NODES).filter(|node| self.clock(*node) < self.nodes[*node].machine.leads_until()).collect()
    }

    /// Runs 90 s without faults.
    fn recover(&mut self) {
        for node in &mut self.nodes {
            (node.frozen, node.cut) = (false, false);
        }
        for _ in 0..90 {
            self.time += 1_000;
            for node in 0..NODES {
                self.exchange(node);
                self.watch(node, 0);
                assert!(self.leaders().len() <= 1, "two machines lead without faults");
            }
        }
    }
}

fn clocks() -> impl Strategy<Value = Vec<(f64, f64)>> {
    vec((0.0..1_000_000.0, (1.0 - DRIFT)..(1.0 + DRIFT)), NODES)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn at_most_one_leader(clocks in clocks(), events in vec(event(), 1..300)) {
        let mut model = Model::new(&clocks);
        for event in &events {
            model.apply(event);
            prop_assert!(model.leaders().len() <= 1, "{:?} lead after {event:?}", model.leaders());
        }
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn eventually_one_leader(clocks in clocks(), events in vec(event(), 1..100)) {
        let mut model = Model::new(&clocks);
        for event in &events {
            model.apply(event);
        }
        model.recover();
        prop_assert_eq!(model.leaders().len(), 1);
    }
}

/// Checks that the model generates enough leadership changes.
#[test]
fn model_reaches_leadership_changes() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut terms = 0;
    let cases = 100;
    for _ in 0..cases {
        let tree = (clocks(), vec(event(), 300)).new_tree(&mut runner).unwrap();
        let (clocks, events) = tree.current();
        let mut model = Model::new(&clocks);
        for event in &events {
            model.apply(event);
        }
        terms += model.terms;
    }
    assert!(terms > 3 * cases, "{terms} terms in {cases} runs");
}

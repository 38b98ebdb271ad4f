//! Several machines, one API server, and everything that can happen between them, in any order.
//! Never do two lead.
//!
//! Time is real time in milliseconds; each machine has a clock of its own, which begins anywhere
//! and is as wrong as the margin between renew deadline and lease duration allows.

use proptest::{collection::vec, prelude::*, strategy::ValueTree};

use super::*;

/// Machines in the model.
const NODES: usize = 3;
/// With the default times, clocks may be wrong by a fifth.
const DRIFT: f64 = 0.2;

#[derive(Clone, Debug)]
enum Event {
    /// Time goes on.
    Pass(u64),
    /// A machine asks the API server for what it wants, and hears the answer.
    Exchange(usize),
    /// A machine sends its request.
    Send(usize),
    /// The request arrives at the API server.
    Arrive(usize),
    /// The answer arrives, if there is one; else the request runs into its timeout when it is time.
    Answer(usize),
    /// The answer is lost on its way.
    Lose(usize),
    /// A request of which the machine knows nothing any more arrives after all.
    ArriveLate(usize),
    /// The machine hears of the Lease as it was so many changes ago.
    Hear(usize, usize),
    /// A process is stopped and goes on.
    Freeze(usize),
    Thaw(usize),
    /// The network between a machine and the API server.
    Cut(usize),
    Heal(usize),
    /// A process is asked to stop; killed, and started anew.
    Resign(usize),
    Crash(usize),
    /// Somebody with kubectl.
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
        8 => node().prop_map(Event::Answer),
        2 => node().prop_map(Event::Lose),
        2 => (0_usize..8).prop_map(Event::ArriveLate),
        6 => (node(), 0_usize..4).prop_map(|(node, ago)| Event::Hear(node, ago)),
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

/// What the API server says.
#[derive(Clone, Debug)]
enum Answer {
    Found(Option<LeaseRecord>),
    WriteResult(WriteResult),
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Request {
    step: Step,
    from: String,
    started: Moment,
    arrived: bool,
    answer: Option<Answer>,
}

struct Node {
    machine: Machine,
    /// Its clock: where it began, and how fast it is.
    offset: f64,
    speed: f64,
    request: Option<Request>,
    frozen: bool,
    cut: bool,
    lives: usize,
}

struct World {
    time: u64,
    nodes: Vec<Node>,
    /// The Lease through all its changes.
    history: Vec<Option<LeaseRecord>>,
    versions: u64,
    /// Requests that nobody waits for.
    late: Vec<Request>,
    terms: usize,
}

impl World {
    fn new(clocks: &[(f64, f64)]) -> Self {
        let initial = LeaseRecord { version: "1".into(), free: true, ..LeaseRecord::default() };
        let mut world = Self {
            time: 0,
            nodes: Vec::new(),
            history: vec![Some(initial)],
            versions: 1,
            late: Vec::new(),
            terms: 0,
        };
        for (number, (offset, speed)) in clocks.iter().enumerate() {
            let machine = Machine::new(format!("{number}-0"), Timing::default(), Moment::ZERO);
            world.nodes.push(Node {
                machine,
                offset: *offset,
                speed: *speed,
                request: None,
                frozen: false,
                cut: false,
                lives: 0,
            });
        }
        world
    }

    /// What a machine's clock shows.
    fn clock(&self, node: usize) -> Moment {
        let Node { offset, speed, .. } = self.nodes[node];
        #[allow(clippy::cast_precision_loss, reason = "a test lasts no thousands of years")]
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

    /// Handles a request as the API server does: a create only if there is nothing, a replace only
    /// of that version.
    fn serve(&mut self, request: &Request) -> Answer {
        let Step::Write(write) = &request.step else { return Answer::Found(self.lease().cloned()) };
        let is_possible = match write {
            Write::Create | Write::Recreate => self.lease().is_none(),
            Write::Acquire(version) | Write::Renew(version) | Write::Release(version) => {
                self.lease().is_some_and(|lease| lease.version == *version)
            }
        };
        if !is_possible {
            return Answer::WriteResult(WriteResult::Rejected);
        }
        let released = matches!(write, Write::Release(_));
        let nobody = released || *write == Write::Create;
        let holder = if nobody { String::new() } else { request.from.clone() };
        let duration = Timing::default().lease();
        Answer::WriteResult(WriteResult::Committed(self.store(LeaseRecord {
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
            Step::Done => self.start_anew(node),
            step => {
                let from = machine.identity.clone();
                *request = Some(Request { step, from, started: now, arrived: false, answer: None });
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
            request.answer = Some(self.serve(&request));
        }
        self.nodes[node].request = Some(request);
    }

    fn answer(&mut self, node: usize) {
        let now = self.clock(node);
        let Node { machine, request, frozen, cut, .. } = &mut self.nodes[node];
        if *frozen {
            return;
        }
        let Some(asked) = request.take() else { return };
        // One that froze finds an answer that has been there for long.
        let is_late = now >= asked.started + Timing::default().attempt();
        let answer = asked.answer.clone().filter(|_| !*cut);
        match (&asked.step, answer) {
            (Step::Read, Some(Answer::Found(found))) => machine.read_done(now, Ok(found)),
            (Step::Write(write), Some(Answer::WriteResult(written))) => {
                let led = machine.leads_until() > now;
                machine.write_done(write, asked.started, now, written);
                self.terms += usize::from(!led && machine.leads_until() > now);
            }
            _ if !is_late => *request = Some(asked),
            (Step::Write(write), _) => {
                machine.write_done(write, asked.started, now, WriteResult::Unknown);
                self.late.push(asked);
            }
            _ => machine.read_done(now, Err(())),
        }
    }

    fn start_anew(&mut self, node: usize) {
        let now = self.clock(node);
        let Node { machine, request, frozen, lives, .. } = &mut self.nodes[node];
        *lives += 1;
        *machine = Machine::new(format!("{node}-{lives}"), Timing::default(), now);
        *frozen = false;
        self.late.extend(request.take());
    }

    fn exchange(&mut self, node: usize) {
        self.send(node);
        self.arrive(node);
        self.answer(node);
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Pass(time) => self.time += time,
            Event::Exchange(node) => self.exchange(node),
            Event::Send(node) => self.send(node),
            Event::Arrive(node) => self.arrive(node),
            Event::Answer(node) => self.answer(node),
            Event::Lose(node) => {
                if let Some(request) = &mut self.nodes[node].request {
                    request.answer = None;
                }
            }
            Event::ArriveLate(number) if !self.late.is_empty() => {
                let request = self.late.remove(number % self.late.len());
                if !request.arrived {
                    self.serve(&request);
                }
            }
            Event::ArriveLate(_) => {}
            Event::Hear(node, ago) => self.hear(node, ago),
            Event::Freeze(node) => self.nodes[node].frozen = true,
            Event::Thaw(node) => self.nodes[node].frozen = false,
            Event::Cut(node) => self.nodes[node].cut = true,
            Event::Heal(node) => self.nodes[node].cut = false,
            Event::Resign(node) => {
                let now = self.clock(node);
                self.nodes[node].machine.resign(now);
            }
            Event::Crash(node) => self.start_anew(node),
            Event::Delete => self.history.push(None),
            Event::Empty => self.change(|lease| {
                lease.holder.clear();
                lease.free = false;
            }),
            Event::Seize => self.change(|lease| lease.holder = "stranger".into()),
            Event::Touch => self.change(|_| {}),
            Event::Shorten => self.change(|lease| lease.duration = Duration::from_secs(1)),
        }
    }

    fn hear(&mut self, node: usize, ago: usize) {
        let news = self.history[self.history.len().saturating_sub(ago + 1)].clone();
        let now = self.clock(node);
        let Node { machine, frozen, cut, .. } = &mut self.nodes[node];
        if !*frozen && !*cut {
            machine.watch_event(now, news);
        }
    }

    /// Those who may write now. One that is frozen counts: it may thaw in this moment.
    fn leaders(&self) -> Vec<usize> {
        (0..NODES).filter(|node| self.clock(*node) < self.nodes[*node].machine.leads_until()).collect()
    }

    /// All is well again for a while.
    fn rest(&mut self) {
        for node in &mut self.nodes {
            (node.frozen, node.cut) = (false, false);
        }
        for _ in 0..90 {
            self.time += 1_000;
            for node in 0..NODES {
                self.exchange(node);
                self.hear(node, 0);
                assert!(self.leaders().len() <= 1, "two lead while all is well");
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
        let mut world = World::new(&clocks);
        for event in &events {
            world.happen(event);
            prop_assert!(world.leaders().len() <= 1, "{:?} lead after {event:?}", world.leaders());
        }
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn eventually_one_leader(clocks in clocks(), events in vec(event(), 1..100)) {
        let mut world = World::new(&clocks);
        for event in &events {
            world.happen(event);
        }
        world.rest();
        prop_assert_eq!(world.leaders().len(), 1);
    }
}

/// The model is worth something only if leaders come and go in it.
#[test]
fn model_reaches_leadership_changes() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut terms = 0;
    let cases = 100;
    for _ in 0..cases {
        let tree = (clocks(), vec(event(), 300)).new_tree(&mut runner).unwrap();
        let (clocks, events) = tree.current();
        let mut world = World::new(&clocks);
        for event in &events {
            world.happen(event);
        }
        terms += world.terms;
    }
    assert!(terms > 3 * cases, "{terms} terms in {cases} worlds");
}

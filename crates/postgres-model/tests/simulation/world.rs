//! Everything outside of the members: the API server, the ledger, and what must always hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;
use lease::LeaseRecord;
use postgres_model::{
    failover::{FailoverState, Reign},
    instance::Server,
    lsn::Lsn,
    sync::SyncConfiguration,
    timeline::{Ancestry, History, TimelineId, ancestry},
};

use crate::node::{Node, Row};

pub(crate) const NODES: u64 = 3;

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) now: Duration,
    pub(crate) nodes: Vec<Node>,
    /// The stored status.
    pub(crate) state: FailoverState,
    pub(crate) primary_history: Option<History>,
    /// How long the primary has been fenced, or not.
    pub(crate) primary_fenced: Timer<bool>,
    /// The request of a person for a switchover.
    pub(crate) request: Option<String>,
    /// When the status was stored.
    pub(crate) stored: Duration,
    /// The stored Lease, and when it was written.
    pub(crate) lease: LeaseRecord,
    pub(crate) lease_written: Duration,
    pub(crate) writes: u64,
    next_row: Row,
    pub(crate) acknowledged: BTreeSet<Row>,
    /// Number of clusters that have used the volumes.
    pub(crate) lives: u32,
    /// Who began each timeline.
    authors: BTreeMap<TimelineId, String>,
    /// Whether writes wait while too few standbys stream.
    pub(crate) is_required: bool,
    /// What the operator has seen, and since when.
    pub(crate) streaming: Timer<Vec<String>>,
    /// Whether there are no more faults.
    pub(crate) calm: bool,
    /// What happened, for the message of a failure.
    pub(crate) log: Vec<String>,
}

/// Returns the names of the members.
pub(crate) fn names() -> Vec<String> {
    (1..=NODES).map(|serial| format!("db-{serial}")).collect()
}

/// How long a value has been the same.
#[derive(Default)]
pub(crate) struct Timer<T>(Option<(T, Duration)>);

impl<T: Clone + PartialEq> Timer<T> {
    pub(crate) fn observe(&mut self, value: &T, now: Duration) -> Duration {
        match &self.0 {
            Some((known, since)) if known == value => now.saturating_sub(*since),
            _ => {
                self.0 = Some((value.clone(), now));
                Duration::ZERO
            }
        }
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let first = "db-1".to_owned();
        let state = FailoverState {
            epoch: 1,
            target: Some(first.clone()),
            current: Some(first.clone()),
            expired_lease: None,
            timeline: TimelineId::FIRST,
            reigns: vec![Reign { configuration: SyncConfiguration::default(), primary: first.clone() }],
            switchover: None,
            fenced: false,
        };
        Self {
            rng: Rng::with_seed(seed),
            now: Duration::from_secs(1000),
            nodes: (1..=NODES).map(Node::new).collect(),
            state,
            primary_history: Some(History::first()),
            primary_fenced: Timer::default(),
            request: None,
            stored: Duration::ZERO,
            lease: LeaseRecord { version: "0".into(), free: true, ..LeaseRecord::default() },
            lease_written: Duration::ZERO,
            writes: 0,
            next_row: 0,
            acknowledged: BTreeSet::new(),
            lives: 1,
            authors: [(TimelineId::FIRST, first)].into(),
            is_required: seed.is_multiple_of(4),
            streaming: Timer::default(),
            calm: false,
            log: Vec::new(),
        }
    }

    /// Returns whether a fault strikes now, with a probability of this many in 256.
    pub(crate) fn strikes(&mut self, odds: u8) -> bool {
        !self.calm && self.rng.u8(..) < odds
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        let text = format!("{:.1} {}", self.now.as_secs_f64(), what());
        self.log.push(text);
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.now += time;
        for node in &mut self.nodes {
            node.fence(self.now);
        }
    }

    /// A client writes to a member that accepts writes.
    pub(crate) fn write(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.works() && node.is_primary() {
            self.next_row += 1;
            node.wal.push(self.next_row);
            node.pending.push(node.wal.len());
        }
    }

    /// A primary acknowledges the rows that enough standbys of its configuration have.
    pub(crate) fn acknowledge(&mut self, index: usize) {
        let has_reloaded = self.rng.bool();
        let node = &self.nodes[index];
        if !node.works() || !node.is_primary() {
            return;
        }
        let sync = node.sync_of_sender(self.now, has_reloaded);
        let has = |position: usize| {
            let row = node.wal[position - 1];
            let acknowledges = |other: &&Node| {
                let follows = other.server == Server::Standby { upstream: Some(node.name.clone()) };
                let connected = other.works() && !other.cut_from_peers && !node.cut_from_peers;
                let is_listed = sync.members().contains(&other.name);
                is_listed && follows && connected && other.wal.get(position - 1) == Some(&row)
            };
            self.nodes.iter().filter(acknowledges).count() >= sync.number()
        };
        let (ready, waiting): (Vec<_>, Vec<_>) = node.pending.iter().partition(|position| has(**position));
        let rows: Vec<Row> = ready.iter().map(|position| node.wal[*position - 1]).collect();
        let until = node.leads_until();
        assert!(rows.is_empty() || self.now < until, "{} acknowledges without the Lease", node.name);
        self.nodes[index].pending = waiting;
        self.acknowledged.extend(rows);
    }

    /// A standby receives some of the WAL that it lacks.
    pub(crate) fn replicate(&mut self, index: usize) {
        let longest = self.nodes.iter().map(|node| node.wal.len()).max().unwrap_or_default();
        let most = self.rng.usize(0..=longest - self.nodes[index].wal.len());
        self.receive(index, most);
    }

    /// A standby receives at most this many rows from its upstream, as far as the histories allow.
    pub(crate) fn receive(&mut self, index: usize, most: usize) {
        let Server::Standby { upstream: Some(upstream) } = &self.nodes[index].server else { return };
        let source = self.nodes.iter().position(|node| node.name == *upstream).unwrap();
        let (node, primary) = (&self.nodes[index], &self.nodes[source]);
        let connected = node.works() && primary.works() && !node.cut_from_peers && !primary.cut_from_peers;
        if !connected || !primary.is_primary() {
            return;
        }
        if ancestry(&node.history, node.end(), &primary.history) != Ancestry::Ancestor
            || node.wal.len() > primary.wal.len()
        {
            return;
        }
        assert!(primary.wal.starts_with(&node.wal), "{} follows {upstream} with other rows", node.name);
        let end = primary.wal.len().min(node.wal.len().saturating_add(most));
        let (wal, history) = (primary.wal[..end].to_vec(), up_to(&primary.history, end as u64));
        let node = &mut self.nodes[index];
        (node.wal, node.history) = (wal, history);
    }

    /// A member starts to write on a timeline.
    pub(crate) fn begins(&mut self, index: usize) {
        let node = &self.nodes[index];
        assert!(!node.is_full, "{} writes to a full volume", node.name);
        let author = self.authors.entry(node.timeline()).or_insert_with(|| node.name.clone());
        assert_eq!(*author, node.name, "timeline {} has two authors", node.timeline());
        let rows: BTreeSet<_> = node.wal.iter().copied().collect();
        let lost: Vec<_> = self.acknowledged.difference(&rows).collect();
        assert!(lost.is_empty(), "{} became primary without the rows {lost:?}", node.name);
        assert!(self.now < node.leads_until(), "{} writes without the Lease", node.name);
        let others = self.nodes.iter().filter(|other| other.name != node.name);
        let awake = others.filter(|other| other.works() && other.is_primary()).count();
        assert_eq!(awake, 0, "two primaries");
    }

    pub(crate) fn promotions(&self) -> u64 {
        self.authors.len() as u64 - 1
    }
}

/// Returns the history of the WAL before a position. A standby is on a new timeline only when it has
/// received a row of it.
fn up_to(history: &History, end: u64) -> History {
    let text = history.to_string();
    let mut before = String::new();
    for line in text.split_inclusive('\n') {
        let (timeline, lsn) = line.trim_end().split_once('\t').unwrap();
        if lsn.parse::<Lsn>().unwrap().0 >= end {
            return History::parse(TimelineId::new(timeline.parse().unwrap()).unwrap(), &before).unwrap();
        }
        before.push_str(line);
    }
    history.clone()
}

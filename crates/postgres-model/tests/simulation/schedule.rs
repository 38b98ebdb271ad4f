//! A schedule: what happens in which order, derived from one number.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};

use lease::LeaseRecord;
use postgres_model::{
    failover::{ANY, FailoverState},
    instance::Server,
};

use crate::world::{Timer, World, names};

const EVENTS: usize = 600;
/// Longer than a Lease lasts.
const LONG: Duration = Duration::from_secs(16);
/// Rounds after which a cluster without faults must work. A round is a second.
pub(crate) const RECOVERY: usize = 120;

pub(crate) struct End {
    pub(crate) acknowledged: u64,
    pub(crate) promotions: u64,
    pub(crate) adoptions: u64,
}

/// Runs a schedule, and lets the cluster recover.
pub(crate) fn run(seed: u64) -> End {
    let mut world = World::new(seed);
    let result = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..EVENTS {
            world.event();
        }
        world.recover();
        // For both kinds of durability, which depends on the number too.
        if (seed / 4).is_multiple_of(4) {
            world.fill();
        }
    }));
    if let Err(panic) = result {
        let last = world.log.len().saturating_sub(60);
        println!("schedule {seed}:\n{}", world.log[last..].join("\n"));
        resume_unwind(panic);
    }
    End {
        acknowledged: world.acknowledged.len() as u64,
        promotions: world.promotions(),
        adoptions: u64::from(world.lives) - 1,
    }
}

impl World {
    fn event(&mut self) {
        let index = self.rng.usize(0..self.nodes.len());
        match self.rng.u16(0..1000) {
            0..220 => self.step(index),
            220..340 => self.read_cluster(index),
            340..540 => self.write(index),
            540..690 => self.replicate(index),
            690..810 => self.acknowledge(index),
            810..890 => self.operate(),
            890..970 => {
                let milliseconds = self.rng.u64(10..1_000);
                self.advance(Duration::from_millis(milliseconds));
            }
            970..975 => self.advance(LONG),
            975..978 => self.request_switchover(index),
            978..981 => self.fence(index),
            981 => self.recreate(),
            _ => self.fault(index),
        }
    }

    fn request_switchover(&mut self, index: usize) {
        let name = if self.rng.bool() { ANY.to_owned() } else { self.nodes[index].name.clone() };
        self.note(|| format!("a person requests a switchover to {name}"));
        self.request = Some(name);
    }

    /// The cluster is deleted, and another one of its name adopts the volumes. All that is left of the
    /// first one is what is on them.
    fn recreate(&mut self) {
        for index in 0..self.nodes.len() {
            if self.rng.bool() {
                self.send_all(index);
                self.nodes[index].stop();
            }
            let was_clean = self.nodes[index].stopped_cleanly && self.nodes[index].server == Server::Down;
            self.nodes[index].crash();
            self.nodes[index].stopped_cleanly = was_clean;
        }
        self.lives += 1;
        let life = self.lives.to_string();
        for node in &mut self.nodes {
            node.volume = node.volume.clone().used_by("c", &life).unwrap();
        }
        self.state = FailoverState::adopting(names()).unwrap();
        (self.primary_history, self.request, self.stored) = (None, None, self.now);
        (self.streaming, self.primary_fenced) = (Timer::default(), Timer::default());
        self.writes += 1;
        let version = self.writes.to_string();
        self.lease = LeaseRecord { version, free: true, ..LeaseRecord::default() };
        self.lease_written = self.now;
        self.note(|| "the cluster is deleted and created again".to_owned());
    }

    /// Fences a member, or lets it go on.
    fn fence(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.is_fenced = !node.is_fenced;
        let (name, is_fenced) = (node.name.clone(), node.is_fenced);
        self.note(|| format!("a person fences {name}: {is_fenced}"));
    }

    fn fault(&mut self, index: usize) {
        let kind = self.rng.u8(0..10);
        let node = &mut self.nodes[index];
        let what = match kind {
            0 => {
                node.crash();
                "crashes"
            }
            1 | 2 => {
                node.runs = true;
                "runs"
            }
            3 => {
                node.frozen = node.runs && !node.frozen;
                "freezes or thaws"
            }
            4 => {
                node.cut_from_api = !node.cut_from_api;
                "loses or finds the API server"
            }
            5 => {
                node.cut_from_peers = !node.cut_from_peers;
                "loses or finds its peers"
            }
            6 => {
                node.stop();
                "loses its PostgreSQL"
            }
            7 => {
                node.is_full = true;
                "has a full volume"
            }
            8 => {
                node.is_full = false;
                "gets more space"
            }
            _ => {
                (node.frozen, node.cut_from_api, node.cut_from_peers) = (false, false, false);
                "is repaired"
            }
        };
        let name = node.name.clone();
        // A frozen primary whose Lease has expired is killed before it does anything else.
        self.nodes[index].fence(self.now);
        self.note(|| format!("{name} {what}"));
    }

    /// Repairs everything, and waits until the cluster works.
    fn recover(&mut self) {
        for node in &mut self.nodes {
            (node.runs, node.frozen, node.cut_from_api, node.cut_from_peers) = (true, false, false, false);
            node.is_full = false;
            node.is_fenced = false;
            node.fence(self.now);
        }
        self.calm = true;
        self.note(|| "all is repaired".to_owned());
        self.settle("does not recover");
        // Whoever asks for a switchover in peace gets it, and the cluster works afterwards.
        let primary = self.state.current.clone();
        self.request = Some(ANY.to_owned());
        self.settle("does not switch over");
        assert_ne!(self.state.current, primary, "the switchover was not carried out");
    }

    /// Lets time pass until the cluster works, and nothing is requested.
    pub(crate) fn settle(&mut self, failure: &str) {
        for _ in 0..RECOVERY {
            self.round();
            if self.works() && self.request.is_none() && self.state.switchover.is_none() {
                return;
            }
        }
        panic!("the cluster {failure}: {:?}", self.state);
    }

    pub(crate) fn round(&mut self) {
        self.advance(Duration::from_secs(1));
        self.operate();
        for index in 0..self.nodes.len() {
            self.read_cluster(index);
            self.step(index);
            self.write(index);
        }
        for index in 0..self.nodes.len() {
            self.replicate(index);
            self.acknowledge(index);
        }
    }

    /// Returns whether the primary takes writes, and the others receive them.
    fn works(&self) -> bool {
        let primary = self.nodes.iter().find(|node| Some(&node.name) == self.state.current.as_ref());
        let Some(primary) = primary.filter(|primary| primary.is_primary()) else { return false };
        let follows = Server::Standby { upstream: Some(primary.name.clone()) };
        self.nodes.iter().filter(|node| node.name != primary.name).all(|node| {
            node.server == follows
                && node.timeline() == primary.timeline()
                && primary.wal.starts_with(&node.wal)
        })
    }
}

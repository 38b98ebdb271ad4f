//! One step of an instance manager: it observes, plans, and performs the command.

use std::time::Duration;

use lease::{LeaseRecord, Step, Write, WriteResult};
use postgres_model::{
    instance::{ClusterView, Command, LeaseIntent, Server, StopMode, plan},
    timeline::{History, TimelineId},
};

use crate::{node::SYSTEM, world::World};

/// Duration of a held Lease.
const LEASE: Duration = Duration::from_secs(15);

impl World {
    /// Lets an instance read the cluster, if it can.
    pub(crate) fn read_cluster(&mut self, index: usize) {
        if self.nodes[index].works() && !self.nodes[index].cut_from_api {
            let last = self.state.reigns.last().map(|reign| reign.configuration.clone());
            self.nodes[index].sync_to_apply = last.unwrap_or_default();
            self.nodes[index].view = Some(ClusterView {
                epoch: self.state.epoch,
                target: self.state.target.clone(),
                current: self.state.current.clone(),
                expired_lease: self.state.expired_lease.clone(),
                timeline: self.state.timeline,
                primary_history: self.primary_history.clone(),
                create_on: None,
                system_identifier: Some(SYSTEM),
                fenced: self.nodes[index].is_fenced,
                fencing: true,
                recovers: false,
                upgrade: None,
            });
        }
    }

    /// Performs one step of an instance.
    pub(crate) fn step(&mut self, index: usize) {
        if !self.nodes[index].works() {
            return;
        }
        self.nodes[index].fence(self.now);
        let plan = plan(&self.nodes[index].observed(self.now));
        if self.nodes[index].is_primary() {
            self.nodes[index].apply_sync(self.now, false);
        }
        self.nodes[index].state = plan.state;
        self.use_lease(index, plan.lease);
        if let Some(command) = plan.command {
            let name = self.nodes[index].name.clone();
            self.note(|| format!("{name}: {command:?}"));
            self.perform(index, &command);
        }
    }

    fn use_lease(&mut self, index: usize, intent: LeaseIntent) {
        let (now, node) = (self.now, &mut self.nodes[index]);
        let leads = now < node.leads_until();
        match intent {
            LeaseIntent::Acquire { epoch, expired } => {
                if node.machine.as_ref().is_none_or(|(_, of)| *of != epoch) {
                    node.candidate(epoch, expired, now);
                }
                self.elect(index);
            }
            LeaseIntent::Renew => self.elect(index),
            LeaseIntent::Release => {
                if let Some((machine, _)) = &mut node.machine {
                    machine.resign(now);
                }
                self.elect(index);
                self.nodes[index].machine = None;
            }
            LeaseIntent::None if !leads => node.machine = None,
            LeaseIntent::None | LeaseIntent::Keep => {}
        }
    }

    /// Performs steps of the election until it waits.
    fn elect(&mut self, index: usize) {
        for _ in 0..4 {
            let (now, node) = (self.now, &mut self.nodes[index]);
            let Some((machine, _)) = &mut node.machine else { return };
            match machine.next(now, Duration::ZERO, false) {
                Step::Read => {
                    let found = if node.cut_from_api { Err(()) } else { Ok(Some(self.lease.clone())) };
                    machine.read_done(now, now, found);
                }
                Step::Write(write) => self.write_lease(index, &write),
                Step::Wait(_) | Step::Done => return,
            }
        }
    }

    fn write_lease(&mut self, index: usize, write: &Write) {
        let is_lost = self.strikes(10);
        let (now, node) = (self.now, &mut self.nodes[index]);
        let Some((machine, epoch)) = &mut node.machine else { return };
        if node.cut_from_api {
            return machine.write_done(write, now, now, WriteResult::Unknown);
        }
        let (Write::Acquire(version) | Write::Renew(version) | Write::Release(version)) = write else {
            return machine.write_done(write, now, now, WriteResult::Rejected);
        };
        if *version != self.lease.version {
            return machine.write_done(write, now, now, WriteResult::Rejected);
        }
        self.writes += 1;
        let free = matches!(write, Write::Release(_));
        let holder = if free { String::new() } else { format!("{}_{}_{epoch}", node.name, node.incarnation) };
        let version = self.writes.to_string();
        self.lease =
            LeaseRecord { version: version.clone(), holder, duration: LEASE, free, ..LeaseRecord::default() };
        self.lease_written = now;
        let result = if is_lost { WriteResult::Unknown } else { WriteResult::Committed(version) };
        machine.write_done(write, now, now, result);
    }

    fn perform(&mut self, index: usize, command: &Command) {
        let torn = self.strikes(20);
        if *command == Command::Stop(StopMode::Fast) {
            self.send_all(index);
        }
        let node = &mut self.nodes[index];
        match command {
            Command::Stop(_) => node.stop(),
            Command::StartStandby { upstream } => {
                node.server = Server::Standby { upstream: upstream.clone() };
            }
            Command::Follow { upstream } => {
                node.server = Server::Standby { upstream: Some(upstream.clone()) };
            }
            Command::Seal { epoch } => {
                if matches!(node.server, Server::Standby { .. }) {
                    node.server = Server::Standby { upstream: None };
                }
                if torn {
                    return node.crash();
                }
                node.volume.sealed_epoch = Some(*epoch);
            }
            Command::StartPrimary => {
                node.apply_sync(self.now, true);
                node.server = Server::Primary { responsive: true };
                self.begins(index);
                self.confirm_timeline(index, torn);
            }
            Command::Promote { timeline } => self.promote(index, *timeline, torn),
            Command::Rewind { primary } => self.rewind(index, primary),
            Command::CreateDatabase | Command::Restore | Command::Clone { .. } | Command::Upgrade => {
                panic!("every member has data of one version")
            }
        }
    }

    /// Sends the last WAL to the standbys, as a fast shutdown does. Connections can break meanwhile.
    pub(crate) fn send_all(&mut self, index: usize) {
        let upstream = self.nodes[index].name.clone();
        for standby in 0..self.nodes.len() {
            let follows = Server::Standby { upstream: Some(upstream.clone()) };
            if self.nodes[standby].server == follows && !self.strikes(128) {
                self.receive(standby, usize::MAX);
            }
        }
    }

    fn promote(&mut self, index: usize, timeline: TimelineId, torn: bool) {
        let node = &mut self.nodes[index];
        node.volume.promotion_begun = Some(timeline);
        if torn {
            return node.crash();
        }
        let text = format!("{}{}\t{}\n", node.history, node.timeline(), node.end());
        node.history = History::parse(timeline, &text).unwrap();
        node.apply_sync(self.now, true);
        node.server = Server::Primary { responsive: true };
        self.begins(index);
        let torn = self.strikes(20);
        self.confirm_timeline(index, torn);
    }

    fn confirm_timeline(&mut self, index: usize, torn: bool) {
        let node = &mut self.nodes[index];
        if torn {
            return node.crash();
        }
        node.volume.own_timeline = Some(node.history.timeline());
        node.volume.promotion_begun = None;
    }

    /// Makes a member a copy of the primary.
    fn rewind(&mut self, index: usize, primary: &str) {
        let source = self.nodes.iter().position(|node| node.name == primary).unwrap();
        let (node, primary) = (&self.nodes[index], &self.nodes[source]);
        let connected = !node.cut_from_peers && !primary.cut_from_peers && primary.works();
        if connected && primary.is_primary() {
            let (wal, history) = (primary.wal.clone(), primary.history.clone());
            let node = &mut self.nodes[index];
            (node.wal, node.history) = (wal, history);
        }
    }
}

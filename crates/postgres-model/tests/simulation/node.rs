//! A member: its volume, its PostgreSQL, and its instance manager.

use std::time::Duration;

use lease::{Machine, Timing};
use postgres_model::{
    in_force::{InForce, RELOAD},
    instance::{ClusterView, ControlData, DataDirectory, LeaseView, MajorVersions, Observed, Server},
    lsn::Lsn,
    report::{InstanceReport, InstanceState, WalPositions},
    space::{Ballast, Space},
    sync::SyncConfiguration,
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    volume_state::VolumeState,
};

pub(crate) const SYSTEM: SystemIdentifier = SystemIdentifier(7);

/// A row. Rows of different writers never have the same number.
pub(crate) type Row = u64;

#[allow(clippy::struct_excessive_bools, reason = "each fault is independent of the others")]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) serial: u64,
    /// What survives a crash.
    pub(crate) volume: VolumeState,
    pub(crate) history: History,
    pub(crate) wal: Vec<Row>,
    /// Whether the Pod runs.
    pub(crate) runs: bool,
    /// Whether the whole node stands still.
    pub(crate) frozen: bool,
    pub(crate) cut_from_api: bool,
    pub(crate) cut_from_peers: bool,
    /// Whether its volume is full.
    pub(crate) is_full: bool,
    /// Whether a person has fenced the member.
    pub(crate) is_fenced: bool,
    pub(crate) server: Server,
    pub(crate) stopped_cleanly: bool,
    pub(crate) view: Option<ClusterView>,
    pub(crate) machine: Option<(Machine, u64)>,
    /// Number of machines so far, for identities.
    pub(crate) incarnation: u64,
    pub(crate) seal_requested: Option<u64>,
    /// Synchronous configuration that was read last, and that of PostgreSQL.
    pub(crate) sync_to_apply: SyncConfiguration,
    pub(crate) sync: SyncConfiguration,
    /// The one before, and when it was replaced. A WAL sender may have it for a while.
    sync_before: (SyncConfiguration, Duration),
    pub(crate) in_force: InForce,
    /// Rows that wait for standbys, as positions in the WAL.
    pub(crate) pending: Vec<usize>,
    pub(crate) state: InstanceState,
}

impl Node {
    pub(crate) fn new(serial: u64) -> Self {
        let mut volume = VolumeState::empty("c", "c");
        volume.system_identifier = Some(SYSTEM);
        volume.own_timeline = (serial == 1).then_some(TimelineId::FIRST);
        Self {
            name: format!("db-{serial}"),
            serial,
            volume,
            history: History::first(),
            wal: Vec::new(),
            runs: true,
            frozen: false,
            cut_from_api: false,
            cut_from_peers: false,
            is_full: false,
            is_fenced: false,
            server: Server::Down,
            stopped_cleanly: true,
            view: None,
            machine: None,
            incarnation: 0,
            seal_requested: None,
            sync_to_apply: SyncConfiguration::default(),
            sync: SyncConfiguration::default(),
            sync_before: (SyncConfiguration::default(), Duration::ZERO),
            in_force: InForce::default(),
            pending: Vec::new(),
            state: InstanceState::Hold,
        }
    }

    pub(crate) fn works(&self) -> bool {
        self.runs && !self.frozen
    }

    pub(crate) fn is_primary(&self) -> bool {
        matches!(self.server, Server::Primary { .. })
    }

    pub(crate) fn timeline(&self) -> TimelineId {
        self.history.timeline()
    }

    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.wal.len() as u64)
    }

    /// The end of the WAL, as far as the member knows it.
    fn known_end(&self) -> Option<Lsn> {
        (self.server != Server::Down || self.stopped_cleanly).then(|| self.end())
    }

    pub(crate) fn leads_until(&self) -> Duration {
        self.machine.as_ref().map_or(Duration::ZERO, |(machine, _)| machine.leads_until())
    }

    /// The fence: kills a primary whose Lease has expired. It needs neither the network nor the
    /// instance manager.
    pub(crate) fn fence(&mut self, now: Duration) {
        if self.works() && self.is_primary() && now >= self.leads_until() {
            self.stop();
            self.stopped_cleanly = false;
        }
    }

    pub(crate) fn stop(&mut self) {
        (self.server, self.state) = (Server::Down, InstanceState::Hold);
        self.pending.clear();
        self.stopped_cleanly = true;
    }

    /// Applies the synchronous configuration. A server that starts has no process with the old one.
    pub(crate) fn apply_sync(&mut self, now: Duration, is_start: bool) {
        if self.sync != self.sync_to_apply {
            let before = std::mem::replace(&mut self.sync, self.sync_to_apply.clone());
            self.sync_before = (before, now);
        }
        if is_start {
            self.sync_before = (self.sync.clone(), now);
            self.in_force = InForce::default();
        }
    }

    /// Returns the configuration of a WAL sender that has reloaded, or has not yet.
    pub(crate) fn sync_of_sender(&self, now: Duration, has_reloaded: bool) -> &SyncConfiguration {
        let (before, replaced) = &self.sync_before;
        if !has_reloaded && now.saturating_sub(*replaced) < RELOAD { before } else { &self.sync }
    }

    /// Everything but the volume is lost.
    pub(crate) fn crash(&mut self) {
        self.stop();
        self.state = InstanceState::Hold;
        self.stopped_cleanly = false;
        (self.runs, self.frozen) = (false, false);
        (self.view, self.machine, self.seal_requested) = (None, None, None);
    }

    pub(crate) fn observed(&self, now: Duration) -> Observed {
        let control =
            ControlData { system_identifier: SYSTEM, history: self.history.clone(), end: self.known_end() };
        Observed {
            now,
            member: self.name.clone(),
            volume_uid: self.name.clone(),
            cluster: self.view.clone(),
            lease: LeaseView {
                leads_until: self.leads_until(),
                epoch: self.machine.as_ref().map(|(_, epoch)| *epoch),
            },
            volume: self.volume.clone(),
            space: self.space(),
            data: DataDirectory::Whole(control),
            server: self.server.clone(),
            failed_starts: 0,
            task: None,
            recovered: false,
            versions: MajorVersions::default(),
            seal_requested: self.seal_requested,
        }
    }

    fn space(&self) -> Space {
        let total = 10 << 30;
        let (free, ballast) = if self.is_full { (0, Ballast::Spent) } else { (total, Ballast::Whole) };
        Space { total, free, ballast, ..Space::default() }
    }

    /// What the instance answers to the operator.
    pub(crate) fn report(&self) -> InstanceReport {
        let received = (self.state == InstanceState::Sealed).then(|| self.end());
        let mut report = InstanceReport::starting(self.name.clone(), "p".to_owned(), "0");
        report.state = self.state;
        report.timeline = Some(self.timeline());
        report.highest_timeline = self.volume.highest_timeline();
        report.sealed_epoch = self.volume.sealed_epoch;
        report.disk_full = self.is_full;
        report.positions = WalPositions { received, ..WalPositions::default() };
        report
    }

    /// Creates a candidate with an identity of its own.
    pub(crate) fn candidate(&mut self, epoch: u64, expired: Option<String>, now: Duration) {
        self.incarnation += 1;
        let identity = format!("{}_{}_{epoch}", self.name, self.incarnation);
        self.machine = Some((Machine::new(identity, Timing::default(), now).with_expired(expired), epoch));
    }
}

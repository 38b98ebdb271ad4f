//! A model of a cluster in which anything can be interrupted, with the real decisions inside.

use std::collections::{BTreeMap, BTreeSet};

use postgres_model::{
    failover::ANY,
    lsn::Lsn,
    report::{InstanceState, UpgradeReport},
    sync::SyncMethod,
    system_identifier::SystemIdentifier,
    timeline::TimelineId,
};
use proptest::{collection::vec, prelude::*};

use super::{
    tests::{observed, report, source},
    *,
};
use crate::api::MajorUpgradeStatus;

/// What happens to the modelled cluster.
#[derive(Clone, Debug)]
enum Event {
    /// The controller reconciles, and is killed after this number of writes.
    Reconcile { writes: usize },
    /// The user changes the size.
    Resize(usize),
    /// A Pod becomes ready, or not ready.
    Ready(usize, bool),
    /// The containers of a Pod end for good.
    Finish(usize),
    /// A Pod is deleted, at once or with a grace period.
    Evict(usize, bool),
    /// Terminating objects are gone.
    Collect,
    /// Pause or resume.
    Pause(bool),
    /// The user changes the spec of the Pods.
    Revise(u8),
    /// The user requests a switchover.
    SwitchOver(Option<Serial>),
    /// The user raises the size of the volumes.
    Grow(u8),
    /// The user fences a member, or all of them with the number 0, or nobody.
    Fence(Option<Serial>),
    /// The user deletes the cluster, and creates one of the same name.
    Recreate,
    /// The member that recovers the database restores a backup, or has replayed all WAL.
    Recover,
    /// The archive that a new cluster is to recover from is found, or is not.
    Find(bool),
    /// The user asks for the next major version, or for that of the data.
    Ask(bool),
    /// The member that upgrades its data succeeds or fails, if that has started.
    Upgrade(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..6usize).prop_map(|writes| Event::Reconcile { writes }),
        1 => (1..6usize).prop_map(Event::Resize),
        4 => (0..6usize, prop::bool::weighted(0.8)).prop_map(|(pod, ready)| Event::Ready(pod, ready)),
        1 => (0..6usize).prop_map(Event::Finish),
        1 => (0..6usize, any::<bool>()).prop_map(|(pod, graceful)| Event::Evict(pod, graceful)),
        2 => Just(Event::Collect),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => any::<u8>().prop_map(Event::Revise),
        1 => prop::option::of(1..6u32).prop_map(Event::SwitchOver),
        1 => (1..4u8).prop_map(Event::Grow),
        1 => prop::option::of(0..6u32).prop_map(Event::Fence),
        1 => Just(Event::Recreate),
        2 => Just(Event::Recover),
        1 => prop::bool::weighted(0.7).prop_map(Event::Find),
        1 => any::<bool>().prop_map(Event::Ask),
        2 => prop::bool::weighted(0.7).prop_map(Event::Upgrade),
    ]
}

struct Model {
    observed: Observed,
    created: usize,
    /// Serial numbers that had a volume, unless it was deleted before the member started.
    used: BTreeSet<Serial>,
    /// Serial numbers that had a Pod.
    started: BTreeSet<Serial>,
    /// Volumes on which a database was created.
    databases: BTreeSet<String>,
    /// Volumes with data.
    data: BTreeSet<String>,
    /// Whether each cluster recovers its database from an archive.
    from_archive: bool,
    /// Volumes on which a backup was restored, by the UID of the cluster.
    restored: BTreeMap<String, String>,
    /// Those on which all WAL was replayed.
    replayed: BTreeSet<String>,
    /// Number of clusters so far.
    lives: usize,
    /// Epochs at which members were sealed.
    sealed: BTreeMap<Serial, u64>,
    /// Timelines of the present database that were claimed, with their authors.
    claims: BTreeMap<u32, String>,
    /// Databases on volumes that were upgraded, or copied from one that was. The others have the first one.
    systems: BTreeMap<String, u64>,
    /// Major version of the data of the cluster.
    version: u16,
    /// Whether the user asks for the next major version.
    asks: bool,
    /// Pod in which an upgrade has failed.
    failed: Option<String>,
    /// What the user wrote into the spec of the Pods, and whom the user has fenced.
    written: (String, Fence),
}

/// Major version of the first database of the model, and the number of its system.
const FIRST: (u16, u64) = (18, 7_400_000_000_000_000_001);

impl Model {
    fn new(when_scaled: RetentionPolicy, from_archive: bool) -> Self {
        // Volumes of a former cluster keep one with a recovery from its start.
        let former = if from_archive { FormerVolumes::Fresh } else { FormerVolumes::Adopt };
        let recovery = from_archive.then(|| Ok(source()));
        Self {
            observed: Observed { when_scaled, former, recovery, ..observed(3) },
            from_archive,
            restored: BTreeMap::new(),
            replayed: BTreeSet::new(),
            created: 0,
            used: BTreeSet::new(),
            started: BTreeSet::new(),
            databases: BTreeSet::new(),
            data: BTreeSet::new(),
            lives: 1,
            sealed: BTreeMap::new(),
            claims: BTreeMap::new(),
            systems: BTreeMap::new(),
            version: FIRST.0,
            asks: false,
            failed: None,
            written: ("new".to_owned(), Fence::default()),
        }
    }

    /// Returns the database on the volume of a member.
    fn system(&self, serial: Serial) -> u64 {
        let volume = self.observed.volumes.get(&serial).and_then(|volume| self.systems.get(&volume.uid));
        volume.copied().unwrap_or(FIRST.1)
    }

    /// Lets the controller see what depends on the version: the programs that Pods should have, and who has to be
    /// down.
    fn serve(&mut self) {
        let next = self.version + 1;
        let (written, fence) = self.written.clone();
        let upgrade = self.observed.membership.upgrade_in_progress();
        self.observed.fence = if upgrade.is_some() { Fence::all() } else { fence };
        let programs = if upgrade.is_some() { next } else { self.version };
        self.observed.updates.revision = Some(format!("{written} with {programs}"));
        let requested = RequestedUpgrade { from: format!("{}.1", self.version), to: format!("{next}.1") };
        self.observed.upgrade = self.asks.then_some(requested);
    }

    /// Lets the member upgrade its data, or fail to. Returns whether it does.
    fn upgrade(&mut self, succeeds: bool) -> bool {
        self.serve();
        let membership = &self.observed.membership;
        let Some(upgrade) = membership.upgrade_in_progress().filter(|upgrade| upgrade.started) else {
            return false;
        };
        let serial = membership.members.iter().map(|member| member.serial);
        let serial = serial.clone().find(|serial| membership.name_of(*serial) == upgrade.member).unwrap();
        let pod = self.observed.pods.get(&serial).filter(|pod| pod.is_ready && !pod.is_terminating);
        let Some(pod) = pod.filter(|pod| Some(&pod.revision) == self.observed.updates.revision.as_ref())
        else {
            return false;
        };
        let system = FIRST.1 + u64::from(self.version + 1 - FIRST.0);
        if self.failed.as_ref() == Some(&pod.uid) || self.system(serial) == system {
            return false;
        }
        assert!(membership.is_primary(serial), "another member than the primary upgrades its data");
        assert_eq!(Some(self.system(serial)), membership.system_id.map(|system| system.0));
        if succeeds {
            self.systems.insert(self.observed.volumes[&serial].uid.clone(), system);
        } else {
            self.failed = Some(pod.uid.clone());
        }
        true
    }

    /// Returns the report of a member about the upgrade of its data.
    fn upgrade_report(&self, serial: Serial) -> Option<UpgradeReport> {
        let membership = &self.observed.membership;
        let upgrade = membership.upgrade_in_progress()?;
        let pod = &self.observed.pods[&serial];
        let is_asked = upgrade.started && membership.name_of(serial) == upgrade.member;
        let failure = (self.failed.as_ref() == Some(&pod.uid)).then(|| "it failed".to_owned());
        let is_upgraded = self.system(serial) > FIRST.1 + u64::from(self.version - FIRST.0);
        let data_version = self.version + u16::from(is_upgraded);
        is_asked.then_some(UpgradeReport { data_version, failure })
    }

    /// Lets the members report: ready Pods answer, and the target is the primary at once.
    fn report(&mut self) {
        self.copy();
        let membership = &self.observed.membership;
        let failover = &membership.failover;
        let answers = self.observed.pods.iter().filter(|(_, pod)| pod.is_ready && !pod.is_terminating);
        let answers: Vec<_> = answers.map(|(serial, _)| *serial).collect();
        let state = |serial: Serial| {
            let is_sealed = failover.target.is_none() && self.sealed.get(&serial) == Some(&failover.epoch);
            match membership.is(serial, failover.target.as_ref()) {
                _ if self.observed.is_fenced(serial) => InstanceState::Fenced,
                true => InstanceState::Primary,
                false if self.is_restoring(serial) => InstanceState::Restore,
                false if is_sealed => InstanceState::Sealed,
                false => InstanceState::Standby,
            }
        };
        let member_report = |serial: Serial| {
            let claimed = self.claims.keys().last().copied().and_then(|number| TimelineId::new(number).ok());
            let timeline = claimed.filter(|_| membership.is_adopting()).unwrap_or(failover.timeline);
            let mut report = report(serial, state(serial), timeline.max(failover.timeline));
            report.system_identifier = Some(SystemIdentifier(self.system(serial)));
            if !self.has_data(serial) {
                report.state = InstanceState::Hold;
                (report.timeline, report.system_identifier, report.is_empty) = (None, None, true);
            }
            report.sealed_epoch = self.sealed.get(&serial).copied();
            report.pod_uid.clone_from(&self.observed.pods[&serial].uid);
            report.upgrade = self.upgrade_report(serial);
            report.positions.received = Some(Lsn(0x1000));
            if report.state == InstanceState::Primary {
                let last =
                    failover.reigns.last().map(|reign| reign.configuration.clone()).unwrap_or_default();
                report.synchronous_standby_names = Some(last.standby_names(SyncMethod::Any));
            }
            (serial, report)
        };
        let reports = answers.iter().map(|serial| member_report(*serial)).collect();
        let target =
            membership.members.iter().find(|member| membership.is(member.serial, failover.target.as_ref()));
        let writes = |serial: Serial| answers.contains(&serial) && !self.observed.is_fenced(serial);
        let is_held = target.is_some_and(|target| writes(target.serial));
        self.observed.failover.lease_expires_in =
            if is_held { Duration::from_secs(15) } else { Duration::ZERO };
        let others = answers.iter().map(|serial| membership.name_of(*serial));
        let is_standby = |name: &String| is_held && failover.target.as_ref() != Some(name);
        let streaming =
            others.filter(|name| is_standby(name) && !self.observed.fence.contains(name)).collect();
        self.observed.synchronous.streaming = streaming;
        self.observed.switchover.successors.clone_from(&self.observed.synchronous.streaming);
        self.observed.reports = reports;
    }

    /// Returns whether a member has restored a backup, and not replayed all WAL.
    fn is_restoring(&self, serial: Serial) -> bool {
        let volume = self.observed.volumes.get(&serial).map(|volume| &volume.uid);
        self.restored.get(&self.observed.cluster_uid) == volume
            && volume.is_some_and(|volume| !self.replayed.contains(volume))
    }

    /// Lets the first member go on with the recovery, as far as its Pod runs. Returns whether it does.
    fn recover(&mut self) -> bool {
        let membership = &self.observed.membership;
        let first = membership.bootstrap.as_ref().filter(|_| membership.is_recovering());
        let Some(uid) = first.map(|first| first.volume_uid.clone()) else { return false };
        let is_first = |serial: &Serial| self.observed.volumes.get(serial).is_some_and(|it| it.uid == uid);
        let mut pods = self.observed.pods.iter().filter(|(_, pod)| pod.is_ready && !pod.is_terminating);
        if !pods.any(|(serial, _)| is_first(serial)) {
            return false;
        }
        if self.data.insert(uid.clone()) {
            let restored =
                self.restored.entry(self.observed.cluster_uid.clone()).or_insert_with(|| uid.clone());
            assert_eq!(*restored, uid, "a backup was restored to two volumes");
            return true;
        }
        self.replayed.insert(uid)
    }

    /// Lets the target create the database, and the others copy it.
    fn copy(&mut self) {
        let membership = &self.observed.membership;
        let failover = &membership.failover;
        let creates =
            |serial| !membership.is_bootstrapped() && membership.is(serial, failover.target.as_ref());
        let primary = membership.members.iter().find(|member| membership.is_primary(member.serial));
        let copied = primary.map(|primary| self.system(primary.serial));
        for (serial, _) in self.observed.pods.iter().filter(|(_, pod)| pod.is_ready && !pod.is_terminating) {
            let Some(volume) = self.observed.volumes.get(serial) else { continue };
            if creates(*serial) && self.data.insert(volume.uid.clone()) {
                self.databases.insert(volume.uid.clone());
            } else if (failover.current.is_some()
                || !(membership.is_adopting() || membership.is_recovering()))
                && self.data.insert(volume.uid.clone())
                && let Some(copied) = copied
            {
                self.systems.insert(volume.uid.clone(), copied);
            }
        }
    }

    fn has_data(&self, serial: Serial) -> bool {
        self.observed.volumes.get(&serial).is_some_and(|volume| self.data.contains(&volume.uid))
    }

    /// Deletes the cluster, and creates one of the same name. Only the volumes are left.
    fn recreate(&mut self) {
        let before = &self.observed.membership;
        // A person has to choose between the data from before and after an upgrade, until the volumes tell them
        // apart.
        let of_cluster = |volume: &Volume| {
            volume.record.as_ref().is_some_and(|record| record.system_id == before.system_id)
        };
        let is_recorded =
            before.staying().all(|one| self.observed.volumes.get(&one.serial).is_none_or(of_cluster));
        if before.upgrade.is_some() && (before.upgrade_in_progress().is_some() || !is_recorded) {
            return;
        }
        if !before.is_adopting() {
            self.check_records();
        }
        self.lives += 1;
        self.sealed.clear();
        let Observed { size, when_scaled, former, .. } = self.observed;
        self.observed = Observed {
            cluster_uid: format!("c-{}", self.lives),
            when_scaled,
            former,
            recovery: self.from_archive.then(|| Ok(source())),
            volumes: std::mem::take(&mut self.observed.volumes),
            ..observed(size)
        };
        if self.from_archive {
            // Another copy of the database, which archives elsewhere.
            self.claims.clear();
        }
        self.observed.volumes.values_mut().for_each(|volume| volume.is_ours = false);
    }

    /// Whoever reads the volume of a member knows all others that may have an acknowledged row.
    fn check_records(&self) {
        let membership = &self.observed.membership;
        let with_data: Vec<_> =
            membership.staying().filter(|it| it.joined && self.has_data(it.serial)).collect();
        for member in &with_data {
            let record = self.observed.volumes[&member.serial].record.as_ref().unwrap();
            for other in &with_data {
                assert!(record.members.contains(&other.serial), "{record:?} lacks {}", other.serial);
            }
        }
    }

    fn uid(&mut self) -> String {
        self.created += 1;
        format!("u-{}", self.created)
    }

    fn pod(&mut self, index: usize) -> Option<&mut MemberPod> {
        self.observed.pods.values_mut().nth(index)
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Reconcile { writes } => drop(self.reconcile(writes)),
            Event::Resize(size) => self.observed.size = size,
            Event::Ready(index, ready) => {
                if let Some(pod) = self.pod(index).filter(|pod| !pod.is_finished) {
                    pod.is_ready = ready;
                }
            }
            Event::Finish(index) => {
                if let Some(pod) = self.pod(index) {
                    (pod.is_finished, pod.is_ready) = (true, false);
                }
            }
            Event::Evict(index, true) => {
                if let Some(pod) = self.pod(index) {
                    pod.is_terminating = true;
                }
            }
            Event::Evict(index, false) => {
                let serial = self.observed.pods.keys().nth(index).copied();
                self.observed.pods.retain(|pod, _| Some(*pod) != serial);
            }
            Event::Collect => {
                self.observed.pods.retain(|_, pod| !pod.is_terminating);
                self.observed.volumes.retain(|_, volume| !volume.is_terminating);
                self.observed.volumes.values_mut().for_each(|volume| volume.size.is_bound = true);
            }
            Event::Pause(paused) => self.observed.paused = paused,
            Event::Revise(revision) => self.written.0 = revision.to_string(),
            Event::Grow(gibibytes) => {
                let size = format!("{gibibytes}Gi").parse().ok();
                self.observed.storage.size = self.observed.storage.size.max(size);
            }
            Event::SwitchOver(member) => {
                let name = member.map_or_else(|| ANY.to_owned(), |serial| format!("db-{serial}"));
                self.observed.switchover.request = Some(name);
            }
            Event::Fence(member) => {
                let name = |serial: Serial| if serial == 0 { "*".into() } else { format!("db-{serial}") };
                self.written.1 = Fence::parse(member.map(name).as_deref());
            }
            Event::Recreate => self.recreate(),
            Event::Recover => drop(self.recover()),
            Event::Find(is_found) if self.from_archive => {
                let missing = RecoveryProblem::NoBackup("first".to_owned());
                self.observed.recovery = Some(if is_found { Ok(source()) } else { Err(missing) });
            }
            Event::Find(_) => {}
            Event::Ask(asks) => self.asks = asks,
            Event::Upgrade(succeeds) => drop(self.upgrade(succeeds)),
        }
    }

    /// Reconciles, and is killed after some writes. Returns whether there was anything to write.
    fn reconcile(&mut self, mut writes: usize) -> bool {
        self.serve();
        self.report();
        self.observed.synchronous.number = usize::from(self.observed.size >= 3);
        let decision = decide(&self.observed);
        self.check(&decision);
        let changes = decision.membership != self.observed.membership;
        if changes {
            if writes == 0 {
                return true;
            }
            writes -= 1;
            let (before, next) = (&self.observed.membership, &decision.membership);
            if before.upgrade_in_progress().is_some()
                && next.upgrade.as_ref().is_some_and(|upgrade| upgrade.done)
            {
                (self.version, self.asks) = (self.version + 1, false);
                self.claims.clear();
            }
            self.claim(&decision.membership);
            self.observed.membership = decision.membership.clone();
        }
        let acts = !decision.actions.is_empty();
        for action in decision.actions.iter().take(writes) {
            self.act(action.clone(), &decision);
        }
        changes || acts
    }

    fn check(&self, decision: &Decision) {
        let before = &self.observed.membership;
        let disruptive = decision.actions.iter().filter(|action| matches!(action, Action::DeletePod(..)));
        assert!(disruptive.count() <= 1, "{decision:?}");
        assert!(decision.membership.next_serial >= before.next_serial);
        if self.observed.paused {
            assert_eq!((&decision.membership, decision.actions.len()), (before, 0));
        }
        if before.is_adopting()
            && before.failover.target.is_none()
            && decision.membership.failover.target.is_some()
        {
            let silent = self.observed.volumes.iter().filter(|(serial, volume)| {
                let is_member = decision.record.members.contains(serial);
                is_member && self.data.contains(&volume.uid) && !self.observed.reports.contains_key(serial)
            });
            assert_eq!(silent.count(), 0, "a member was not asked: {decision:?}");
        }
        self.check_recovery(decision);
        let upgrade = &decision.membership.upgrade;
        let is_upgraded = *upgrade != before.upgrade && upgrade.as_ref().is_some_and(|upgrade| upgrade.done);
        if self.observed.primary_is_listed() && !is_upgraded {
            assert_eq!(decision.membership.failover.target, before.failover.target, "{decision:?}");
        }
        for primary in before.failover.current.iter().chain(&before.failover.target) {
            let member = before.members.iter().find(|member| before.is(member.serial, Some(primary)));
            let member =
                decision.membership.members.iter().find(|one| Some(one.serial) == member.map(|it| it.serial));
            assert!(member.is_some_and(|member| !member.leaving), "the primary leaves: {decision:?}");
        }
        // PostgreSQL runs nowhere meanwhile.
        let is_down = before.failover.fenced && upgrade.as_ref().is_some_and(|upgrade| !upgrade.done);
        for action in decision.actions.iter().filter(|_| !is_down) {
            if let Action::DeletePod(serial, _) = action {
                let is_leaving =
                    before.members.iter().any(|member| member.serial == *serial && member.leaving);
                assert!(!is_leaving || !decision.membership.is_in_quorum(*serial), "{decision:?}");
                let is_replaced = !is_leaving && self.observed.is_ready(*serial);
                assert!(!is_replaced || self.may_be_replaced(*serial, &decision.membership), "{decision:?}");
            }
        }
    }

    /// A recovery begins once, from one archive, and never again after its end. Only a member that has
    /// reached its end is promoted.
    fn check_recovery(&self, decision: &Decision) {
        let (before, next) = (&self.observed.membership, &decision.membership);
        assert_eq!(next.recovery.is_some(), self.from_archive && !next.members.is_empty(), "{decision:?}");
        if let (Some(known), Some(recovery)) = (&before.recovery, &next.recovery) {
            assert!(recovery.done || !known.done, "the recovery begins again: {decision:?}");
            let unchanged = RecoveryStatus { done: known.done, ..recovery.clone() };
            assert_eq!(unchanged, *known, "the source of the recovery changes");
        }
        if next.is_recovering()
            && let Some(target) = next.failover.target.as_ref()
        {
            let volume = next.members.iter().find(|member| next.is(member.serial, Some(target)));
            let volume = volume.and_then(|member| member.volume_uid.as_ref());
            assert!(volume.is_some_and(|uid| self.replayed.contains(uid)), "{target} has no database");
        }
    }

    /// Returns whether all other members work, and one of them is the primary.
    fn may_be_replaced(&self, serial: Serial, membership: &Membership) -> bool {
        let mut others = membership.members.iter().filter(|member| member.serial != serial);
        let is_last = membership.members.len() == 1;
        others.all(|member| self.observed.is_ready(member.serial))
            && (is_last || !membership.is_primary_or_target(serial))
    }

    /// A number of a timeline has one author.
    fn claim(&mut self, next: &Membership) {
        if let Some(target) = &next.failover.target {
            let author = self.claims.entry(next.failover.timeline.get()).or_insert_with(|| target.clone());
            assert_eq!(author, target, "two members promote to one timeline");
        }
    }

    fn act(&mut self, action: Action, decision: &Decision) {
        match action {
            Action::CreateVolume(serial) => {
                assert!(self.used.insert(serial), "serial {serial} was used before");
                let size = ClaimSize { request: self.observed.storage.size, ..ClaimSize::default() };
                let record = Some(decision.record.with_member(serial));
                let volume = Volume { uid: self.uid(), is_ours: true, is_terminating: false, size, record };
                self.observed.volumes.insert(serial, volume);
            }
            Action::CreatePod(serial) => {
                let volume = &self.observed.volumes[&serial];
                let member = self.observed.membership.members.iter().find(|one| one.serial == serial);
                assert_eq!(member.unwrap().volume_uid.as_ref(), Some(&volume.uid));
                assert!(
                    member.unwrap().joined || self.observed.is_recorded(&self.observed.membership, serial),
                    "nobody knows member {serial}"
                );
                let pod = MemberPod {
                    uid: self.uid(),
                    is_ready: false,
                    is_terminating: false,
                    is_finished: false,
                    role: Some(Role::Replica),
                    revision: self.observed.updates.revision.clone().unwrap_or_default(),
                };
                assert_eq!(self.observed.pods.insert(serial, pod), None);
                self.started.insert(serial);
            }
            Action::DeletePod(serial, uid) => {
                let pod = self.observed.pods.get_mut(&serial).filter(|pod| pod.uid == uid).unwrap();
                pod.is_terminating = true;
            }
            Action::DeleteVolume(serial, uid) => {
                assert!(!self.observed.pods.contains_key(&serial), "a Pod uses the volume");
                let volume = self.observed.volumes.get_mut(&serial).filter(|volume| volume.uid == uid);
                volume.unwrap().is_terminating = true;
                // Other volumes name a member before it starts. Another cluster may not know this one.
                if !self.started.contains(&serial) {
                    self.used.remove(&serial);
                }
            }
            Action::Record(serial, uid) => {
                let volume =
                    self.observed.volumes.get_mut(&serial).filter(|volume| volume.uid == uid).unwrap();
                let mut record = decision.record_of(serial);
                record.has_data |= volume.record.as_ref().is_some_and(|known| known.has_data);
                (volume.record, volume.is_ours) = (Some(record), true);
            }
            Action::ForgetForced(_) => panic!("nobody has forced a promotion"),
            Action::Seal(serial, epoch) => {
                if self.observed.reports.contains_key(&serial) && !self.is_restoring(serial) {
                    self.sealed.insert(serial, epoch);
                }
            }
            Action::ForgetSwitchover(request) => {
                assert_eq!(self.observed.switchover.request.take(), Some(request));
            }
            Action::GrowVolume(serial, uid) => {
                let wanted = self.observed.storage.size;
                let volume = self.observed.volumes.get_mut(&serial).filter(|volume| volume.uid == uid);
                let size = &mut volume.unwrap().size;
                assert!(size.is_bound && size.request < wanted, "{size:?} grows to {wanted:?}");
                size.request = wanted;
            }
            Action::SetRole(serial, uid, role) => {
                let pod = self.observed.pods.get_mut(&serial).filter(|pod| pod.uid == uid).unwrap();
                pod.role = Some(role);
                let primaries = self.observed.pods.values().filter(|pod| pod.role == Some(Role::Primary));
                assert!(primaries.count() <= 1, "two primaries");
            }
        }
    }

    /// Lets everything work until nothing is left to do.
    fn settle(&mut self) {
        self.observed.paused = false;
        // Nobody waits for a member that does not exist.
        self.observed.switchover.request = None;
        self.written.1 = Fence::default();
        self.happen(&Event::Find(true));
        for _ in 0..200 {
            self.happen(&Event::Collect);
            self.observed.pods.values_mut().for_each(|pod| pod.is_ready = !pod.is_finished);
            let goes_on = self.recover() | self.upgrade(true);
            if !self.reconcile(usize::MAX) && !goes_on {
                return;
            }
        }
        panic!("the cluster does not settle: {:?}", self.observed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn interrupted_reconciles_converge_and_keep_the_guarantees(
        events in vec(event(), 0..80),
        deletes in any::<bool>(),
        from_archive in any::<bool>(),
    ) {
        let when_scaled = if deletes { RetentionPolicy::Delete } else { RetentionPolicy::Retain };
        let mut model = Model::new(when_scaled, from_archive);
        for event in &events {
            model.happen(event);
        }
        model.settle();
        let observed = &model.observed;
        prop_assert_eq!(observed.membership.members.len(), observed.size);
        let members: BTreeSet<_> = observed.membership.members.iter().map(|member| member.serial).collect();
        prop_assert_eq!(&observed.pods.keys().copied().collect::<BTreeSet<_>>(), &members);
        prop_assert_eq!(model.databases.len(), usize::from(!from_archive), "volumes with a database of their own");
        prop_assert_eq!(model.restored.contains_key(&observed.cluster_uid), from_archive);
        prop_assert!(observed.membership.recovery.as_ref().is_none_or(|recovery| recovery.done));
        let volumes: BTreeSet<_> = observed.volumes.keys().copied().collect();
        if deletes && model.lives > 1 {
            // One that was to be deleted when the cluster was deleted stays.
            prop_assert!(volumes.is_superset(&members));
        } else if deletes {
            prop_assert_eq!(&volumes, &members);
        } else {
            prop_assert_eq!(volumes, model.used.clone());
        }
        for member in &members {
            // One of a former cluster can be larger.
            prop_assert!(observed.volumes[member].size.request >= observed.storage.size);
        }
        let primaries = observed.pods.values().filter(|pod| pod.role == Some(Role::Primary)).count();
        prop_assert_eq!(primaries, 1);
        let systems: BTreeSet<_> = members.iter().map(|member| model.system(*member)).collect();
        prop_assert_eq!(systems, BTreeSet::from([FIRST.1 + u64::from(model.version - FIRST.0)]));
        let is_refused = observed.membership.upgrade.as_ref().is_some_and(MajorUpgradeStatus::has_failed);
        prop_assert!(!model.asks || is_refused, "the upgrade does not begin");
        let revisions: BTreeSet<_> = observed.pods.values().map(|pod| Some(pod.revision.clone())).collect();
        prop_assert_eq!(revisions, BTreeSet::from([observed.updates.revision.clone()]));
    }
}

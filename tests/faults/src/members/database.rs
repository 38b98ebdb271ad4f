//! A model of the databases: volumes that survive their Pods, and PostgreSQL on them. Pure.
//!
//! Commands succeed at once, and standbys have all WAL of a primary that they follow.

use std::collections::{BTreeMap, BTreeSet};

use postgres_model::{
    instance::{ClusterView, Command, ControlData, DataDirectory, Server},
    lsn::Lsn,
    parameters::Parameters,
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    volume_state::VolumeState,
};

/// End of the WAL of a new database, and how much WAL a promotion writes.
const SEGMENT: u64 = 0x0100_0000;
/// Identifier of the first database.
pub(crate) const FIRST_SYSTEM: u64 = 7_400_000_000_000_000_000;
/// Parameters that take effect when PostgreSQL starts.
const AT_START: [&str; 2] = ["max_connections", "shared_buffers"];

/// The place of a member.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Name of the member.
    pub(super) member: String,
    /// Name of the PostgresCluster.
    pub(super) cluster: String,
    /// UID of its PersistentVolumeClaim.
    pub(super) volume_uid: String,
}

/// All databases.
#[derive(Default)]
pub(super) struct Databases {
    volumes: BTreeMap<String, Volume>,
    /// The servers that run, by the names of their members.
    servers: BTreeMap<String, Running>,
    /// UIDs of the clusters whose database was created.
    created: BTreeSet<String>,
    violations: Vec<(String, String)>,
}

/// A volume.
#[derive(Clone)]
struct Volume {
    state: VolumeState,
    data: Option<Data>,
}

/// A data directory.
#[derive(Clone, PartialEq)]
struct Data {
    system_identifier: SystemIdentifier,
    history: History,
    end: Lsn,
}

/// A PostgreSQL that runs.
#[derive(Clone)]
struct Running {
    place: Place,
    server: Server,
    /// Parameters at its start.
    parameters: Parameters,
}

/// What a member sees of its volume and of its PostgreSQL.
pub(super) struct Local {
    pub(super) state: VolumeState,
    pub(super) data: DataDirectory,
    pub(super) server: Server,
    /// Standbys that stream from it.
    pub(super) standbys: Vec<String>,
    /// Whether it receives WAL from a primary.
    pub(super) has_receiver: bool,
    /// Whether a parameter waits for a restart.
    pub(super) pending_restart: bool,
}

impl Databases {
    /// Mounts a volume for a cluster.
    ///
    /// # Errors
    /// Returns an error if it belongs to another cluster.
    pub(super) fn mount(
        &mut self,
        place: &Place,
        creator: &str,
        cluster_uid: &str,
    ) -> Result<(), postgres_model::volume_state::VolumeStateError> {
        let (state, data) = match self.volumes.get(&place.volume_uid).cloned() {
            Some(known) => (known.state.used_by(creator, cluster_uid)?, known.data),
            None => (VolumeState::empty(creator, cluster_uid), None),
        };
        self.volumes.insert(place.volume_uid.clone(), Volume { state, data });
        Ok(())
    }

    /// Returns what a member sees. Returns `None` if its volume is not mounted.
    pub(super) fn local(&self, place: &Place, parameters: &Parameters) -> Option<Local> {
        let volume = self.volumes.get(&place.volume_uid)?;
        let running = self.servers.get(&place.member);
        let server = running.map_or(Server::Down, |running| running.server.clone());
        let at_start = |all: &Parameters| AT_START.map(|name| all.get(name).cloned());
        Some(Local {
            state: volume.state.clone(),
            data: volume.data.as_ref().map_or(DataDirectory::Missing, |data| {
                DataDirectory::Whole(ControlData {
                    system_identifier: data.system_identifier,
                    history: data.history.clone(),
                    end: Some(data.end),
                })
            }),
            standbys: self.standbys(&place.member),
            has_receiver: upstream(&server).is_some_and(|primary| self.leads(primary)),
            pending_restart: running
                .is_some_and(|running| at_start(&running.parameters) != at_start(parameters)),
            server,
        })
    }

    /// Performs a command. One that cannot succeed yet changes nothing, and is planned again.
    pub(super) fn perform(
        &mut self,
        place: &Place,
        command: &Command,
        view: &ClusterView,
        parameters: &Parameters,
    ) {
        match command {
            Command::CreateDatabase => self.create(place, view),
            Command::Clone { primary } | Command::Rewind { primary } => self.copy(place, primary, view),
            Command::StartStandby { upstream } => {
                let server = Server::Standby { upstream: upstream.clone() };
                self.start(place, server, parameters);
            }
            Command::Follow { upstream } => {
                let server = Server::Standby { upstream: Some(upstream.clone()) };
                self.change_server(place, server);
            }
            Command::Seal { epoch } => {
                if self.servers.contains_key(&place.member) {
                    self.change_server(place, Server::Standby { upstream: None });
                }
                self.change_state(place, |state| state.sealed_epoch = Some(*epoch));
            }
            Command::StartPrimary => {
                self.start(place, Server::Primary { responsive: true }, parameters);
                self.begin_timeline(place, view.timeline);
            }
            Command::Promote { timeline } => self.promote(place, *timeline),
            Command::Stop(_) => self.stop(place),
            // There is no archive, and only one version.
            Command::Restore | Command::Upgrade => {}
        }
        self.replicate();
    }

    /// Stops the PostgreSQL of a member, if it runs.
    pub(super) fn stop(&mut self, place: &Place) {
        self.servers.remove(&place.member);
    }

    /// Returns the violations of a run.
    pub(super) fn violations(&self, run: &str) -> Vec<String> {
        let of_run = self.violations.iter().filter(|(cluster, _)| cluster.starts_with(run));
        of_run.map(|(_, violation)| violation.clone()).collect()
    }

    fn create(&mut self, place: &Place, view: &ClusterView) {
        let number = u64::try_from(self.created.len()).unwrap_or_default();
        let system = SystemIdentifier(FIRST_SYSTEM + number);
        let Some(volume) = self.volumes.get_mut(&place.volume_uid) else { return };
        if !self.created.insert(volume.state.cluster_uid.clone()) {
            let violation = format!("the database of {} was created twice", place.cluster);
            self.violations.push((place.cluster.clone(), violation));
        }
        volume.data =
            Some(Data { system_identifier: system, history: History::first(), end: Lsn(3 * SEGMENT) });
        volume.state.system_identifier = Some(system);
        volume.state.own_timeline = Some(view.timeline);
    }

    /// Copies the data of a primary that runs.
    fn copy(&mut self, place: &Place, primary: &str, view: &ClusterView) {
        let source = self.servers.get(primary).filter(|_| self.leads(primary));
        let source = source.and_then(|running| self.volumes.get(&running.place.volume_uid)?.data.clone());
        let (Some(source), Some(volume)) = (source, self.volumes.get_mut(&place.volume_uid)) else { return };
        volume.state.system_identifier = Some(source.system_identifier);
        volume.state.own_timeline = None;
        volume.state.followed_timeline = Some(view.timeline);
        volume.data = Some(source);
    }

    fn start(&mut self, place: &Place, server: Server, parameters: &Parameters) {
        let running = Running { place: place.clone(), server, parameters: parameters.clone() };
        self.servers.insert(place.member.clone(), running);
        self.check(place);
    }

    fn change_server(&mut self, place: &Place, server: Server) {
        if let Some(running) = self.servers.get_mut(&place.member) {
            running.server = server;
        }
        self.check(place);
    }

    fn change_state(&mut self, place: &Place, change: impl FnOnce(&mut VolumeState)) {
        if let Some(volume) = self.volumes.get_mut(&place.volume_uid) {
            change(&mut volume.state);
        }
    }

    fn promote(&mut self, place: &Place, timeline: TimelineId) {
        if let Some(data) = self.volumes.get_mut(&place.volume_uid).and_then(|volume| volume.data.as_mut()) {
            let text = format!("{}{}\t{}\n", data.history, data.history.timeline(), data.end);
            if let Ok(history) = History::parse(timeline, &text) {
                data.history = history;
            }
            data.end = Lsn(data.end.0 + SEGMENT);
        }
        self.change_server(place, Server::Primary { responsive: true });
        self.begin_timeline(place, timeline);
    }

    fn begin_timeline(&mut self, place: &Place, timeline: TimelineId) {
        self.change_state(place, |state| {
            state.own_timeline = Some(timeline);
            state.promotion_begun = None;
        });
    }

    /// Sends all WAL to the standbys.
    fn replicate(&mut self) {
        for standby in self.servers.values() {
            let Some(primary) = upstream(&standby.server).filter(|primary| self.leads(primary)) else {
                continue;
            };
            let source = self.servers.get(primary).map(|primary| &primary.place.volume_uid);
            let data = source.and_then(|uid| self.volumes.get(uid)?.data.clone());
            if let (Some(data), Some(volume)) = (data, self.volumes.get_mut(&standby.place.volume_uid)) {
                volume.state.followed_timeline = Some(data.history.timeline());
                volume.data = Some(data);
            }
        }
    }

    /// Records a second primary of a cluster.
    fn check(&mut self, place: &Place) {
        let primaries = self.servers.values().filter(|running| {
            running.place.cluster == place.cluster && matches!(running.server, Server::Primary { .. })
        });
        let names: Vec<_> = primaries.map(|running| running.place.member.as_str()).collect();
        if names.len() > 1 {
            let violation = format!("{} take writes at the same time", names.join(" and "));
            self.violations.push((place.cluster.clone(), violation));
        }
    }

    fn leads(&self, member: &str) -> bool {
        self.servers.get(member).is_some_and(|running| matches!(running.server, Server::Primary { .. }))
    }

    fn standbys(&self, member: &str) -> Vec<String> {
        let follows = |running: &&Running| upstream(&running.server) == Some(member);
        let standbys = self.servers.values().filter(follows).filter(|_| self.leads(member));
        standbys.map(|running| running.place.member.clone()).collect()
    }
}

fn upstream(server: &Server) -> Option<&str> {
    match server {
        Server::Standby { upstream } => upstream.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(serial: u32) -> Place {
        Place {
            member: format!("r000001-{serial}"),
            cluster: "r000001".to_owned(),
            volume_uid: format!("v-{serial}"),
        }
    }

    fn view() -> ClusterView {
        ClusterView {
            upgrade: None,
            epoch: 1,
            target: Some("r000001-1".to_owned()),
            current: Some("r000001-1".to_owned()),
            expired_lease: None,
            timeline: TimelineId::FIRST,
            primary_history: Some(History::first()),
            create_on: None,
            recovers: false,
            system_identifier: None,
            fenced: false,
            fencing: true,
        }
    }

    fn databases() -> Databases {
        let mut databases = Databases::default();
        for serial in [1, 2] {
            databases.mount(&place(serial), "c", "c").unwrap();
        }
        for (serial, command) in [
            (1, Command::CreateDatabase),
            (1, Command::StartPrimary),
            (2, Command::Clone { primary: place(1).member }),
            (2, Command::StartStandby { upstream: Some(place(1).member) }),
        ] {
            databases.perform(&place(serial), &command, &view(), &Parameters::new());
        }
        databases
    }

    #[test]
    fn standby_has_what_the_primary_has() {
        let mut databases = databases();
        let local =
            |databases: &Databases, serial| databases.local(&place(serial), &Parameters::new()).unwrap();
        assert!(local(&databases, 2).has_receiver);
        assert_eq!(local(&databases, 1).standbys, [place(2).member]);
        databases.stop(&place(1));
        assert!(!local(&databases, 2).has_receiver);
        let second = TimelineId::FIRST.next().unwrap();
        databases.perform(&place(2), &Command::Promote { timeline: second }, &view(), &Parameters::new());
        let DataDirectory::Whole(control) = local(&databases, 2).data else { panic!("no data") };
        assert_eq!(control.history.to_string(), "1\t0/3000000\n");
        assert_eq!(databases.violations("r000001"), [] as [String; 0]);
    }

    #[test]
    fn records_second_primary_and_second_creation() {
        let mut databases = databases();
        let second = TimelineId::FIRST.next().unwrap();
        databases.perform(&place(2), &Command::Promote { timeline: second }, &view(), &Parameters::new());
        databases.perform(&place(2), &Command::CreateDatabase, &view(), &Parameters::new());
        let violations = databases.violations("r000001");
        assert_eq!(violations.len(), 2, "{violations:?}");
        assert_eq!(databases.violations("r000002"), [] as [String; 0]);
    }
}

//! One step of the operator.

use std::time::Duration;

use postgres_model::{
    failover::{MemberView, Replication, Step, View, decide},
    instance::Server,
    report::{StandbyReport, SyncState, WalSenderState},
    sync::SyncMethod,
};

use crate::{
    node::Node,
    world::{World, names},
};

/// How many standbys a commit should wait for.
const NUMBER: usize = 1;

const LEASE: Duration = Duration::from_secs(15);

impl World {
    /// Decides on the stored state and on the reports that arrive.
    pub(crate) fn operate(&mut self) {
        self.forget_request();
        // Kubernetes takes a Pod for gone whose node does not answer, although it may run.
        let presumed_dead = self.rng.bool();
        let members: Vec<_> = self
            .nodes
            .iter()
            .map(|node| MemberView {
                name: node.name.clone(),
                serial: node.serial,
                is_gone: !node.runs || (presumed_dead && (node.cut_from_api || node.frozen)),
                on_cordoned_node: false,
                is_fenced: node.is_fenced,
                report: (node.works() && !node.cut_from_peers).then(|| node.report()),
            })
            .collect();
        let reports =
            members.iter().filter_map(|member| Some((member.name.as_str(), member.report.as_ref()?)));
        self.state.learn(reports);
        let names = names();
        let (streaming, in_force) = (self.streaming(), self.in_force());
        let streaming_since = self.streaming.observe(&streaming, self.now);
        let primary_is_fenced = self.primary_is_fenced();
        let has_expired = self.now.saturating_sub(self.lease_written) > LEASE;
        let view = View {
            state: &self.state,
            members: &members,
            lease_is_free: self.lease.free || has_expired,
            expired_lease: Some(self.lease.version.as_str()).filter(|_| has_expired),
            since_change: self.now.saturating_sub(self.stored),
            lease: LEASE,
            max_lag: 0,
            number: NUMBER,
            last_position: None,
            switchover: self.request.as_deref(),
            successors: &streaming,
            since_fenced: self.primary_fenced.observe(&primary_is_fenced, self.now),
            forced: None,
        };
        let replication = Replication {
            number: NUMBER,
            is_required: self.is_required,
            members: &names,
            streaming: &streaming,
            streaming_since,
            since_renewal: (!view.lease_is_free).then(|| self.now.saturating_sub(self.lease_written)),
            in_force: in_force.as_deref(),
        };
        match decide(view, |primary| replication.first(primary)) {
            Step::Store(state) => {
                self.note(|| {
                    let (epoch, target) = (state.epoch, &state.target);
                    format!(
                        "operator: epoch {epoch} target {target:?} current {:?} timeline {}",
                        state.current, state.timeline
                    )
                });
                let is_replaced = state.target != self.state.target;
                assert!(
                    !(primary_is_fenced && is_replaced),
                    "a primary that is fenced is replaced: {state:?}"
                );
                self.stored = self.now;
                self.state = state;
                self.store_history();
            }
            Step::Seal(names) => {
                let epoch = self.state.epoch;
                let members = self.nodes.iter_mut().filter(|node| names.contains(&node.name));
                members.for_each(|node| node.seal_requested = Some(epoch));
            }
            Step::None if self.reporting_primary().is_some() => {
                if let Some(reigns) = replication.next(&self.state) {
                    self.note(|| format!("operator: {reigns:?}"));
                    self.stored = self.now;
                    self.state.reigns = reigns;
                }
            }
            Step::Force(state) => panic!("nobody has forced {state:?}"),
            Step::None
            | Step::NoQuorum(_)
            | Step::TooFarBehind(_)
            | Step::Unprotected
            | Step::DiskFull(_) => {}
        }
    }

    /// Returns whether a person has fenced the confirmed primary.
    fn primary_is_fenced(&self) -> bool {
        self.nodes.iter().any(|node| node.is_fenced && Some(&node.name) == self.state.current.as_ref())
    }

    /// Removes a request that was acted on, unless the operator is killed before that.
    fn forget_request(&mut self) {
        if self.request == self.state.switchover && (self.calm || self.rng.bool()) {
            self.request = None;
        }
    }

    /// Returns the standbys that the confirmed primary reports.
    fn streaming(&self) -> Vec<String> {
        let Some(primary) = self.reporting_primary() else { return Vec::new() };
        let follows = Server::Standby { upstream: Some(primary.name.clone()) };
        let streams = |node: &&Node| node.server == follows && node.works() && !node.cut_from_peers;
        self.nodes.iter().filter(streams).map(|node| node.name.clone()).collect()
    }

    /// Returns the synchronous configuration that the confirmed primary reports.
    fn in_force(&mut self) -> Option<String> {
        let name = self.reporting_primary()?.name.clone();
        let standbys = self.streaming().into_iter().map(|name| {
            let node = self.nodes.iter().find(|node| node.name == name);
            StandbyReport {
                flushed: node.map(Node::end),
                name,
                state: WalSenderState::Streaming,
                sync_state: SyncState::Unknown,
            }
        });
        let standbys: Vec<_> = standbys.collect();
        let (now, primary) = (self.now, self.nodes.iter_mut().find(|node| node.name == name)?);
        let (value, end) = (primary.sync.standby_names(SyncMethod::Any), primary.end());
        primary.in_force.observe(now, &value, end, &standbys, &primary.sync);
        primary.in_force.value().map(str::to_owned)
    }

    fn reporting_primary(&self) -> Option<&Node> {
        let current = self.state.current.as_ref()?;
        let primary = self.nodes.iter().find(|node| node.name == *current)?;
        (primary.works() && !primary.cut_from_peers && primary.is_primary()).then_some(primary)
    }

    /// Stores the history that the confirmed primary reports.
    fn store_history(&mut self) {
        let current = self.state.current.as_ref();
        let primary = self.nodes.iter().find(|node| Some(&node.name) == current);
        self.primary_history = primary.map(|node| node.history.clone());
    }
}

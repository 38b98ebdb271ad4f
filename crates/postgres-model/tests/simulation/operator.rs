//! One step of the operator.

use std::time::Duration;

use postgres_model::failover::{MemberView, Step, View, decide};

use crate::world::{World, configuration};

const LEASE: Duration = Duration::from_secs(15);

impl World {
    /// Decides on the stored state and on the reports that arrive.
    pub(crate) fn operate(&mut self) {
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
                report: (node.works() && !node.cut_from_peers).then(|| node.report()),
            })
            .collect();
        let view = View {
            state: &self.state,
            members: &members,
            lease_is_free: self.lease.free || self.now.saturating_sub(self.lease_written) > LEASE,
            since_change: self.now.saturating_sub(self.stored),
            lease: LEASE,
            max_lag: 0,
            last_position: None,
        };
        match decide(view, configuration) {
            Step::Store(state) => {
                self.note(|| {
                    let (epoch, target) = (state.epoch, &state.target);
                    format!(
                        "operator: epoch {epoch} target {target:?} current {:?} timeline {}",
                        state.current, state.timeline
                    )
                });
                self.stored = self.now;
                self.state = state;
                self.store_history();
            }
            Step::Seal(names) => {
                let epoch = self.state.epoch;
                let members = self.nodes.iter_mut().filter(|node| names.contains(&node.name));
                members.for_each(|node| node.seal_requested = Some(epoch));
            }
            Step::None | Step::NoQuorum(_) | Step::TooFarBehind(_) => {}
        }
    }

    /// Stores the history that the confirmed primary reports.
    fn store_history(&mut self) {
        let current = self.state.current.as_ref();
        let primary = self.nodes.iter().find(|node| Some(&node.name) == current);
        self.primary_history = primary.map(|node| node.history.clone());
    }
}

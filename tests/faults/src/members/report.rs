//! What a member reports. Pure functions.

use postgres_instance::cluster::MemberCluster;
use postgres_model::{
    instance::{DataDirectory, Plan, Server},
    parameters::fingerprint,
    report::{
        DatabasesReport, InstanceReport, InstanceState, StandbyReport, SyncState, WalPositions,
        WalSenderState,
    },
    sync::{SyncConfiguration, SyncMethod},
};

use super::database::Local;

/// Size of a volume.
const TOTAL_BYTES: u64 = 1 << 30;

/// Returns the report of a member after a step.
pub(super) fn report(
    first: InstanceReport,
    plan: &Plan,
    local: &Local,
    cluster: Option<&MemberCluster>,
) -> InstanceReport {
    let control = match &local.data {
        DataDirectory::Whole(control) => Some(control),
        DataDirectory::Missing => None,
    };
    let is_primary = matches!(local.server, Server::Primary { .. });
    let runs = local.server != Server::Down;
    let end = control.and_then(|control| control.end).filter(|_| runs);
    let standby = |name: &String| StandbyReport {
        name: name.clone(),
        state: WalSenderState::Streaming,
        sync_state: SyncState::Quorum,
        flushed: end,
    };
    InstanceReport {
        state: match plan.state {
            InstanceState::Primary if !is_primary => InstanceState::Promoting,
            state => state,
        },
        system_identifier: control.map(|control| control.system_identifier),
        timeline: control.map(|control| control.history.timeline()),
        highest_timeline: local.state.highest_timeline(),
        is_empty: control.is_none() && local.state.system_identifier.is_none(),
        history: control.filter(|_| is_primary).map(|control| control.history.to_string()),
        problem: plan.problem.map(|problem| problem.to_string()),
        positions: WalPositions {
            flushed: end.filter(|_| is_primary),
            received: end.filter(|_| !is_primary),
            replayed: end.filter(|_| !is_primary),
        },
        sealed_epoch: local.state.sealed_epoch,
        pending_restart: local.pending_restart,
        parameters: cluster.map(|cluster| fingerprint(&cluster.parameters)).filter(|_| runs),
        databases: cluster.filter(|_| is_primary).and_then(databases),
        synchronous_standby_names: in_force(local, cluster).filter(|_| is_primary),
        standbys: local.standbys.iter().map(standby).collect(),
        fencing: cluster.is_none_or(|cluster| cluster.view.fencing),
        total_bytes: TOTAL_BYTES,
        free_bytes: TOTAL_BYTES / 2,
        ..first
    }
}

/// Returns what came of the roles and databases of the spec: PostgreSQL refuses none.
fn databases(cluster: &MemberCluster) -> Option<DatabasesReport> {
    let fingerprint = cluster.declared.fingerprint();
    (!cluster.declared.is_empty()).then_some(DatabasesReport { fingerprint, problem: None })
}

/// Returns whether a member serves.
pub(super) fn is_ready(local: &Local) -> bool {
    matches!(local.server, Server::Primary { .. }) || local.has_receiver
}

/// Returns the synchronous configuration, once enough of its standbys stream.
fn in_force(local: &Local, cluster: Option<&MemberCluster>) -> Option<String> {
    let configuration = cluster?.sync.as_ref().ok()?;
    let streams = |configuration: &SyncConfiguration| {
        configuration.members().iter().filter(|name| local.standbys.contains(name)).count()
    };
    (streams(configuration) >= configuration.number()).then(|| configuration.standby_names(SyncMethod::Any))
}

//! The condition about the volumes of the members.

use std::collections::BTreeMap;

use operator_core::{
    conditions::{NewCondition, find},
    quantity::Quantity,
};
use postgres_model::{report::InstanceReport, space};

use super::Observation;
use crate::{
    api::PostgresCluster,
    build::member_name,
    condition_types::STORAGE_HEALTHY,
    decide::Volume,
    membership::Serial,
    reasons::{AS_SPECIFIED, FULL, GROWING, LOW_SPACE, RESIZE_REFUSED},
};

/// What is wrong with volumes: a reason, and what it concerns.
type Finding = (&'static str, String);

/// True if every volume has the size of the spec, and enough free space.
///
/// The first reason counts, and the message has all of them. It contains no number that changes
/// while the database is used, because each change would be a write.
pub(super) fn storage_healthy(cluster: &PostgresCluster, observed: &Observation<'_>) -> NewCondition {
    let findings = [
        full(cluster, observed),
        refused(cluster, observed),
        growing(cluster, observed),
        low(cluster, observed),
    ];
    let findings: Vec<Finding> = findings.into_iter().flatten().collect();
    match findings.first() {
        Some((reason, _)) => {
            let messages: Vec<_> = findings.iter().map(|(_, message)| message.as_str()).collect();
            NewCondition::is_false(STORAGE_HEALTHY, reason, messages.join("; "))
        }
        None => NewCondition::is_true(
            STORAGE_HEALTHY,
            AS_SPECIFIED,
            "the volumes have the size of the spec and free space",
        ),
    }
}

/// Returns the members that do not work because their volumes are full.
fn full(cluster: &PostgresCluster, observed: &Observation<'_>) -> Vec<Finding> {
    const PROBLEM: &str =
        "the volume is full, so PostgreSQL is about to stop; raise spec.storage.size of the PostgresCluster";
    let mut members = BTreeMap::<&str, Vec<String>>::new();
    for (serial, report) in observed.reports.iter().filter(|(_, report)| report.disk_full) {
        let problem = report.problem.as_deref().unwrap_or(PROBLEM);
        members.entry(problem).or_default().push(member_name(cluster, *serial));
    }
    let finding =
        |(problem, members): (&str, Vec<String>)| (FULL, format!("{}: {problem}", members.join(", ")));
    members.into_iter().map(finding).collect()
}

/// Returns the volumes that the API server does not let grow.
fn refused(cluster: &PostgresCluster, observed: &Observation<'_>) -> Vec<Finding> {
    let size = Quantity::try_from(&cluster.spec.storage.size).ok();
    let is_small = |serial: &Serial| {
        let volume = observed.volumes.get(serial);
        volume.zip(size).is_some_and(|(volume, size)| volume.size.requests_less_than(size))
    };
    let refusals = observed.refusals.iter().filter(|(serial, _)| is_small(serial));
    refusals.map(|(_, message)| (RESIZE_REFUSED, format!("{message}; use a storage class with allowVolumeExpansion, or change the quota or the policy; the controller tries again every minute"))).collect()
}

/// Returns the volumes that are smaller than their claims, and the claims that cannot grow yet.
fn growing(cluster: &PostgresCluster, observed: &Observation<'_>) -> Vec<Finding> {
    let size = Quantity::try_from(&cluster.spec.storage.size).ok();
    let of_member = |serial: Serial| -> Option<Finding> {
        let name = member_name(cluster, serial);
        let Volume { size: claim, .. } = observed.volumes.get(&serial).filter(|volume| volume.is_ours)?;
        if claim.grows() {
            let (capacity, request) = claim.capacity.zip(claim.request)?;
            let note = claim.note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
            return Some((GROWING, format!("the volume of {name} has {capacity} of {request}{note}")));
        }
        let waits = !claim.is_bound && claim.requests_less_than(size?);
        waits.then(|| (GROWING, format!("the claim {name} grows when it is bound to a volume")))
    };
    observed.membership.staying().filter_map(|member| of_member(member.serial)).collect()
}

/// Returns the members whose volumes have little space left.
fn low(cluster: &PostgresCluster, observed: &Observation<'_>) -> Vec<Finding> {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions).cloned();
    let known = find(&conditions.collect::<Vec<_>>(), STORAGE_HEALTHY).cloned();
    let was_low = known.is_some_and(|known| known.status == "False");
    let is_low = |report: &InstanceReport| {
        !report.disk_full && space::is_low(report.total_bytes, report.free_bytes, was_low)
    };
    let members = observed.reports.iter().filter(|(_, report)| is_low(report));
    let names: Vec<_> = members.map(|(serial, _)| member_name(cluster, *serial)).collect();
    let message = format!(
        "little space is left on the volumes of {}; raise spec.storage.size, or delete data",
        names.join(", ")
    );
    if names.is_empty() { Vec::new() } else { vec![(LOW_SPACE, message)] }
}

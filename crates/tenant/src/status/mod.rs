//! Status of a Tenant. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use capsule::{
    api::v1beta2::{
        AvailableClasses, Metadata, OwnerStatus, Reservation, Space, Tenant, TenantSpec, TenantState,
        TenantStatus,
    },
    membership::MembershipError,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::ResourceExt;
use operator_core::{
    conditions::{NewCondition, READY, Status, set_condition, set_conditions},
    kind::is_deleting,
};

use crate::{
    condition_types::{CORDONED, TERMINATING},
    failure::Failures,
    namespaces::MemberNamespaces,
    plan::{Plan, last_applied_metadata},
    reasons::{self, ACTIVE, FAILED, PENDING_UNMANAGED_CONTENT, RECONCILING, SUCCEEDED},
    unsupported_fields,
};

/// Limit of mismatched namespaces in the message of the condition Ready.
const MAX_LISTED_MISMATCHES: usize = 4;
/// Limit of the message of a condition, in bytes. The limit of the API server is higher.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Result of a reconcile.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) owners: Vec<OwnerStatus>,
    pub(crate) members: MemberNamespaces,
    /// Members that the status lists and the cache lacks, although they exist in the API server.
    pub(crate) uncached: BTreeSet<String>,
    /// Labels and annotations that were applied, by active namespace.
    pub(crate) metadata: BTreeMap<String, Metadata>,
    pub(crate) failures: Failures,
    pub(crate) warnings: Vec<String>,
    /// Classes that exist and are allowed.
    pub(crate) classes: AvailableClasses,
}

/// Returns the status that records the plan, or `None` if it is recorded already.
///
/// The status is written before the plan is carried out. Admission reads the owners from it. The
/// metadata must be recorded before it is applied, so that a restarted controller can remove it
/// again. A new namespace counts only after the reconcile: a Tenant that is ready has the objects of all
/// namespaces that it counts.
pub(crate) fn status_of_plan(tenant: &Tenant, plan: &Plan, now: Timestamp) -> Option<TenantStatus> {
    let before = tenant.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.owners.clone_from(&plan.owners);
    for desired in &plan.namespaces {
        let metadata = merge_metadata(&desired.last_applied, &desired.metadata);
        record_metadata(&mut status.spaces, &desired.namespace, metadata);
    }
    if status.owners == before.owners && status.spaces == before.spaces {
        return None;
    }
    if status.observed_generation != tenant.metadata.generation {
        let ready = NewCondition {
            type_: READY,
            status: Status::Unknown,
            reason: RECONCILING,
            message: "processing".to_owned(),
        };
        set_condition(&mut status.conditions, &ready, generation(tenant), now);
    }
    Some(status)
}

/// Merges two sets of metadata. If both have a key, the value of `newer` takes precedence.
pub(crate) fn merge_metadata(older: &Metadata, newer: &Metadata) -> Metadata {
    let merge = |older: &BTreeMap<String, String>, newer: &BTreeMap<String, String>| {
        let mut merged = older.clone();
        merged.extend(newer.clone());
        merged
    };
    Metadata {
        labels: merge(&older.labels, &newer.labels),
        annotations: merge(&older.annotations, &newer.annotations),
    }
}

fn record_metadata(spaces: &mut Vec<Space>, namespace: &Namespace, metadata: Metadata) {
    let is_empty = metadata == Metadata::default();
    let metadata = Some(metadata);
    let (name, uid) = (namespace.name_any(), namespace.uid());
    match spaces.iter_mut().find(|space| space.name == name) {
        Some(space) if space.uid == uid => space.metadata = metadata,
        Some(recreated) => *recreated = Space { name, uid, metadata, ..Space::default() },
        None if !is_empty => spaces.push(Space { name, uid, metadata, ..Space::default() }),
        None => {}
    }
    spaces.sort_by(|one, other| one.name.cmp(&other.name));
}

/// Returns the status after a reconcile or a step of the deletion.
pub(crate) fn status(tenant: &Tenant, report: &Report, now: Timestamp) -> TenantStatus {
    let before = tenant.status.as_ref();
    let uncached = before.iter().flat_map(|status| &status.spaces);
    let uncached = uncached.filter(|space| report.uncached.contains(&space.name)).cloned();
    let mut spaces: Vec<_> =
        report.members.all().map(|namespace| space(tenant, namespace, report, now)).chain(uncached).collect();
    spaces.sort_by(|one, other| one.name.cmp(&other.name));
    let new_conditions = [ready(tenant, report), cordoned(&tenant.spec), fields_enforced(&tenant.spec)];
    let conditions = before.map(|status| status.conditions.as_slice()).unwrap_or_default();
    TenantStatus {
        state: state(tenant),
        size: i64::try_from(spaces.len()).unwrap_or(i64::MAX),
        namespaces: spaces.iter().map(|space| space.name.clone()).collect(),
        reservations: reservations(tenant, report),
        observed_generation: tenant.metadata.generation,
        owners: report.owners.clone(),
        spaces,
        classes: Some(report.classes.clone()),
        conditions: set_conditions(conditions, &new_conditions, generation(tenant), now),
        ..TenantStatus::default()
    }
}

/// Returns the reservations without those of terminating namespaces. These were created, and their
/// deletion frees the quota.
fn reservations(tenant: &Tenant, report: &Report) -> Vec<Reservation> {
    let terminating: Vec<_> =
        report.members.terminating.iter().map(|namespace| namespace.name_any()).collect();
    let reservations = tenant.status.iter().flat_map(|status| &status.reservations);
    reservations.filter(|reservation| !terminating.contains(&reservation.namespace)).cloned().collect()
}

fn generation(tenant: &Tenant) -> i64 {
    tenant.metadata.generation.unwrap_or_default()
}

fn state(tenant: &Tenant) -> TenantState {
    match tenant.spec.cordoned {
        _ if is_deleting(tenant) => TenantState::Terminating,
        true => TenantState::Cordoned,
        false => TenantState::Active,
    }
}

fn ready(tenant: &Tenant, report: &Report) -> NewCondition {
    if is_deleting(tenant) {
        return NewCondition::is_false(READY, reasons::TERMINATING, truncate(deletion_message(report)));
    }
    if !report.failures.is_empty() {
        return NewCondition::is_false(READY, FAILED, truncate(report.failures.to_string()));
    }
    let warnings = report.warnings.iter().cloned().chain(mismatch_messages(&report.members.mismatched));
    let message: Vec<_> = std::iter::once("reconciled".to_owned()).chain(warnings).collect();
    NewCondition::is_true(READY, SUCCEEDED, truncate(message.join("; ")))
}

/// Returns a message that lists what blocks the deletion.
fn deletion_message(report: &Report) -> String {
    let names: Vec<_> = report.members.all().map(|namespace| namespace.name_any()).collect();
    let progress = match names.as_slice() {
        [] => "the Tenant is being deleted".to_owned(),
        names => format!("waiting for the deletion of namespaces: {}", names.join(", ")),
    };
    let blocked = report.members.terminating.iter().filter_map(|namespace| {
        let blockers = deletion_blockers(namespace);
        (!blockers.is_empty()).then(|| format!("namespace {}: {blockers}", namespace.name_any()))
    });
    let failures = (!report.failures.is_empty()).then(|| report.failures.to_string());
    std::iter::once(progress).chain(blocked).chain(failures).collect::<Vec<_>>().join("; ")
}

fn mismatch_messages(mismatched: &[(String, MembershipError)]) -> Vec<String> {
    let listed = mismatched.iter().take(MAX_LISTED_MISMATCHES);
    let mut messages: Vec<_> = listed
        .map(|(name, error)| format!("namespace {name} does not belong to the Tenant: {error}"))
        .collect();
    if let Some(more) = mismatched.len().checked_sub(MAX_LISTED_MISMATCHES).filter(|more| *more > 0) {
        messages.push(format!("and {more} more namespaces that do not belong to the Tenant"));
    }
    messages
}

fn truncate(message: String) -> String {
    message.get(..message.floor_char_boundary(MAX_MESSAGE_BYTES)).map(str::to_owned).unwrap_or(message)
}

fn cordoned(spec: &TenantSpec) -> NewCondition {
    if spec.cordoned {
        NewCondition::is_true(CORDONED, reasons::CORDONED, "the Tenant is cordoned")
    } else {
        NewCondition::is_false(CORDONED, ACTIVE, "the Tenant is not cordoned")
    }
}

fn fields_enforced(spec: &TenantSpec) -> NewCondition {
    unsupported_fields::condition(&unsupported_fields::fields(spec))
}

fn space(tenant: &Tenant, namespace: &Namespace, report: &Report, now: Timestamp) -> Space {
    let name = namespace.name_any();
    let metadata = report.metadata.get(&name).cloned();
    let metadata = metadata.unwrap_or_else(|| last_applied_metadata(tenant, &namespace.metadata));
    let mut new_conditions = vec![space_ready(namespace, report), cordoned(&tenant.spec)];
    new_conditions.extend(terminating(namespace));
    let before = conditions_of(tenant, namespace);
    Space {
        conditions: set_conditions(before, &new_conditions, generation(tenant), now),
        // Empty if there is none, as in Capsule.
        metadata: Some(metadata),
        uid: namespace.uid(),
        name,
        enforce: None,
    }
}

fn conditions_of<'t>(tenant: &'t Tenant, namespace: &Namespace) -> &'t [Condition] {
    let spaces = tenant.status.iter().flat_map(|status| &status.spaces);
    let mut spaces =
        spaces.filter(|space| space.name == namespace.name_any() && space.uid == namespace.uid());
    spaces.next().map(|space| space.conditions.as_slice()).unwrap_or_default()
}

fn space_ready(namespace: &Namespace, report: &Report) -> NewCondition {
    if is_deleting(namespace) {
        return NewCondition::is_false(READY, reasons::TERMINATING, "the namespace is being deleted");
    }
    match report.failures.in_namespace(&namespace.name_any()) {
        Some(failure) => NewCondition::is_false(READY, FAILED, truncate(failure)),
        None => NewCondition::is_true(READY, SUCCEEDED, "reconciled"),
    }
}

fn terminating(namespace: &Namespace) -> Option<NewCondition> {
    if !is_deleting(namespace) {
        return None;
    }
    Some(match deletion_blockers(namespace) {
        blockers if blockers.is_empty() => {
            NewCondition::is_true(TERMINATING, reasons::TERMINATING, "the namespace is being deleted")
        }
        blockers => NewCondition::is_true(TERMINATING, PENDING_UNMANAGED_CONTENT, truncate(blockers)),
    })
}

/// Returns what blocks the deletion of a namespace: its content, as reported by Kubernetes'
/// namespace controller, and its own finalizers.
fn deletion_blockers(namespace: &Namespace) -> String {
    let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions = conditions.filter(|condition| condition.status == "True");
    let content = conditions.filter_map(|condition| condition.message.clone());
    let finalizers = namespace.finalizers();
    let own = (!finalizers.is_empty())
        .then(|| format!("finalizers of the namespace remain: {}", finalizers.join(", ")));
    content.chain(own).collect::<Vec<_>>().join("; ")
}

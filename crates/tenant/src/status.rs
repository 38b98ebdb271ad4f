//! What is said of a Tenant. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::ResourceExt;
use operator_core::{
    conditions::{READY, Status, Verdict, set_condition, set_conditions},
    kind::is_deleting,
};

use crate::{
    api::v1beta2::{
        AvailableClasses, Metadata, OwnerStatus, Reservation, Space, Tenant, TenantSpec, TenantState,
        TenantStatus,
    },
    failure::Failures,
    membership::Mismatch,
    namespaces::Members,
    plan::{Plan, remembered},
    reasons::{ACTIVE, CORDONED, FAILED, PENDING_UNMANAGED_CONTENT, RECONCILING, SUCCEEDED, TERMINATING},
    unsupported_fields,
};

/// How many namespaces that do not belong are spelled out.
const STRAYS_TOLD: usize = 4;
/// The longest message of a condition, in bytes. The API server itself allows more.
const LONGEST_MESSAGE: usize = 4096;

/// What was seen and done.
#[derive(Default)]
pub(crate) struct Report {
    /// Everybody who owns the Tenant.
    pub(crate) owners: Vec<OwnerStatus>,
    pub(crate) members: Members,
    /// The namespaces of the Tenant that the status lists and the cache lacks, although the API server has them.
    pub(crate) uncached: BTreeSet<String>,
    /// What the controller has put on each namespace in use.
    pub(crate) metadata: BTreeMap<String, Metadata>,
    pub(crate) failures: Failures,
    pub(crate) notes: Vec<String>,
    /// The classes that are there and allowed.
    pub(crate) classes: AvailableClasses,
}

/// The status before anything is done: admission goes by the owners, and what is put on a namespace is noted
/// first, so that it can be taken away again whatever happens in between.
///
/// `None` if the status says so already.
pub(crate) fn announcement(tenant: &Tenant, plan: &Plan, now: Timestamp) -> Option<TenantStatus> {
    let before = tenant.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.owners.clone_from(&plan.owners);
    for wanted in &plan.namespaces {
        note(&mut status.spaces, &wanted.namespace, with(&wanted.remembered, &wanted.metadata));
    }
    if status.owners == before.owners && status.spaces == before.spaces {
        return None;
    }
    count(&mut status);
    if status.observed_generation != tenant.metadata.generation {
        let ready = Verdict {
            type_: READY,
            status: Status::Unknown,
            reason: RECONCILING,
            message: "processing".to_owned(),
        };
        set_condition(&mut status.conditions, &ready, generation(tenant), now);
    }
    Some(status)
}

/// Both; of two values for one key the newer counts.
pub(crate) fn with(older: &Metadata, newer: &Metadata) -> Metadata {
    let both = |older: &BTreeMap<String, String>, newer: &BTreeMap<String, String>| {
        let mut both = older.clone();
        both.extend(newer.clone());
        both
    };
    Metadata {
        labels: both(&older.labels, &newer.labels),
        annotations: both(&older.annotations, &newer.annotations),
    }
}

fn note(spaces: &mut Vec<Space>, namespace: &Namespace, metadata: Metadata) {
    let metadata = given(metadata);
    let (name, uid) = (namespace.name_any(), namespace.uid());
    match spaces.iter_mut().find(|space| space.name == name) {
        Some(space) if space.uid == uid => space.metadata = metadata,
        Some(namesake) => *namesake = Space { name, uid, metadata, ..Space::default() },
        None if metadata.is_some() => spaces.push(Space { name, uid, metadata, ..Space::default() }),
        None => {}
    }
    spaces.sort_by(|one, other| one.name.cmp(&other.name));
}

fn given(metadata: Metadata) -> Option<Metadata> {
    (metadata != Metadata::default()).then_some(metadata)
}

fn count(status: &mut TenantStatus) {
    status.namespaces = status.spaces.iter().map(|space| space.name.clone()).collect();
    status.size = i64::try_from(status.spaces.len()).unwrap_or(i64::MAX);
}

/// The status after a reconcile or a step of the deletion.
pub(crate) fn status(tenant: &Tenant, report: &Report, now: Timestamp) -> TenantStatus {
    let before = tenant.status.as_ref();
    let uncached = before.iter().flat_map(|status| &status.spaces);
    let uncached = uncached.filter(|space| report.uncached.contains(&space.name)).cloned();
    let mut spaces: Vec<_> =
        report.members.all().map(|namespace| space(tenant, namespace, report, now)).chain(uncached).collect();
    spaces.sort_by(|one, other| one.name.cmp(&other.name));
    let verdicts = [ready(tenant, report), cordoned(&tenant.spec), fields_enforced(&tenant.spec)];
    let conditions = before.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut status = TenantStatus {
        state: state(tenant),
        reservations: reservations(tenant, report),
        observed_generation: tenant.metadata.generation,
        owners: report.owners.clone(),
        spaces,
        classes: Some(report.classes.clone()),
        conditions: set_conditions(conditions, &verdicts, generation(tenant), now),
        ..TenantStatus::default()
    };
    count(&mut status);
    status
}

/// The places that are given, but for those of namespaces that are on their way out: they were created, and when they
/// are gone their places are free.
fn reservations(tenant: &Tenant, report: &Report) -> Vec<Reservation> {
    let leaving: Vec<_> = report.members.leaving.iter().map(|namespace| namespace.name_any()).collect();
    let given = tenant.status.iter().flat_map(|status| &status.reservations);
    given.filter(|reservation| !leaving.contains(&reservation.namespace)).cloned().collect()
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

fn ready(tenant: &Tenant, report: &Report) -> Verdict {
    if is_deleting(tenant) {
        return Verdict::is_false(READY, TERMINATING, shorten(leaving(report)));
    }
    if !report.failures.is_empty() {
        return Verdict::is_false(READY, FAILED, shorten(report.failures.to_string()));
    }
    let notes = report.notes.iter().cloned().chain(strays(&report.members.strays));
    let message: Vec<_> = std::iter::once("reconciled".to_owned()).chain(notes).collect();
    Verdict::is_true(READY, SUCCEEDED, shorten(message.join("; ")))
}

/// What the deletion waits for.
fn leaving(report: &Report) -> String {
    let names: Vec<_> = report.members.all().map(|namespace| namespace.name_any()).collect();
    let waits = match names.as_slice() {
        [] => "the Tenant is being deleted".to_owned(),
        names => format!("waits until these namespaces are gone: {}", names.join(", ")),
    };
    let held = report.members.leaving.iter().filter_map(|namespace| {
        let held = held_up(namespace);
        (!held.is_empty()).then(|| format!("namespace {}: {held}", namespace.name_any()))
    });
    let failures = (!report.failures.is_empty()).then(|| report.failures.to_string());
    std::iter::once(waits).chain(held).chain(failures).collect::<Vec<_>>().join("; ")
}

fn strays(strays: &[(String, Mismatch)]) -> Vec<String> {
    let told = strays.iter().take(STRAYS_TOLD);
    let mut told: Vec<_> =
        told.map(|(name, why)| format!("namespace {name} does not belong to the Tenant: {why}")).collect();
    if let Some(more) = strays.len().checked_sub(STRAYS_TOLD).filter(|more| *more > 0) {
        told.push(format!("and {more} more namespaces that do not belong"));
    }
    told
}

fn shorten(message: String) -> String {
    message.get(..message.floor_char_boundary(LONGEST_MESSAGE)).map(str::to_owned).unwrap_or(message)
}

fn cordoned(spec: &TenantSpec) -> Verdict {
    if spec.cordoned {
        Verdict::is_true(CORDONED, CORDONED, "the Tenant is cordoned")
    } else {
        Verdict::is_false(CORDONED, ACTIVE, "the Tenant is not cordoned")
    }
}

fn fields_enforced(spec: &TenantSpec) -> Verdict {
    unsupported_fields::verdict(&unsupported_fields::fields(spec))
}

fn space(tenant: &Tenant, namespace: &Namespace, report: &Report, now: Timestamp) -> Space {
    let name = namespace.name_any();
    let metadata =
        report.metadata.get(&name).cloned().unwrap_or_else(|| remembered(tenant, &namespace.metadata));
    let mut verdicts = vec![space_ready(namespace, report), cordoned(&tenant.spec)];
    verdicts.extend(terminating(namespace));
    let before = conditions_of(tenant, namespace);
    Space {
        conditions: set_conditions(before, &verdicts, generation(tenant), now),
        metadata: given(metadata),
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

fn space_ready(namespace: &Namespace, report: &Report) -> Verdict {
    if is_deleting(namespace) {
        return Verdict::is_false(READY, TERMINATING, "the namespace is being deleted");
    }
    match report.failures.in_namespace(&namespace.name_any()) {
        Some(failure) => Verdict::is_false(READY, FAILED, shorten(failure)),
        None => Verdict::is_true(READY, SUCCEEDED, "reconciled"),
    }
}

fn terminating(namespace: &Namespace) -> Option<Verdict> {
    if !is_deleting(namespace) {
        return None;
    }
    Some(match held_up(namespace) {
        held if held.is_empty() => {
            Verdict::is_true(TERMINATING, TERMINATING, "the namespace is being deleted")
        }
        held => Verdict::is_true(TERMINATING, PENDING_UNMANAGED_CONTENT, shorten(held)),
    })
}

/// What holds up the deletion of a namespace: what is in it, in the words of Kubernetes' namespace controller, and
/// finalizers of its own.
fn held_up(namespace: &Namespace) -> String {
    let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let told = conditions.filter(|condition| condition.status == "True");
    let content = told.filter_map(|condition| condition.message.clone());
    let held = namespace.finalizers();
    let own = (!held.is_empty()).then(|| format!("waits for its own finalizers: {}", held.join(", ")));
    content.chain(own).collect::<Vec<_>>().join("; ")
}

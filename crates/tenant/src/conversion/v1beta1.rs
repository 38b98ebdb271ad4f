//! Conversion between `v1beta1` and `v1beta2`.

use std::collections::HashMap;

use capsule::api::{
    v1beta1 as old,
    v1beta2::{self as new, AllowedList, DefaultAllowedList, ForbiddenList, TenantState},
};
use kube::ResourceExt;

use super::annotations::{
    AT, Annotations, CLUSTER_ROLES, CORDON, CORDON_ENABLED, DENY_WILDCARD, FORBIDDEN_ANNOTATIONS,
    FORBIDDEN_ANNOTATIONS_REGEXP, FORBIDDEN_LABELS, FORBIDDEN_LABELS_REGEXP, PROTECTED, V1BETA1, entries,
};

/// Maximum length of the name part of an annotation key.
const MAX_KEY_LENGTH: usize = 63;

/// Converts a Tenant from `v1beta1` to `v1beta2`.
pub(super) fn up(mut tenant: old::Tenant) -> new::Tenant {
    let mut annotations = Annotations::take(&mut tenant);
    let cordoned_by_label = tenant.labels_mut().remove(CORDON).is_some_and(|value| value == CORDON_ENABLED);
    let spec = tenant.spec;
    let roles = roles(&annotations);
    let owners = spec.owners.into_iter().enumerate();
    let owners = owners.map(|(index, owner)| owner_up(owner, index, &roles)).collect();
    let new_spec = new::TenantSpec {
        owners,
        ingress_options: ingress_up(spec.ingress_options, annotations.text(DENY_WILDCARD).as_deref()),
        namespace_options: namespaces_up(spec.namespace_options, &mut annotations),
        service_options: spec.service_options,
        storage_classes: spec.storage_classes.map(classes_up),
        priority_classes: spec.priority_classes.map(classes_up),
        container_registries: spec.container_registries,
        node_selector: spec.node_selector,
        network_policies: spec.network_policies,
        limit_ranges: spec.limit_ranges,
        resource_quotas: spec.resource_quotas,
        additional_role_bindings: spec.additional_role_bindings,
        image_pull_policies: spec.image_pull_policies,
        // Invalid values do not cordon.
        cordoned: annotations.flag(CORDON).is_some_and(Result::unwrap_or_default) || cordoned_by_label,
        prevent_deletion: annotations.text(PROTECTED).is_some(),
        ..new::TenantSpec::default()
    };
    annotations.0.retain(|key, _| !key.starts_with(CLUSTER_ROLES));
    let mut converted =
        new::Tenant { metadata: tenant.metadata, spec: new_spec, status: tenant.status.map(status_up) };
    annotations.put(&mut converted);
    without_empty_labels(&mut converted);
    converted
}

/// Converts a Tenant from `v1beta2` to `v1beta1`.
pub(super) fn down(mut tenant: new::Tenant) -> old::Tenant {
    let mut annotations = Annotations::take(&mut tenant);
    annotations.remove_all(V1BETA1);
    annotations.0.retain(|key, _| !key.starts_with(CLUSTER_ROLES));
    tenant.labels_mut().remove(CORDON);
    let spec = tenant.spec;
    for owner in &spec.owners {
        set_roles(&mut annotations, owner);
    }
    let allows_wildcard =
        spec.ingress_options.as_ref().is_some_and(|options| options.allow_wildcard_hostnames);
    annotations.set(DENY_WILDCARD, (!allows_wildcard).to_string());
    if spec.cordoned {
        annotations.set(CORDON, true.to_string());
    }
    if spec.prevent_deletion {
        annotations.set(PROTECTED, true.to_string());
    }
    let old_spec = old::TenantSpec {
        owners: spec.owners.into_iter().map(owner_down).collect(),
        namespace_options: spec.namespace_options.map(|options| namespaces_down(options, &mut annotations)),
        ingress_options: spec.ingress_options.map(ingress_down),
        service_options: spec.service_options,
        storage_classes: spec.storage_classes.map(classes_down),
        priority_classes: spec.priority_classes.map(classes_down),
        container_registries: spec.container_registries,
        node_selector: spec.node_selector,
        network_policies: spec.network_policies,
        limit_ranges: spec.limit_ranges,
        resource_quotas: spec.resource_quotas,
        additional_role_bindings: spec.additional_role_bindings,
        image_pull_policies: spec.image_pull_policies,
    };
    let mut converted =
        old::Tenant { metadata: tenant.metadata, spec: old_spec, status: tenant.status.map(status_down) };
    annotations.put(&mut converted);
    without_empty_labels(&mut converted);
    converted
}

fn without_empty_labels<K: ResourceExt>(object: &mut K) {
    object.meta_mut().labels.take_if(|labels| labels.is_empty());
}

fn owner_up(owner: old::OwnerSpec, index: usize, roles: &HashMap<String, String>) -> new::OwnerSpec {
    let old::OwnerSpec { kind, name, proxy_settings } = owner;
    // The name takes precedence, because the index changes with other owners.
    let by_name = roles.get(&format!("{kind:?}.{name}").to_lowercase());
    let cluster_roles = by_name.or_else(|| roles.get(&index.to_string())).map(|roles| entries(roles));
    let new = new::OwnerSpec { kind, name, proxy_settings, ..new::OwnerSpec::default() };
    new::OwnerSpec { cluster_roles: cluster_roles.unwrap_or_else(new::default_cluster_roles), ..new }
}

/// Returns the roles of owners from annotations, by name or index.
fn roles(annotations: &Annotations) -> HashMap<String, String> {
    let mut roles = HashMap::new();
    for (key, value) in &annotations.0 {
        if let Some(owner) = key.strip_prefix(CLUSTER_ROLES) {
            roles.entry(owner.replace(AT, "@")).or_insert_with(|| value.clone());
        }
    }
    roles
}

/// Sets the annotation with the roles of an owner, if they are not the default ones and the name is
/// valid in a key. Indexes are never written: after an edit of the list, another owner would get
/// the roles.
fn set_roles(annotations: &mut Annotations, owner: &new::OwnerSpec) {
    let name = format!("{:?}.{}", owner.kind, owner.name).to_lowercase().replace('@', AT);
    if owner.cluster_roles != new::default_cluster_roles() && is_key(&name) {
        annotations.set(&format!("{CLUSTER_ROLES}{name}"), owner.cluster_roles.join(","));
    }
}

fn is_key(name: &str) -> bool {
    name.len() <= MAX_KEY_LENGTH
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn owner_down(owner: new::OwnerSpec) -> old::OwnerSpec {
    old::OwnerSpec { kind: owner.kind, name: owner.name, proxy_settings: owner.proxy_settings }
}

fn namespaces_up(
    options: Option<old::NamespaceOptions>,
    annotations: &mut Annotations,
) -> Option<new::NamespaceOptions> {
    let forbidden_labels = forbidden(annotations, FORBIDDEN_LABELS, FORBIDDEN_LABELS_REGEXP);
    let forbidden_annotations = forbidden(annotations, FORBIDDEN_ANNOTATIONS, FORBIDDEN_ANNOTATIONS_REGEXP);
    if options.is_none() && forbidden_labels.is_none() && forbidden_annotations.is_none() {
        return None;
    }
    let old::NamespaceOptions { quota, additional_metadata } = options.unwrap_or_default();
    Some(new::NamespaceOptions {
        quota,
        additional_metadata,
        forbidden_labels,
        forbidden_annotations,
        ..new::NamespaceOptions::default()
    })
}

fn forbidden(annotations: &mut Annotations, names: &str, pattern: &str) -> Option<ForbiddenList> {
    let (denied, denied_regex) = (annotations.list(names), annotations.text(pattern));
    (denied.is_some() || denied_regex.is_some())
        .then(|| ForbiddenList { denied: denied.unwrap_or_default(), denied_regex })
}

fn namespaces_down(options: new::NamespaceOptions, annotations: &mut Annotations) -> old::NamespaceOptions {
    let mut set = |list: Option<ForbiddenList>, names: &str, pattern: &str| {
        let Some(list) = list else { return };
        annotations.set_list(names, &list.denied);
        if let Some(denied) = list.denied_regex.filter(|denied| !denied.is_empty()) {
            annotations.set(pattern, denied);
        }
    };
    set(options.forbidden_labels, FORBIDDEN_LABELS, FORBIDDEN_LABELS_REGEXP);
    set(options.forbidden_annotations, FORBIDDEN_ANNOTATIONS, FORBIDDEN_ANNOTATIONS_REGEXP);
    old::NamespaceOptions { quota: options.quota, additional_metadata: options.additional_metadata }
}

fn ingress_up(options: Option<old::IngressOptions>, denied: Option<&str>) -> Option<new::IngressOptions> {
    // As in Capsule, wildcards are allowed unless the annotation denies them.
    let allow_wildcard_hostnames = !denied.and_then(super::annotations::flag).unwrap_or_default();
    if options.is_none() && !allow_wildcard_hostnames {
        return None;
    }
    let old::IngressOptions { allowed_classes, hostname_collision_scope, allowed_hostnames } =
        options.unwrap_or_default();
    Some(new::IngressOptions {
        allowed_classes: allowed_classes.map(classes_up),
        hostname_collision_scope,
        allowed_hostnames,
        allow_wildcard_hostnames,
    })
}

fn ingress_down(options: new::IngressOptions) -> old::IngressOptions {
    old::IngressOptions {
        allowed_classes: options.allowed_classes.map(classes_down),
        hostname_collision_scope: options.hostname_collision_scope,
        allowed_hostnames: options.allowed_hostnames,
    }
}

fn classes_up(list: AllowedList) -> DefaultAllowedList {
    let AllowedList { allowed, allowed_regex } = list;
    DefaultAllowedList { allowed, allowed_regex, ..DefaultAllowedList::default() }
}

fn classes_down(list: DefaultAllowedList) -> AllowedList {
    AllowedList { allowed: list.allowed, allowed_regex: list.allowed_regex }
}

fn status_up(status: old::TenantStatus) -> new::TenantStatus {
    let state = match status.state {
        old::TenantState::Active => TenantState::Active,
        old::TenantState::Cordoned => TenantState::Cordoned,
    };
    new::TenantStatus {
        state,
        size: status.size,
        namespaces: status.namespaces,
        ..new::TenantStatus::default()
    }
}

fn status_down(status: new::TenantStatus) -> old::TenantStatus {
    let state = match status.state {
        TenantState::Active | TenantState::Terminating => old::TenantState::Active,
        TenantState::Cordoned => old::TenantState::Cordoned,
    };
    old::TenantStatus { state, size: status.size, namespaces: status.namespaces }
}

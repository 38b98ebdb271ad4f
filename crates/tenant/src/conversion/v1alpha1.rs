//! Conversion between `v1alpha1` and `v1beta2`, by way of `v1beta1`.

use std::collections::HashSet;

use capsule::api::{
    v1alpha1::{self as old, Classes, Owner},
    v1beta1 as middle,
    v1beta2::{
        self as new, AdditionalMetadata, AllowedList, AllowedServices, HostnameCollisionScope, LimitRanges,
        NetworkPolicies, ProxyOperation, ProxySettings, PullPolicy, QuotaScope, ResourceQuotas,
        ServiceOptions,
    },
};
use kube::{Resource, ResourceExt};

use super::{
    ConversionError,
    annotations::{
        Annotations, COLLISION_SCOPE, CORDON, CORDON_ENABLED, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORTS,
        OWNERS, PRIORITY_CLASSES, PRIORITY_CLASSES_REGEX, PROXY, PULL_POLICIES, QUOTA_SCOPE, V1ALPHA1,
        is_entry,
    },
    v1beta1,
};

/// Converts a Tenant from `v1alpha1` to `v1beta2`.
pub(super) fn up(tenant: old::Tenant) -> Result<new::Tenant, ConversionError> {
    Ok(v1beta1::up(to_v1beta1(tenant)?))
}

/// Converts a Tenant from `v1beta2` to `v1alpha1`.
pub(super) fn down(mut tenant: new::Tenant) -> old::Tenant {
    sort_owners(&mut tenant.spec.owners);
    from_v1beta1(v1beta1::down(tenant))
}

/// Sorts the owners as the annotations list them. Removes owners that a comma-separated list cannot
/// contain.
fn sort_owners(owners: &mut Vec<new::OwnerSpec>) {
    let mut first = true;
    owners.retain(|owner| std::mem::take(&mut first) || is_entry(&owner.name));
    let position = |kind| OWNERS.iter().position(|(_, listed)| *listed == kind);
    if let Some((_, rest)) = owners.split_first_mut() {
        rest.sort_by_key(|owner| position(owner.kind));
    }
}

fn to_v1beta1(mut tenant: old::Tenant) -> Result<middle::Tenant, ConversionError> {
    let mut annotations = Annotations::take(&mut tenant);
    let spec = tenant.spec;
    let middle_spec = middle::TenantSpec {
        owners: owners_up(spec.owner, &mut annotations),
        namespace_options: namespaces_up(spec.namespace_quota, spec.namespaces_metadata),
        service_options: services_up(spec.services_metadata, spec.external_service_ips, &mut annotations)?,
        storage_classes: spec.storage_classes.map(AllowedList::from),
        ingress_options: ingress_up(spec.ingress_classes, spec.ingress_hostnames, &mut annotations),
        container_registries: spec.container_registries,
        node_selector: spec.node_selector,
        network_policies: non_empty(spec.network_policies).map(|items| NetworkPolicies { items }),
        limit_ranges: non_empty(spec.limit_ranges).map(|items| LimitRanges { items }),
        resource_quotas: quotas_up(spec.resource_quotas, &mut annotations),
        additional_role_bindings: spec.additional_role_bindings.into_iter().map(binding_up).collect(),
        image_pull_policies: pull_policies(&mut annotations)?,
        priority_classes: priority_classes(&mut annotations),
    };
    let status = tenant.status.map(|old::TenantStatus { size, namespaces }| middle::TenantStatus {
        size,
        namespaces,
        ..middle::TenantStatus::default()
    });
    let mut converted = middle::Tenant { metadata: tenant.metadata, spec: middle_spec, status };
    annotations.put(&mut converted);
    Ok(converted)
}

fn from_v1beta1(mut tenant: middle::Tenant) -> old::Tenant {
    let mut annotations = Annotations::take(&mut tenant);
    annotations.remove_all(V1ALPHA1);
    annotations.remove_all(OWNERS.map(|(key, _)| key));
    annotations.remove_all(PROXY.map(|(key, ..)| key));
    if annotations.text(CORDON).is_some() {
        tenant.labels_mut().insert(CORDON.to_owned(), CORDON_ENABLED.to_owned());
    }
    let spec = tenant.spec;
    annotations.set_list(
        PULL_POLICIES,
        &spec.image_pull_policies.iter().map(|policy| format!("{policy:?}")).collect::<Vec<_>>(),
    );
    if let Some(list) = spec.priority_classes {
        annotations.set_list(PRIORITY_CLASSES, &list.allowed);
        if let Some(pattern) = list.allowed_regex {
            annotations.set(PRIORITY_CLASSES_REGEX, pattern);
        }
    }
    let namespaces = spec.namespace_options.unwrap_or_default();
    let services = spec.service_options.unwrap_or_default();
    if let Some(allowed) = services.allowed_services {
        set_services(&mut annotations, &allowed);
    }
    let ingress = spec.ingress_options.unwrap_or_default();
    if ingress.hostname_collision_scope != HostnameCollisionScope::Disabled {
        annotations.set(COLLISION_SCOPE, format!("{:?}", ingress.hostname_collision_scope));
    }
    let quotas = spec.resource_quotas.unwrap_or_default();
    if !quotas.items.is_empty() && quotas.scope != QuotaScope::Tenant {
        annotations.set(QUOTA_SCOPE, format!("{:?}", quotas.scope));
    }
    let old_spec = old::TenantSpec {
        owner: owners_down(spec.owners, &mut annotations),
        namespace_quota: namespaces.quota,
        namespaces_metadata: namespaces.additional_metadata.map(metadata_down),
        services_metadata: services.additional_metadata.map(metadata_down),
        storage_classes: spec.storage_classes.map(Classes::List),
        ingress_classes: ingress.allowed_classes.map(Classes::List),
        ingress_hostnames: ingress.allowed_hostnames,
        container_registries: spec.container_registries,
        node_selector: spec.node_selector,
        network_policies: spec.network_policies.unwrap_or_default().items,
        limit_ranges: spec.limit_ranges.unwrap_or_default().items,
        resource_quotas: quotas.items,
        additional_role_bindings: spec.additional_role_bindings.into_iter().map(binding_down).collect(),
        external_service_ips: services.external_ips,
    };
    let status = tenant
        .status
        .map(|middle::TenantStatus { size, namespaces, .. }| old::TenantStatus { size, namespaces });
    let mut converted = old::Tenant { metadata: tenant.metadata, spec: old_spec, status };
    annotations.put(&mut converted);
    converted.meta_mut().labels.take_if(|labels| labels.is_empty());
    converted
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn owners_up(owner: Owner, annotations: &mut Annotations) -> Vec<middle::OwnerSpec> {
    let old::OwnerSpec { kind, name } = owner.into();
    let first = (!name.is_empty()).then_some((kind, name));
    let mut more = Vec::new();
    for (key, kind) in OWNERS {
        more.extend(annotations.list(key).unwrap_or_default().into_iter().map(|name| (kind, name)));
    }
    let allowed = PROXY.map(|(key, kind, operation)| {
        let names = annotations.list(key).unwrap_or_default().into_iter().collect::<HashSet<_>>();
        (names, kind, operation)
    });
    let owners = first.into_iter().chain(more);
    owners
        .map(|(kind, name)| {
            let own = allowed.iter().filter(|(names, ..)| names.contains(&name));
            let proxy_settings = proxy(own.map(|(_, kind, operation)| (*kind, *operation)));
            middle::OwnerSpec { kind, name, proxy_settings }
        })
        .collect()
}

/// Returns one entry for each kind.
fn proxy(allowed: impl Iterator<Item = (new::ProxyKind, ProxyOperation)>) -> Vec<ProxySettings> {
    let mut settings: Vec<ProxySettings> = Vec::new();
    for (kind, operation) in allowed {
        match settings.iter_mut().find(|one| one.kind == kind) {
            Some(one) => one.operations.push(operation),
            None => settings.push(ProxySettings { kind, operations: vec![operation] }),
        }
    }
    settings
}

fn owners_down(owners: Vec<middle::OwnerSpec>, annotations: &mut Annotations) -> Owner {
    for (key, kind, operation) in PROXY {
        let may = |owner: &&middle::OwnerSpec| {
            let mut settings = owner.proxy_settings.iter();
            settings.any(|one| one.kind == kind && one.operations.contains(&operation))
                && is_entry(&owner.name)
        };
        let mut names: Vec<_> = owners.iter().filter(may).map(|owner| owner.name.clone()).collect();
        names.dedup();
        annotations.set_list(key, &names);
    }
    let mut owners = owners.into_iter();
    let first = owners.next().map(|owner| old::OwnerSpec { kind: owner.kind, name: owner.name });
    let rest: Vec<_> = owners.collect();
    for (key, kind) in OWNERS {
        let named = rest.iter().filter(|owner| owner.kind == kind).map(|owner| owner.name.clone());
        annotations.set_list(key, &named.collect::<Vec<_>>());
    }
    Owner::Full(first.unwrap_or_default())
}

fn namespaces_up(
    quota: Option<i32>,
    metadata: Option<old::AdditionalMetadata>,
) -> Option<middle::NamespaceOptions> {
    (quota.is_some() || metadata.is_some())
        .then(|| middle::NamespaceOptions { quota, additional_metadata: metadata.map(metadata_up) })
}

fn metadata_up(metadata: old::AdditionalMetadata) -> AdditionalMetadata {
    AdditionalMetadata { labels: metadata.additional_labels, annotations: metadata.additional_annotations }
}

fn metadata_down(metadata: AdditionalMetadata) -> old::AdditionalMetadata {
    old::AdditionalMetadata {
        additional_labels: metadata.labels,
        additional_annotations: metadata.annotations,
    }
}

fn binding_up(binding: old::AdditionalRoleBinding) -> new::AdditionalRoleBinding {
    let old::AdditionalRoleBinding { cluster_role_name, subjects } = binding;
    new::AdditionalRoleBinding { cluster_role_name, subjects, ..new::AdditionalRoleBinding::default() }
}

fn binding_down(binding: new::AdditionalRoleBinding) -> old::AdditionalRoleBinding {
    old::AdditionalRoleBinding { cluster_role_name: binding.cluster_role_name, subjects: binding.subjects }
}

fn services_up(
    metadata: Option<old::AdditionalMetadata>,
    external_ips: Option<new::ExternalIps>,
    annotations: &mut Annotations,
) -> Result<Option<ServiceOptions>, ConversionError> {
    let mut flag = |key| annotations.flag(key).transpose();
    let (node_port, external_name, load_balancer) =
        (flag(NODE_PORTS)?, flag(EXTERNAL_NAME)?, flag(LOAD_BALANCER)?);
    let is_set = [node_port, external_name, load_balancer].iter().any(Option::is_some);
    let allowed_services = is_set.then(|| AllowedServices {
        node_port: node_port.unwrap_or(true),
        external_name: external_name.unwrap_or(true),
        load_balancer: load_balancer.unwrap_or(true),
    });
    if metadata.is_none() && external_ips.is_none() && allowed_services.is_none() {
        return Ok(None);
    }
    Ok(Some(ServiceOptions {
        additional_metadata: metadata.map(metadata_up),
        allowed_services,
        external_ips,
        ..ServiceOptions::default()
    }))
}

/// Sets the annotations of disallowed Service types.
fn set_services(annotations: &mut Annotations, allowed: &AllowedServices) {
    let all = [
        (NODE_PORTS, allowed.node_port),
        (EXTERNAL_NAME, allowed.external_name),
        (LOAD_BALANCER, allowed.load_balancer),
    ];
    for (key, _) in all.into_iter().filter(|(_, allowed)| !allowed) {
        annotations.set(key, false.to_string());
    }
}

fn ingress_up(
    classes: Option<Classes>,
    hostnames: Option<AllowedList>,
    annotations: &mut Annotations,
) -> Option<middle::IngressOptions> {
    let scope = annotations.text(COLLISION_SCOPE).map(|scope| match scope.as_str() {
        "Cluster" => HostnameCollisionScope::Cluster,
        "Tenant" => HostnameCollisionScope::Tenant,
        "Namespace" => HostnameCollisionScope::Namespace,
        _ => HostnameCollisionScope::Disabled,
    });
    let hostname_collision_scope = scope.unwrap_or_default();
    if classes.is_none()
        && hostnames.is_none()
        && hostname_collision_scope == HostnameCollisionScope::Disabled
    {
        return None;
    }
    Some(middle::IngressOptions {
        allowed_classes: classes.map(AllowedList::from),
        hostname_collision_scope,
        allowed_hostnames: hostnames,
    })
}

fn quotas_up(
    items: Vec<k8s_openapi::api::core::v1::ResourceQuotaSpec>,
    annotations: &mut Annotations,
) -> Option<ResourceQuotas> {
    let scope = match annotations.text(QUOTA_SCOPE).as_deref() {
        Some("Namespace") => QuotaScope::Namespace,
        _ => QuotaScope::Tenant,
    };
    non_empty(items).map(|items| ResourceQuotas { scope, items })
}

fn pull_policies(annotations: &mut Annotations) -> Result<Vec<PullPolicy>, ConversionError> {
    let policies = annotations.list(PULL_POLICIES).unwrap_or_default().into_iter();
    policies
        .map(|policy| match policy.as_str() {
            "Always" => Ok(PullPolicy::Always),
            "Never" => Ok(PullPolicy::Never),
            "IfNotPresent" => Ok(PullPolicy::IfNotPresent),
            _ => Err(ConversionError::Annotation {
                key: PULL_POLICIES.to_owned(),
                value: policy,
                expected: "Always, Never or IfNotPresent",
            }),
        })
        .collect()
}

fn priority_classes(annotations: &mut Annotations) -> Option<AllowedList> {
    let (allowed, allowed_regex) =
        (annotations.list(PRIORITY_CLASSES), annotations.text(PRIORITY_CLASSES_REGEX));
    (allowed.is_some() || allowed_regex.is_some())
        .then(|| AllowedList { allowed: allowed.unwrap_or_default(), allowed_regex })
}

//! Targets: the Tenants and namespaces that objects are created for. Pure.

use std::sync::Arc;

use capsule::{
    Tenant,
    api::v1beta2::{NO_TENANT, ReplicationScope},
    membership::{check_membership, tenant_label},
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use operator_core::kind::is_deleting;

use crate::{fast_template::Tags, gather::GatherError};

/// A Tenant and one of its namespaces, as far as the scope has them.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) tenant: Option<Arc<Tenant>>,
    pub(crate) namespace: Option<Arc<Namespace>>,
}

impl Target {
    /// Returns the name of the Tenant for the status.
    pub(crate) fn tenant_name(&self) -> &str {
        self.tenant.as_ref().and_then(|tenant| tenant.metadata.name.as_deref()).unwrap_or(NO_TENANT)
    }

    pub(crate) fn namespace_name(&self) -> Option<&str> {
        self.namespace.as_ref().and_then(|namespace| namespace.metadata.name.as_deref())
    }

    /// Returns the values of the tags for the target.
    pub(crate) fn tags(&self) -> Tags<'_> {
        let tenant = self.tenant.as_ref().and_then(|tenant| tenant.metadata.name.as_deref());
        Tags { tenant, namespace: self.namespace_name() }
    }
}

/// A Tenant with its namespaces that are not being deleted, sorted by name.
#[derive(Clone, Debug)]
pub(crate) struct TenantNamespaces {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) namespaces: Vec<Arc<Namespace>>,
}

impl TenantNamespaces {
    /// Selects the members of a Tenant among namespaces with its label. Both the label and the owner
    /// reference decide, so a user who can set only one of them gains nothing (CVE-2025-55205).
    pub(crate) fn new(tenant: Arc<Tenant>, candidates: Vec<Arc<Namespace>>, manager_namespace: &str) -> Self {
        let is_member = |namespace: &Arc<Namespace>| {
            !is_deleting(namespace.as_ref())
                && check_membership(&namespace.metadata, &tenant, manager_namespace).is_ok()
        };
        let mut namespaces: Vec<_> = candidates.into_iter().filter(is_member).collect();
        namespaces.sort_by_key(|namespace| namespace.name_any());
        Self { tenant, namespaces }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.namespaces.iter().map(|namespace| namespace.name_any())
    }
}

/// Returns the Tenants that a selector selects, sorted by name. Tenants that are being deleted are
/// not selected.
///
/// # Errors
/// Returns an error if the selector is invalid.
pub(crate) fn select_tenants(
    tenants: Vec<Arc<Tenant>>,
    selector: Option<&LabelSelector>,
) -> Result<Vec<Arc<Tenant>>, GatherError> {
    let selector = parse("spec.tenantSelector", selector)?;
    let is_selected =
        |tenant: &Arc<Tenant>| !is_deleting(tenant.as_ref()) && selector.matches(tenant.labels());
    let mut selected: Vec<_> = tenants.into_iter().filter(is_selected).collect();
    selected.sort_by_key(|tenant| tenant.name_any());
    Ok(selected)
}

/// Returns all targets of a scope.
pub(crate) fn targets(tenants: &[TenantNamespaces], scope: ReplicationScope) -> Vec<Target> {
    let tenant = |one: &TenantNamespaces| Some(one.tenant.clone());
    match scope {
        ReplicationScope::None => vec![Target { tenant: None, namespace: None }],
        ReplicationScope::Tenant => {
            tenants.iter().map(|one| Target { tenant: tenant(one), namespace: None }).collect()
        }
        ReplicationScope::Namespace => tenants
            .iter()
            .flat_map(|one| {
                let namespaces = one.namespaces.iter();
                namespaces.map(|namespace| Target { tenant: tenant(one), namespace: Some(namespace.clone()) })
            })
            .collect(),
    }
}

/// Returns the targets that a selector of namespaces selects. Targets without a namespace are always
/// selected.
///
/// # Errors
/// Returns an error if the selector is invalid.
pub(crate) fn select<'t>(
    targets: &'t [Target],
    index: usize,
    selector: Option<&LabelSelector>,
) -> Result<Vec<&'t Target>, GatherError> {
    let selector = parse(&format!("spec.resources[{index}].namespaceSelector"), selector)?;
    let is_selected = |target: &&Target| {
        target.namespace.as_ref().is_none_or(|namespace| selector.matches(namespace.labels()))
    };
    Ok(targets.iter().filter(is_selected).collect())
}

fn parse(path: &str, selector: Option<&LabelSelector>) -> Result<Selector, GatherError> {
    Selector::try_from(selector.cloned().unwrap_or_default()).map_err(|error| GatherError::Invalid {
        path: path.to_owned(),
        message: format!("the selector is invalid: {error}"),
    })
}

/// Returns the names of the Tenants that a namespace has as its label before and after a change.
pub(crate) fn labelled_tenants<'n>(states: impl Iterator<Item = &'n Arc<Namespace>>) -> Vec<String> {
    let mut names: Vec<_> =
        states.filter_map(|namespace| tenant_label(&namespace.metadata).map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn tenant(name: &str, labels: Value) -> Arc<Tenant> {
        let uid = format!("uid-{name}");
        let tenant = json!({ "metadata": { "name": name, "uid": uid, "labels": labels }, "spec": {} });
        Arc::new(serde_json::from_value(tenant).unwrap())
    }

    /// Returns a namespace with the label of one Tenant and the owner reference of another.
    pub(crate) fn namespace(name: &str, label: &str, owner: &str) -> Arc<Namespace> {
        let reference = json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": owner, "uid": format!("uid-{owner}"),
        });
        let labels = json!({ "capsule.clastix.io/tenant": label, "env": name });
        let metadata = json!({ "name": name, "labels": labels, "ownerReferences": [reference] });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    fn members(tenant: &Arc<Tenant>, candidates: Vec<Arc<Namespace>>) -> TenantNamespaces {
        TenantNamespaces::new(tenant.clone(), candidates, "ensemble-system")
    }

    #[test]
    fn cve_2025_55205_a_label_alone_makes_no_target() {
        let oil = tenant("oil", json!({}));
        let mut terminating = namespace("oil-old", "oil", "oil").as_ref().clone();
        terminating.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        let candidates = vec![
            namespace("oil-prod", "oil", "oil"),
            namespace("kube-system", "oil", "oil"),
            namespace("gas-dev", "oil", "gas"),
            namespace("oil-dev", "oil", "oil"),
            Arc::new(terminating),
        ];
        assert_eq!(members(&oil, candidates).names().collect::<Vec<_>>(), ["oil-dev", "oil-prod"]);
    }

    #[test]
    fn scopes_have_a_target_for_each_namespace_each_tenant_or_one() {
        let oil = tenant("oil", json!({}));
        let all = [
            members(&oil, vec![namespace("oil-a", "oil", "oil"), namespace("oil-b", "oil", "oil")]),
            members(&tenant("gas", json!({})), vec![]),
        ];
        let names = |scope| {
            let targets = targets(&all, scope);
            let name = |target: &Target| {
                format!("{}/{}", target.tenant_name(), target.namespace_name().unwrap_or("-"))
            };
            targets.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(ReplicationScope::Namespace), ["oil/oil-a", "oil/oil-b"]);
        assert_eq!(names(ReplicationScope::Tenant), ["oil/-", "gas/-"]);
        assert_eq!(names(ReplicationScope::None), ["None/-"]);
        let selector = serde_json::from_value(json!({ "matchLabels": { "env": "oil-b" } })).unwrap();
        let targets = targets(&all, ReplicationScope::Namespace);
        assert_eq!(select(&targets, 0, Some(&selector)).unwrap().len(), 1);
        let invalid = json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] });
        let invalid = serde_json::from_value(invalid).unwrap();
        let error = select(&targets, 3, Some(&invalid)).unwrap_err().to_string();
        assert!(error.contains("spec.resources[3].namespaceSelector"), "{error}");
    }

    #[test]
    fn selects_tenants_by_labels() {
        let all = || vec![tenant("oil", json!({ "tier": "gold" })), tenant("gas", json!({}))];
        let names = |selector: Option<Value>| {
            let selector = selector.map(|selector| serde_json::from_value(selector).unwrap());
            let tenants = select_tenants(all(), selector.as_ref()).unwrap();
            tenants.iter().map(|tenant| tenant.name_any()).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["gas", "oil"]);
        assert_eq!(names(Some(json!({}))), ["gas", "oil"]);
        assert_eq!(names(Some(json!({ "matchLabels": { "tier": "gold" } }))), ["oil"]);
    }
}

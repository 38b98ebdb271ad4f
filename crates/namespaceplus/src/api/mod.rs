//! The NamespacePlus API, `mygroup.my.domain/v1`.
#![allow(unreachable_pub, reason = "KubeSchema writes a hidden copy of each struct, which nothing can reach")]

mod amount;
mod contents;
mod hook;
mod status;

use std::collections::BTreeMap;

pub use amount::Amount;
pub use contents::{
    Amounts, Limit, Limits, NamedDisruptionBudget, NamedNetworkPolicy, NamedRoleBinding, Subject, SubjectKind,
};
pub use hook::{Hook, HookEvent, HookMethod, SecretRef};
use kube::{CustomResource, KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use status::{HookState, HookStatus, NamespacePlusStatus};

/// spec is the desired state of a namespace with the name of the NamespacePlus.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[kube(
    group = "mygroup.my.domain",
    version = "v1",
    kind = "NamespacePlus",
    plural = "namespacepluses",
    shortname = "nsp",
    category = "ensemble",
    namespaced,
    status = "NamespacePlusStatus",
    derive = "PartialEq",
    doc = "NamespacePlus manages a namespace of the same name with its quota, limits, policies, and role bindings.",
    printcolumn(name = "Namespace", type_ = "string", json_path = ".status.namespace", description = "The namespace that it owns"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status", description = "Whether the namespace and all objects in it are ready"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", description = "Time since its creation"),
    validation = Rule::new("self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')")
        .message("the name is also the name of a namespace: at most 63 characters of a-z, 0-9 and '-', no '.'"),
    validation = Rule::new("self.metadata.name != 'default' && !self.metadata.name.startsWith('kube-')")
        .message("the namespaces default and kube-* belong to the cluster; choose another name")
)]
#[serde(rename_all = "camelCase")]
pub struct NamespacePlusSpec {
    /// foo is free text. The controller ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foo: Option<String>,
    /// labels are the labels of the namespace. Labels that others set stay. Keys of Kubernetes are
    /// rejected, except for pod-security.kubernetes.io/.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[x_kube(validation = keys_rule())]
    #[x_kube(validation = reserved_keys_rule())]
    #[x_kube(validation = Rule::new("self.all(k, self[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))")
        .message("a label's value is made of A-Z, a-z, 0-9, '-', '_' and '.', and begins and ends with a letter or digit"))]
    pub labels: BTreeMap<String, String>,
    /// annotations are the annotations of the namespace. Annotations that others set stay. Keys of
    /// Kubernetes are rejected, except for pod-security.kubernetes.io/.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = keys_rule())]
    #[x_kube(validation = reserved_keys_rule())]
    pub annotations: BTreeMap<String, String>,
    /// quota contains the hard limits of the ResourceQuota default-quota, by resource. The default
    /// forbids all Pods. `{}` creates no ResourceQuota.
    #[serde(default = "default_quota")]
    #[schemars(extend("maxProperties" = 32))]
    pub quota: Amounts,
    /// limitRange is the LimitRange default-limits, which constrains each Pod, container, or
    /// PersistentVolumeClaim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_range: Option<Limits>,
    /// networkPolicies are the NetworkPolicies of the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub network_policies: Vec<NamedNetworkPolicy>,
    /// roleBindings are the RoleBindings of the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub role_bindings: Vec<NamedRoleBinding>,
    /// podDisruptionBudgets are the PodDisruptionBudgets of the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub pod_disruption_budgets: Vec<NamedDisruptionBudget>,
    /// hooks are HTTP calls to other systems when the namespace is created, ready, or deleted. A
    /// failed call is retried a limited number of times. The condition HooksDelivered and
    /// status.hooks report the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub hooks: Vec<Hook>,
    /// deletionPolicy determines what happens to the namespace when the NamespacePlus is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// What happens to the namespace when the NamespacePlus is deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// The namespace and its contents stay, without an owner.
    #[default]
    Retain,
    /// The namespace and its contents are deleted.
    Delete,
}

fn keys_rule() -> Rule {
    Rule::new(
        "self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
    )
    .message(
        "a key is a name of at most 63 characters of A-Z, a-z, 0-9, '-', '_' and '.', after a domain and '/' if it \
         has one: example.com/team",
    )
}

/// Rejects the key prefixes of Kubernetes and of other namespace controllers.
///
/// With such a key, a team could take over the namespace or exceed its permissions.
fn reserved_keys_rule() -> Rule {
    Rule::new(
        "self.all(k, k.startsWith('pod-security.kubernetes.io/') || \
         !k.matches('^([^/]*[.])?(kubernetes[.]io|k8s[.]io|clastix[.]io|projectcapsule[.]dev|mygroup[.]my[.]domain)/'))",
    )
    .message(
        "keys of kubernetes.io, k8s.io, clastix.io, projectcapsule.dev and mygroup.my.domain cannot be set here, \
         pod-security.kubernetes.io/ excepted",
    )
}

/// Returns a quota that forbids all Pods, so that workloads need an explicit quota.
pub fn default_quota() -> Amounts {
    [("cpu", "0"), ("memory", "0Gi"), ("pods", "0")]
        .into_iter()
        .map(|(resource, amount)| (resource.to_owned(), Amount::new(amount)))
        .collect()
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::Value;

    use super::*;

    /// Returns the paths of all fields below a schema that have no description.
    fn undescribed(path: &str, schema: &Value) -> Vec<String> {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let mut found: Vec<_> = fields
            .flat_map(|(name, field)| {
                let path = format!("{path}.{name}");
                let own = field["description"].is_null().then(|| path.clone());
                own.into_iter().chain(undescribed(&path, field)).collect::<Vec<_>>()
            })
            .collect();
        for beneath in ["items", "additionalProperties"].iter().filter_map(|key| schema.get(key)) {
            found.extend(undescribed(path, beneath));
        }
        found
    }

    #[test]
    fn every_field_has_a_description() {
        let crd = serde_json::to_value(NamespacePlus::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(undescribed("spec", &schema["spec"]), Vec::<String>::new());
        assert_eq!(undescribed("status", &schema["status"]), Vec::<String>::new());
    }

    #[test]
    fn has_short_name_and_category() {
        let crd = NamespacePlus::crd();
        assert_eq!(crd.metadata.name.as_deref(), Some("namespacepluses.mygroup.my.domain"));
        let names = crd.spec.names;
        assert_eq!(
            (names.short_names, names.categories),
            (Some(vec!["nsp".into()]), Some(vec!["ensemble".into()]))
        );
    }
}

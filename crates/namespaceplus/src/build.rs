//! Builds the desired objects in the namespace. Pure functions.

use k8s_openapi::api::{
    core::v1::{LimitRange, LimitRangeItem, LimitRangeSpec, ResourceQuota, ResourceQuotaSpec},
    networking::v1::{NetworkPolicy, NetworkPolicySpec},
    policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    rbac::v1::{ClusterRole, Role, RoleBinding, RoleRef, Subject as ApiSubject},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use operator_core::{labels::recommended, quantity::ParseQuantityError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    api::{Amounts, Limit, NamedRoleBinding, NamespacePlus, Subject, SubjectKind},
    defaulting::{self, ApiAmounts},
};

/// Name of the ResourceQuota.
pub const QUOTA_NAME: &str = "default-quota";
/// Name of the LimitRange.
pub const LIMITS_NAME: &str = "default-limits";

/// Desired objects of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredObjects<K> {
    /// Valid objects.
    pub(crate) objects: Vec<K>,
    /// Invalid objects. Existing objects of these names are left unchanged.
    pub(crate) invalid: Vec<Invalid>,
}

/// An object that the spec defines incorrectly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name} is invalid: {message}; correct it in the spec")]
pub struct Invalid {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Cause.
    pub message: String,
}

impl<K: Resource<DynamicType = ()>> DesiredObjects<K> {
    fn collect<'a, T: 'a, E: ToString>(
        items: impl IntoIterator<Item = &'a T>,
        name: impl Fn(&T) -> &str,
        build: impl Fn(&T) -> Result<K, E>,
    ) -> Self {
        let mut declared = Self { objects: Vec::new(), invalid: Vec::new() };
        for item in items {
            match build(item) {
                Ok(object) => declared.objects.push(object),
                Err(error) => declared.invalid.push(Invalid {
                    kind: K::kind(&()).into_owned(),
                    name: name(item).to_owned(),
                    message: error.to_string(),
                }),
            }
        }
        declared
    }

    /// Returns whether the spec defines an object with this name, valid or not.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.objects.iter().any(|object| object.meta().name.as_deref() == Some(name))
            || self.invalid.iter().any(|invalid| invalid.name == name)
    }
}

/// Builds the ResourceQuota, unless the quota is empty.
pub(crate) fn quotas(object: &NamespacePlus) -> DesiredObjects<ResourceQuota> {
    let quota = Some(&object.spec.quota).filter(|quota| !quota.is_empty());
    DesiredObjects::collect(
        quota,
        |_| QUOTA_NAME,
        |quota| {
            let spec = ResourceQuotaSpec { hard: Some(amounts(quota)?), ..ResourceQuotaSpec::default() };
            let metadata = metadata(object, QUOTA_NAME, "quota");
            Ok::<_, ParseQuantityError>(ResourceQuota { metadata, spec: Some(spec), status: None })
        },
    )
}

/// Builds the LimitRange.
pub(crate) fn limits(object: &NamespacePlus) -> DesiredObjects<LimitRange> {
    DesiredObjects::collect(
        &object.spec.limit_range,
        |_| LIMITS_NAME,
        |range| {
            let limits = range.limits.iter().map(limit).collect::<Result<_, _>>()?;
            let metadata = metadata(object, LIMITS_NAME, "limits");
            Ok::<_, ParseQuantityError>(LimitRange { metadata, spec: Some(LimitRangeSpec { limits }) })
        },
    )
}

/// Builds the NetworkPolicies.
pub(crate) fn policies(object: &NamespacePlus) -> DesiredObjects<NetworkPolicy> {
    DesiredObjects::collect(
        &object.spec.network_policies,
        |item| &item.name,
        |item| {
            let spec = defaulting::policy(read::<NetworkPolicySpec>(&item.spec)?);
            let metadata = metadata(object, &item.name, "network");
            Ok::<_, serde_json::Error>(NetworkPolicy { metadata, spec: Some(spec) })
        },
    )
}

/// Builds the PodDisruptionBudgets.
pub(crate) fn budgets(object: &NamespacePlus) -> DesiredObjects<PodDisruptionBudget> {
    DesiredObjects::collect(
        &object.spec.pod_disruption_budgets,
        |item| &item.name,
        |item| {
            let spec = read::<PodDisruptionBudgetSpec>(&item.spec)?;
            let metadata = metadata(object, &item.name, "disruption");
            Ok::<_, serde_json::Error>(PodDisruptionBudget { metadata, spec: Some(spec), status: None })
        },
    )
}

/// Builds the RoleBindings.
pub(crate) fn bindings(object: &NamespacePlus) -> DesiredObjects<RoleBinding> {
    DesiredObjects::collect(
        &object.spec.role_bindings,
        |item| &item.name,
        |item| {
            Ok::<_, &str>(RoleBinding {
                metadata: metadata(object, &item.name, "access"),
                role_ref: role(item)?,
                subjects: Some(item.subjects.iter().map(subject).collect()),
            })
        },
    )
}

fn metadata(object: &NamespacePlus, name: &str, component: &str) -> ObjectMeta {
    let instance = object.name_any();
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(recommended("namespaceplus", &instance, component)),
        namespace: Some(instance),
        ..ObjectMeta::default()
    }
}

fn amounts(amounts: &Amounts) -> Result<ApiAmounts, ParseQuantityError> {
    amounts.iter().map(|(resource, amount)| Ok((resource.clone(), amount.quantity()?.into()))).collect()
}

fn limit(limit: &Limit) -> Result<LimitRangeItem, ParseQuantityError> {
    Ok(defaulting::limit(LimitRangeItem {
        type_: limit.kind.clone(),
        max: Some(amounts(&limit.max)?),
        min: Some(amounts(&limit.min)?),
        default: Some(amounts(&limit.default)?),
        default_request: Some(amounts(&limit.default_request)?),
        max_limit_request_ratio: Some(amounts(&limit.max_limit_request_ratio)?),
    }))
}

fn read<S: DeserializeOwned>(spec: &Value) -> Result<S, serde_json::Error> {
    serde_json::from_value(defaulting::without_empties(spec.clone()))
}

fn role(item: &NamedRoleBinding) -> Result<RoleRef, &'static str> {
    let (kind, name) = match (&item.role, &item.cluster_role) {
        (Some(name), None) => (Role::kind(&()), name),
        (None, Some(name)) => (ClusterRole::kind(&()), name),
        _ => return Err("give exactly one of role and clusterRole"),
    };
    let api_group = Some(RoleBinding::group(&()).into_owned());
    Ok(RoleRef { api_group, kind: kind.into_owned(), name: name.clone() })
}

fn subject(subject: &Subject) -> ApiSubject {
    let is_account = subject.kind == SubjectKind::ServiceAccount;
    ApiSubject {
        api_group: (!is_account).then(|| RoleBinding::group(&()).into_owned()),
        kind: subject.kind.as_str().to_owned(),
        name: subject.name.clone(),
        namespace: subject.namespace.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn default_quota_allows_nothing() {
        let declared = quotas(&object(json!({"foo": "example"})));
        insta::assert_yaml_snapshot!(declared.objects);
    }

    #[test]
    fn empty_quota_builds_no_object() {
        assert_eq!(quotas(&object(json!({"quota": {}}))).objects, []);
    }

    #[test]
    fn amounts_are_canonical() {
        let declared = quotas(&object(json!({"quota": {"cpu": 1.5, "memory": "1024Mi", "pods": 10}})));
        let hard = declared.objects[0].spec.as_ref().unwrap().hard.as_ref().unwrap();
        assert_eq!(
            serde_json::to_value(hard).unwrap(),
            json!({"cpu": "1500m", "memory": "1Gi", "pods": "10"})
        );
    }

    #[test]
    fn builds_all_kinds_of_objects() {
        let object = object(json!({
            "limitRange": {"limits": [{"type": "Container", "max": {"cpu": 2}}]},
            "networkPolicies": [{"name": "deny", "spec": {}}],
            "podDisruptionBudgets": [{"name": "web", "spec": {"maxUnavailable": "50%",
                "selector": {"matchLabels": {"app": "web"}}}}],
            "roleBindings": [
                {"name": "editors", "clusterRole": "edit", "subjects": [{"kind": "User", "name": "ada"}]},
                {"name": "robots", "role": "robot",
                    "subjects": [{"kind": "ServiceAccount", "name": "r", "namespace": "ci"}]},
            ],
        }));
        insta::assert_yaml_snapshot!((
            limits(&object).objects,
            policies(&object).objects,
            budgets(&object).objects,
            bindings(&object).objects,
        ));
    }

    #[test]
    fn reports_invalid_objects_by_name() {
        let object = object(json!({
            "quota": {"cpu": "lots"},
            "networkPolicies": [{"name": "bad", "spec": {"ingress": [{"ports": [{"port": 99_999_999_999_i64}]}]}},
                {"name": "good", "spec": {}}],
            "roleBindings": [{"name": "both", "role": "a", "clusterRole": "b", "subjects": []}],
        }));
        let quota = quotas(&object);
        assert!(quota.invalid[0].to_string().starts_with("ResourceQuota default-quota is invalid"));
        assert!(quota.names(QUOTA_NAME) && quota.objects.is_empty());
        let policies = policies(&object);
        assert_eq!((policies.objects.len(), policies.invalid.len()), (1, 1));
        assert!(policies.names("bad") && policies.names("good") && !policies.names("other"));
        assert_eq!(bindings(&object).invalid[0].message, "give exactly one of role and clusterRole");
    }
}

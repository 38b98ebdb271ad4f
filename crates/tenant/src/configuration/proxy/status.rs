//! Status of ProxySettings and GlobalProxySettings. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use capsule::{
    Tenant,
    api::proxy_settings::{
        ClusterResource, GlobalProxySettings, GlobalProxySettingsSpec, ProxySetting, ProxySettingsStatus,
    },
    owners::subject,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
    jiff::Timestamp,
};
use kube::{ResourceExt, core::Selector};
use operator_core::conditions::{NewCondition, READY, set_conditions};

use super::rights::KindName;
use crate::reasons::{FAILED, MISSING_RIGHT, NOT_IN_TENANT, SUCCEEDED};

/// Returns the Tenant of each namespace.
pub(super) fn tenants_by_namespace(tenants: &[Arc<Tenant>]) -> HashMap<String, String> {
    let namespaces = |tenant: &Arc<Tenant>| {
        tenant.status.as_ref().map(|status| status.namespaces.clone()).unwrap_or_default()
    };
    let pairs = tenants.iter().flat_map(|tenant| {
        namespaces(tenant).into_iter().map(|namespace| (namespace, tenant.name_any())).collect::<Vec<_>>()
    });
    pairs.collect()
}

/// Returns the status of a ProxySetting.
pub(super) fn setting_status(
    settings: &ProxySetting,
    tenants: &HashMap<String, String>,
    now: Timestamp,
) -> ProxySettingsStatus {
    let tenant = settings.metadata.namespace.as_ref().and_then(|namespace| tenants.get(namespace));
    let ready = match tenant {
        Some(tenant) => {
            let message = format!("the proxy shows the Tenant {tenant} to the subjects");
            NewCondition::is_true(READY, SUCCEEDED, message)
        }
        None => NewCondition::is_false(
            READY,
            NOT_IN_TENANT,
            "the namespace belongs to no Tenant, so the ProxySetting has no effect; create it in a namespace of a Tenant",
        ),
    };
    let before = settings.status.as_ref().map_or(&[][..], |status| &status.conditions);
    status(before, settings.metadata.generation, &ready, now)
}

/// Returns the status of a GlobalProxySettings. `missing` are the kinds that the proxy may not list, and
/// `account` is its ServiceAccount.
pub(super) fn global_status(
    settings: &GlobalProxySettings,
    missing: &BTreeSet<KindName>,
    account: String,
    now: Timestamp,
) -> ProxySettingsStatus {
    let errors = errors(&settings.spec);
    let missing: Vec<_> = kinds(&settings.spec).intersection(missing).map(display).collect();
    let ready = if !errors.is_empty() {
        NewCondition::is_false(READY, FAILED, errors.join("; "))
    } else if missing.is_empty() {
        NewCondition::is_true(READY, SUCCEEDED, "the proxy shows what the rules select")
    } else {
        let message = format!(
            "the proxy may not get, list, and watch {}; bind its ServiceAccount {account} to a ClusterRole that \
             allows it",
            missing.join(", ")
        );
        NewCondition::is_false(READY, MISSING_RIGHT, message)
    };
    let before = settings.status.as_ref().map_or(&[][..], |status| &status.conditions);
    status(before, settings.metadata.generation, &ready, now)
}

fn status(
    before: &[Condition],
    generation: Option<i64>,
    ready: &NewCondition,
    now: Timestamp,
) -> ProxySettingsStatus {
    ProxySettingsStatus {
        observed_generation: generation,
        conditions: set_conditions(before, std::slice::from_ref(ready), generation.unwrap_or_default(), now),
    }
}

/// Returns the kinds that the rules name. Patterns name none.
pub(super) fn kinds(spec: &GlobalProxySettingsSpec) -> BTreeSet<KindName> {
    let is_exact = |name: &&String| !name.contains('*');
    // `group/version` is a version of the group.
    let group = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
    let resources = spec.rules.iter().flat_map(|rule| &rule.cluster_resources);
    let named = resources.flat_map(|resource| {
        let groups: Vec<_> = resource.api_groups.iter().filter(is_exact).map(group).collect();
        let plurals = resource.resources.iter().filter(is_exact);
        plurals.flat_map(move |plural| {
            groups.iter().map(|group| (group.clone(), plural.clone())).collect::<Vec<_>>()
        })
    });
    named.collect()
}

/// Returns the name of a kind, as in `kubectl get`.
fn display((group, plural): &KindName) -> String {
    if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") }
}

/// Returns what is wrong with the rules.
fn errors(spec: &GlobalProxySettingsSpec) -> Vec<String> {
    let mut errors = Vec::new();
    for (index, rule) in spec.rules.iter().enumerate() {
        // Names of users and groups are always valid.
        if rule.subjects.iter().any(|one| subject(one.kind, &one.name).is_err()) {
            errors.push(format!(
                "spec.rules[{index}].subjects: the name of a ServiceAccount must have the form \
                 system:serviceaccount:<namespace>:<name>"
            ));
        }
        for (number, resource) in rule.cluster_resources.iter().enumerate() {
            if let Some(error) = selector_error(resource) {
                errors.push(format!("spec.rules[{index}].clusterResources[{number}].selector {error}"));
            }
        }
    }
    errors
}

fn selector_error(resource: &ClusterResource) -> Option<String> {
    if resource.selector == LabelSelector::default() {
        return Some("is empty and selects nothing; select the objects by a label".to_owned());
    }
    Selector::try_from(resource.selector.clone())
        .err()
        .map(|error| format!("is invalid and selects nothing: {error}"))
}

#[cfg(test)]
mod tests {
    use operator_core::conditions::find;
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn ready(status: &ProxySettingsStatus) -> (String, String, String) {
        let ready = find(&status.conditions, READY).unwrap();
        assert_eq!(status.observed_generation, Some(2));
        (ready.status.clone(), ready.reason.clone(), ready.message.clone())
    }

    fn global(subject: &Value, resource: Value) -> GlobalProxySettings {
        let rule = json!({ "subjects": [subject], "clusterResources": [resource] });
        serde_json::from_value(json!({
            "metadata": { "name": "one", "generation": 2 }, "spec": { "rules": [rule] },
        }))
        .unwrap()
    }

    #[test]
    fn proxy_setting_is_ready_in_a_namespace_of_a_tenant() {
        let settings: ProxySetting = serde_json::from_value(json!({
            "metadata": { "name": "one", "namespace": "oil-dev", "generation": 2 },
            "spec": { "subjects": [{ "kind": "User", "name": "bob" }] },
        }))
        .unwrap();
        let tenant = json!({ "metadata": { "name": "oil" }, "spec": {},
            "status": { "namespaces": ["oil-dev"], "size": 1, "state": "Active" } });
        let tenants = tenants_by_namespace(&[Arc::new(serde_json::from_value(tenant).unwrap())]);
        let (status, reason, message) = ready(&setting_status(&settings, &tenants, NOW));
        assert_eq!((status.as_str(), reason.as_str()), ("True", SUCCEEDED));
        assert!(message.contains("Tenant oil"), "{message}");
        let (status, reason, _) = ready(&setting_status(&settings, &HashMap::new(), NOW));
        assert_eq!((status.as_str(), reason.as_str()), ("False", NOT_IN_TENANT));
    }

    #[test]
    fn global_settings_are_ready_if_the_proxy_may_list_their_kinds() {
        let user = json!({ "kind": "User", "name": "bob" });
        let selector = json!({ "matchLabels": { "a": "b" } });
        let resource = json!({
            "apiGroups": ["", "*.example", "x.example/v1"], "resources": ["nodes", "*"], "selector": selector,
        });
        let settings = global(&user, resource);
        let named = kinds(&settings.spec);
        let nodes = (String::new(), "nodes".to_owned());
        assert_eq!(named, BTreeSet::from([nodes.clone(), ("x.example".to_owned(), "nodes".to_owned())]));
        let of = |missing: &[KindName]| {
            let missing = missing.iter().cloned().collect();
            ready(&global_status(&settings, &missing, "system:proxy".to_owned(), NOW))
        };
        assert_eq!(of(&[]).0, "True");
        assert_eq!(of(&[(String::new(), "pods".to_owned())]).0, "True", "the rule is for another kind");
        let (status, reason, message) = of(&[nodes, ("x.example".to_owned(), "nodes".to_owned())]);
        assert_eq!((status.as_str(), reason.as_str()), ("False", MISSING_RIGHT));
        assert!(
            message.contains("watch nodes, nodes.x.example; bind its ServiceAccount system:proxy"),
            "{message}"
        );
    }

    #[test]
    fn errors_of_rules_are_listed() {
        let user = json!({ "kind": "User", "name": "bob" });
        let account = json!({ "kind": "ServiceAccount", "name": "bob" });
        let nodes =
            |selector: Value| json!({ "apiGroups": [""], "resources": ["nodes"], "selector": selector });
        let labelled = json!({ "matchLabels": { "a": "b" } });
        let invalid = json!({ "matchExpressions": [{ "key": "a", "operator": "Like", "values": ["b"] }] });
        for (settings, expected) in [
            (global(&account, nodes(labelled)), "spec.rules[0].subjects: the name of a ServiceAccount"),
            (global(&user, nodes(json!({}))), "spec.rules[0].clusterResources[0].selector is empty"),
            (global(&user, nodes(invalid)), "spec.rules[0].clusterResources[0].selector is invalid"),
        ] {
            let (status, reason, message) =
                ready(&global_status(&settings, &BTreeSet::new(), String::new(), NOW));
            assert_eq!((status.as_str(), reason.as_str()), ("False", FAILED), "{message}");
            assert!(message.starts_with(expected), "{message}");
        }
    }
}

//! Status of the `CapsuleConfiguration` and of `TenantOwner`s. Pure.

use capsule::{
    api::v1beta2::{
        CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, CapsuleConfigurationStatus,
        Tenant, TenantOwner, TenantOwnerStatus, UserSpec,
    },
    owners::{OwnerSelectors, subject},
};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::conditions::{NewCondition, READY, set_conditions};
use serde_json::Value;

use crate::{
    reasons::{FAILED, NOT_IN_EFFECT, SUCCEEDED},
    unsupported_fields::{condition, is_blank},
};

/// Result of a reconcile of the effective configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) users: Vec<UserSpec>,
    /// Names of all Tenants, sorted.
    pub(super) tenants: Vec<String>,
    /// Message of the failures. Empty if there are none.
    pub(super) failure: String,
}

/// Returns the status of the effective configuration.
pub(super) fn status(
    configuration: &CapsuleConfiguration,
    report: &Report,
    now: Timestamp,
) -> CapsuleConfigurationStatus {
    let ready = match report.failure.as_str() {
        "" => NewCondition::is_true(READY, SUCCEEDED, ready_message(&configuration.spec)),
        failure => NewCondition::is_false(READY, FAILED, failure),
    };
    let status = status_with(configuration, &[ready, fields_enforced(&configuration.spec)], now);
    let before = configuration.status.as_ref();
    CapsuleConfigurationStatus {
        users: report.users.clone(),
        tenants: report.tenants.clone(),
        // Admission writes these.
        route_reservations: before.map(|status| status.route_reservations.clone()).unwrap_or_default(),
        ..status
    }
}

/// Returns the status of a configuration with another name, which has no effect.
pub(super) fn ineffective_status(
    configuration: &CapsuleConfiguration,
    now: Timestamp,
) -> CapsuleConfigurationStatus {
    let message = format!(
        "this configuration has no effect: only the configuration with the name {CONFIGURATION_NAME} is used; move the \
         settings there and delete this configuration"
    );
    status_with(configuration, &[NewCondition::is_false(READY, NOT_IN_EFFECT, message)], now)
}

/// Returns the condition for the fields that are set and not enforced.
fn fields_enforced(spec: &CapsuleConfigurationSpec) -> NewCondition {
    let fields = [("spec.events.namespace", spec.events.as_ref().is_some_and(has_namespace))];
    let set: Vec<_> = fields.into_iter().filter_map(|(path, set)| set.then_some(path)).collect();
    condition(&set)
}

/// Returns whether Events about cluster-scoped objects should be in another namespace than the one
/// that Kubernetes uses.
fn has_namespace(events: &Value) -> bool {
    events["namespace"].as_str().is_some_and(|namespace| !["", "default"].contains(&namespace))
}

/// Returns the message for a configuration that is in effect. It names a field that never has an
/// effect.
fn ready_message(spec: &CapsuleConfigurationSpec) -> String {
    let has_admission = spec.admission.as_ref().is_some_and(|admission| !is_blank(admission));
    let note = if has_admission {
        "; spec.admission has no effect: the manifests of the manager define its webhooks"
    } else {
        ""
    };
    format!("reconciled{note}")
}

fn status_with(
    configuration: &CapsuleConfiguration,
    new_conditions: &[NewCondition],
    now: Timestamp,
) -> CapsuleConfigurationStatus {
    let before = configuration.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = configuration.metadata.generation;
    CapsuleConfigurationStatus {
        observed_generation: generation,
        conditions: set_conditions(before, new_conditions, generation.unwrap_or_default(), now),
        ..CapsuleConfigurationStatus::default()
    }
}

/// Returns the status of a `TenantOwner`. `tenants` are all Tenants of the cluster.
pub(super) fn owner_status(
    owner: &TenantOwner,
    tenants: &[(&Tenant, OwnerSelectors)],
    now: Timestamp,
) -> TenantOwnerStatus {
    let selecting = tenants.iter().filter(|(_, selectors)| selectors.matches(owner));
    let mut tenants: Vec<_> = selecting.map(|(tenant, _)| tenant.name_any()).collect();
    tenants.sort();
    let before = owner.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = owner.metadata.generation;
    let ready = match subject(owner.spec.kind, &owner.spec.name) {
        Ok(_) => NewCondition::is_true(READY, SUCCEEDED, "reconciled"),
        Err(error) => NewCondition::is_false(READY, FAILED, error.to_string()),
    };
    TenantOwnerStatus {
        observed_generation: generation,
        tenants,
        conditions: set_conditions(before, &[ready], generation.unwrap_or_default(), now),
    }
}

#[cfg(test)]
mod tests {
    use operator_core::conditions::{find, is_true};
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn configuration() -> CapsuleConfiguration {
        serde_json::from_value(json!({ "metadata": { "name": "default", "generation": 3 }, "spec": {} }))
            .unwrap()
    }

    fn tenant(name: &str, spec: Value) -> Tenant {
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
    }

    #[test]
    fn status_lists_tenants_and_reports_failures() {
        let report = Report { tenants: vec!["oil".to_owned()], ..Report::default() };
        let found = status(&configuration(), &report, NOW);
        assert_eq!((found.observed_generation, found.tenants.len()), (Some(3), 1));
        assert!(is_true(&found.conditions, READY));
        let report = Report { failure: "cannot create".to_owned(), ..report };
        let found = status(&configuration(), &report, NOW);
        let ready = find(&found.conditions, READY).unwrap();
        assert_eq!((ready.status.as_str(), ready.message.as_str()), ("False", "cannot create"));
    }

    #[test]
    fn unsupported_fields_are_listed() {
        let mut configuration = configuration();
        let message = |configuration: &CapsuleConfiguration| {
            let found = status(configuration, &Report::default(), NOW);
            find(&found.conditions, "FieldsEnforced").unwrap().message.clone()
        };
        assert_eq!(message(&configuration), "every field that is set is enforced");
        configuration.spec.events = Some(json!({ "namespace": "audit" }));
        assert!(message(&configuration).ends_with(": spec.events.namespace"));
    }

    #[test]
    fn empty_list_of_tenants_is_serialized() {
        let status = serde_json::to_value(status(&configuration(), &Report::default(), NOW)).unwrap();
        assert_eq!(status["tenants"], json!([]));
    }

    #[test]
    fn empty_fields_and_defaults_of_capsule_are_not_reported() {
        let conditions = |spec: Value| {
            let metadata = json!({ "name": "default", "generation": 3 });
            let configuration =
                serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
            status(&configuration, &Report::default(), NOW).conditions
        };
        for spec in [
            json!({ "nodeMetadata": {} }),
            json!({ "nodeMetadata": { "forbiddenLabels": { "denied": ["a"] }, "forbiddenAnnotations": {} } }),
            json!({ "impersonation": {} }),
            json!({ "impersonation": { "endpoint": "", "caSecretName": "", "skipTlsVerify": false } }),
            json!({ "impersonation": { "caSecretKey": "ca.crt", "tenantDefaultServiceAccount": "replicator" } }),
            json!({ "impersonation": { "endpoint": "https://proxy.example", "skipTlsVerify": true } }),
            json!({ "administrators": [], "protectedNamespaceRegex": "", "overrides": {}, "events": { "namespace": "default" }, "admission": {} }),
        ] {
            let conditions = conditions(spec.clone());
            assert!(is_true(&conditions, "FieldsEnforced"), "{spec}");
            assert_eq!(find(&conditions, READY).unwrap().message, "reconciled", "{spec}");
        }
        let conditions = conditions(json!({ "admission": { "serviceName": "capsule-webhook-service" } }));
        assert!(is_true(&conditions, READY) && is_true(&conditions, "FieldsEnforced"));
        assert!(find(&conditions, READY).unwrap().message.contains("spec.admission has no effect"));
    }

    #[test]
    fn ineffective_configuration_reports_the_remedy() {
        let found = ineffective_status(&configuration(), NOW);
        let ready = find(&found.conditions, READY).unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", NOT_IN_EFFECT));
        assert!(
            ready.message.contains("only the configuration with the name default is used"),
            "{}",
            ready.message
        );
        assert!(found.users.is_empty());
    }

    #[test]
    fn owner_status_lists_the_tenants_that_select_the_owner() {
        let selecting = json!({ "permissions": { "matchOwners": [{ "matchLabels": { "team": "blue" } }] } });
        let tenants = [tenant("oil", selecting), tenant("gas", json!({})), tenant("air", json!({}))];
        let tenants: Vec<_> = tenants.iter().map(|tenant| (tenant, OwnerSelectors::of(tenant))).collect();
        let owner: TenantOwner = serde_json::from_value(json!({
            "metadata": { "name": "one", "labels": { "team": "blue", "projectcapsule.dev/tenant": "gas" } },
            "spec": { "kind": "User", "name": "alice" },
        }))
        .unwrap();
        let status = owner_status(&owner, &tenants, NOW);
        assert_eq!(status.tenants, ["gas", "oil"]);
        assert!(is_true(&status.conditions, READY));
    }

    /// The schema rejects such a name, but the object may be older than the rule.
    #[test]
    fn owner_with_invalid_name_is_not_ready() {
        let spec = serde_json::from_value(json!({ "kind": "ServiceAccount", "name": "x" })).unwrap();
        let status = owner_status(&TenantOwner::new("one", spec), &[], NOW);
        let message = &find(&status.conditions, READY).unwrap().message;
        assert!(message.contains("the owner \"x\" gets no rights"), "{message}");
    }
}

//! What is said of a `CapsuleConfiguration` and of `TenantOwner`s. Pure.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::conditions::{READY, Verdict, set_conditions};
use serde_json::Value;

use crate::{
    api::v1beta2::{
        CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, CapsuleConfigurationStatus,
        NodeMetadata, Tenant, TenantOwner, TenantOwnerStatus, UserSpec,
    },
    owners::{Selectors, subject},
    reasons::{FAILED, NOT_IN_EFFECT, SUCCEEDED},
    unsupported_fields::{is_blank, verdict},
};

/// What was found and done for the configuration that counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) users: Vec<UserSpec>,
    /// Sorted.
    pub(super) tenants: Vec<String>,
    /// What went wrong, in words; empty if nothing did.
    pub(super) failure: String,
}

/// The status of the configuration that counts.
pub(super) fn status(
    configuration: &CapsuleConfiguration,
    report: &Report,
    now: Timestamp,
) -> CapsuleConfigurationStatus {
    let ready = match report.failure.as_str() {
        "" => Verdict::is_true(READY, SUCCEEDED, done(&configuration.spec)),
        failure => Verdict::is_false(READY, FAILED, failure),
    };
    let status = said(configuration, &[ready, fields_enforced(&configuration.spec)], now);
    CapsuleConfigurationStatus { users: report.users.clone(), tenants: report.tenants.clone(), ..status }
}

/// The status of any other.
pub(super) fn without_effect(
    configuration: &CapsuleConfiguration,
    now: Timestamp,
) -> CapsuleConfigurationStatus {
    let message = format!(
        "this configuration has no effect: only the one with the name {CONFIGURATION_NAME} counts; write there what this \
         one says, and delete it"
    );
    said(configuration, &[Verdict::is_false(READY, NOT_IN_EFFECT, message)], now)
}

/// Whether a field is set that nothing acts upon yet.
fn fields_enforced(spec: &CapsuleConfigurationSpec) -> Verdict {
    let fields = [
        ("spec.allowServiceAccountPromotion", spec.allow_service_account_promotion),
        ("spec.nodeMetadata", spec.node_metadata.as_ref().is_some_and(guards_nodes)),
        ("spec.rbac.administrationClusterRoles", !spec.administrators.is_empty()),
        ("spec.impersonation", spec.impersonation.as_ref().is_some_and(impersonates)),
    ];
    let set: Vec<_> = fields.into_iter().filter_map(|(path, set)| set.then_some(path)).collect();
    verdict(&set)
}

fn guards_nodes(metadata: &NodeMetadata) -> bool {
    !metadata.forbidden_labels.is_empty() || !metadata.forbidden_annotations.is_empty()
}

/// Returns whether impersonation is set to something else than what Capsule's chart and definition always write:
/// the key of a Secret that is not named, and the ServiceAccount that every namespace has.
fn impersonates(settings: &Value) -> bool {
    const ALWAYS_WRITTEN: [(&str, &str); 2] =
        [("caSecretKey", "ca.crt"), ("tenantDefaultServiceAccount", "default")];
    let is_written = |key: &str, value: &Value| {
        ALWAYS_WRITTEN.iter().any(|one| *one == (key, value.as_str().unwrap_or_default()))
    };
    let mut settings = settings.as_object().into_iter().flatten();
    settings.any(|(key, value)| !is_blank(value) && !is_written(key, value))
}

/// Returns the message of a configuration that is in effect, with what is written in it and never has an effect.
fn done(spec: &CapsuleConfigurationSpec) -> String {
    let declares = spec.admission.as_ref().is_some_and(|admission| !is_blank(admission));
    let note = if declares {
        "; spec.admission has no effect: the manifests of the manager declare its webhooks"
    } else {
        ""
    };
    format!("reconciled{note}")
}

fn said(
    configuration: &CapsuleConfiguration,
    verdicts: &[Verdict],
    now: Timestamp,
) -> CapsuleConfigurationStatus {
    let before = configuration.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = configuration.metadata.generation;
    CapsuleConfigurationStatus {
        observed_generation: generation,
        conditions: set_conditions(before, verdicts, generation.unwrap_or_default(), now),
        ..CapsuleConfigurationStatus::default()
    }
}

/// The status of a `TenantOwner`. `tenants` are all there are.
pub(super) fn owner_status(
    owner: &TenantOwner,
    tenants: &[(&Tenant, Selectors)],
    now: Timestamp,
) -> TenantOwnerStatus {
    let selecting = tenants.iter().filter(|(_, selectors)| selectors.pick(owner));
    let mut tenants: Vec<_> = selecting.map(|(tenant, _)| tenant.name_any()).collect();
    tenants.sort();
    let before = owner.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = owner.metadata.generation;
    let ready = match subject(owner.spec.kind, &owner.spec.name) {
        Ok(_) => Verdict::is_true(READY, SUCCEEDED, "reconciled"),
        Err(error) => Verdict::is_false(READY, FAILED, error.to_string()),
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
    fn what_counts_says_who_and_which_and_what_is_wrong() {
        let report = Report { tenants: vec!["oil".to_owned()], ..Report::default() };
        let said = status(&configuration(), &report, NOW);
        assert_eq!((said.observed_generation, said.tenants.len()), (Some(3), 1));
        assert!(is_true(&said.conditions, READY));
        let report = Report { failure: "it is in the way".to_owned(), ..report };
        let said = status(&configuration(), &report, NOW);
        let ready = find(&said.conditions, READY).unwrap();
        assert_eq!((ready.status.as_str(), ready.message.as_str()), ("False", "it is in the way"));
    }

    #[test]
    fn fields_without_effect_are_named() {
        let mut configuration = configuration();
        let message = |configuration: &CapsuleConfiguration| {
            let said = status(configuration, &Report::default(), NOW);
            find(&said.conditions, "FieldsEnforced").unwrap().message.clone()
        };
        assert_eq!(message(&configuration), "every field that is set is enforced");
        configuration.spec.allow_service_account_promotion = true;
        assert!(message(&configuration).ends_with(": spec.allowServiceAccountPromotion"));
    }

    #[test]
    fn the_tenants_are_an_empty_list_and_not_absent_if_there_are_none() {
        let said = serde_json::to_value(status(&configuration(), &Report::default(), NOW)).unwrap();
        assert_eq!(said["tenants"], json!([]));
    }

    #[test]
    fn empty_fields_and_what_is_always_written_ask_for_nothing() {
        let said = |spec: Value| {
            let metadata = json!({ "name": "default", "generation": 3 });
            let configuration =
                serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
            status(&configuration, &Report::default(), NOW).conditions
        };
        let list = || json!({ "denied": [], "deniedRegex": "" });
        for spec in [
            json!({ "nodeMetadata": {} }),
            json!({ "nodeMetadata": { "forbiddenLabels": list(), "forbiddenAnnotations": list() } }),
            json!({ "impersonation": {} }),
            json!({ "impersonation": { "endpoint": "", "caSecretName": "", "skipTlsVerify": false } }),
            json!({ "impersonation": { "caSecretKey": "ca.crt", "tenantDefaultServiceAccount": "default" } }),
            json!({ "administrators": [], "protectedNamespaceRegex": "", "overrides": {}, "events": {}, "admission": {} }),
        ] {
            let conditions = said(spec.clone());
            assert!(is_true(&conditions, "FieldsEnforced"), "{spec}");
            assert_eq!(find(&conditions, READY).unwrap().message, "reconciled", "{spec}");
        }
        for (spec, path) in [
            (json!({ "nodeMetadata": { "forbiddenLabels": { "denied": ["a"] } } }), "spec.nodeMetadata"),
            (
                json!({ "nodeMetadata": { "forbiddenAnnotations": { "deniedRegex": "a" } } }),
                "spec.nodeMetadata",
            ),
            (
                json!({ "impersonation": { "tenantDefaultServiceAccount": "replicator" } }),
                "spec.impersonation",
            ),
            (json!({ "impersonation": { "skipTlsVerify": true } }), "spec.impersonation"),
        ] {
            let message = &find(&said(spec.clone()), "FieldsEnforced").unwrap().message.clone();
            assert!(message.ends_with(&format!(": {path}")), "{spec}: {message}");
        }
        let conditions = said(json!({ "admission": { "serviceName": "capsule-webhook-service" } }));
        assert!(is_true(&conditions, READY) && is_true(&conditions, "FieldsEnforced"));
        assert!(find(&conditions, READY).unwrap().message.contains("spec.admission has no effect"));
    }

    #[test]
    fn what_does_not_count_says_what_to_do() {
        let said = without_effect(&configuration(), NOW);
        let ready = find(&said.conditions, READY).unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", NOT_IN_EFFECT));
        assert!(ready.message.contains("only the one with the name default counts"), "{}", ready.message);
        assert!(said.users.is_empty());
    }

    #[test]
    fn an_owner_knows_the_tenants_that_select_it() {
        let selecting = json!({ "permissions": { "matchOwners": [{ "matchLabels": { "team": "blue" } }] } });
        let tenants = [tenant("oil", selecting), tenant("gas", json!({})), tenant("air", json!({}))];
        let tenants: Vec<_> = tenants.iter().map(|tenant| (tenant, Selectors::of(tenant))).collect();
        let owner: TenantOwner = serde_json::from_value(json!({
            "metadata": { "name": "one", "labels": { "team": "blue", "projectcapsule.dev/tenant": "gas" } },
            "spec": { "kind": "User", "name": "alice" },
        }))
        .unwrap();
        let said = owner_status(&owner, &tenants, NOW);
        assert_eq!(said.tenants, ["gas", "oil"]);
        assert!(is_true(&said.conditions, READY));
    }

    /// The definition refuses such a name; an object may be older than the rule.
    #[test]
    fn an_owner_whose_name_means_nobody_is_not_ready() {
        let spec = serde_json::from_value(json!({ "kind": "ServiceAccount", "name": "x" })).unwrap();
        let said = owner_status(&TenantOwner::new("one", spec), &[], NOW);
        let message = &find(&said.conditions, READY).unwrap().message;
        assert!(message.contains("the owner \"x\" gets no rights"), "{message}");
    }
}

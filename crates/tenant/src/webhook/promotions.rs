//! Who may promote ServiceAccounts.

use std::collections::BTreeMap;

use capsule::{
    api::{
        names::{OWNER_PROMOTION_LABEL, PROMOTION_LABEL},
        v1beta2::{CapsuleConfigurationSpec, Tenant},
    },
    subjects::Role,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt;
use operator_core::admission::{
    BoxError, CREATE, Caches, Request, UPDATE, Validator, Verdict, Webhook, target,
};

use super::{denial_events::DenialEvents, in_tenants, lookups::Lookups, tenant_resolver::TenantResolver};
use crate::{policies::Violation, promotion::allows_promotion, reasons::PROMOTION_DENIED};

/// Includes ServiceAccounts with a label for promotion, whatever its value.
const HAS_PROMOTION_LABEL: &str = "object.metadata.?labels[?'owner.projectcapsule.dev/promote'].hasValue() || \
    object.metadata.?labels[?'projectcapsule.dev/promote'].hasValue()";

/// Returns the webhook.
pub(super) fn webhook() -> Webhook {
    Webhook::validating::<PromotionValidator>("serviceaccounts")
        .on(target::<ServiceAccount>(CREATE | UPDATE))
        .in_namespaces(in_tenants())
        .match_condition("has-promotion-label", HAS_PROMOTION_LABEL)
        .side_effects()
        .build()
}

struct PromotionValidator {
    lookups: Lookups,
    resolver: TenantResolver,
    denials: DenialEvents,
}

impl Validator for PromotionValidator {
    type Object = ServiceAccount;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            lookups: Lookups::build(caches),
            resolver: TenantResolver::build(caches),
            denials: DenialEvents::build(caches),
        }
    }

    async fn validate(&self, request: &Request<ServiceAccount>) -> Result<Verdict, BoxError> {
        let Some(account) = &request.new else { return Ok(Verdict::allow()) };
        let set = labels_set(request.old.as_ref(), account);
        if set.is_empty() {
            return Ok(Verdict::allow());
        }
        let tenant = match self.resolver.resolve(request.namespace.as_deref().unwrap_or_default()).await {
            Ok(Some(tenant)) => tenant,
            Ok(None) => return Ok(Verdict::allow()),
            Err(error) => return error.into_denial().map(Verdict::deny),
        };
        let role = self.lookups.role(&request.user).await?;
        // A promoted ServiceAccount owns the Tenant neither by the spec nor by a TenantOwner.
        let may_promote =
            matches!(role, Role::Manager | Role::Administrator) || self.lookups.owns(&request.user, &tenant);
        let checked = check(&set, &self.lookups.configuration(), &tenant, may_promote);
        Ok(self.denials.verdict(request, &tenant, checked))
    }
}

/// Returns the labels for promotion that a request adds or changes. Removing one is always allowed.
fn labels_set(old: Option<&ServiceAccount>, new: &ServiceAccount) -> Vec<&'static str> {
    let none = BTreeMap::new();
    let before = old.map_or(&none, ResourceExt::labels);
    let is_set =
        |label: &&str| new.labels().contains_key(*label) && before.get(*label) != new.labels().get(*label);
    [OWNER_PROMOTION_LABEL, PROMOTION_LABEL].into_iter().filter(is_set).collect()
}

fn check(
    labels: &[&str],
    configuration: &CapsuleConfigurationSpec,
    tenant: &Tenant,
    may_promote: bool,
) -> Result<(), Violation> {
    let denied = |label: &str, cause: String| {
        Err(Violation::new(PROMOTION_DENIED, format!("metadata.labels[{label}]: {cause}; remove the label")))
    };
    let name = tenant.name_any();
    for label in labels {
        if !configuration.allow_service_account_promotion {
            let cause = "CapsuleConfiguration default does not allow the promotion of ServiceAccounts";
            return denied(label, cause.to_owned());
        }
        if *label == OWNER_PROMOTION_LABEL && !allows_promotion(configuration, tenant) {
            return denied(label, format!("Tenant {name} does not allow the promotion of ServiceAccounts"));
        }
        if !may_promote {
            let cause =
                format!("only owners of Tenant {name} and administrators can promote ServiceAccounts");
            return denied(label, cause);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn account(labels: Value) -> ServiceAccount {
        serde_json::from_value(json!({ "metadata": { "name": "deployer", "labels": labels } })).unwrap()
    }

    #[test]
    fn removed_and_unchanged_labels_are_free() {
        let promoted = || account(json!({ OWNER_PROMOTION_LABEL: "true", "other": "x" }));
        let both = account(json!({ OWNER_PROMOTION_LABEL: "false", PROMOTION_LABEL: "" }));
        assert_eq!(labels_set(None, &promoted()), [OWNER_PROMOTION_LABEL]);
        assert_eq!(labels_set(None, &both), [OWNER_PROMOTION_LABEL, PROMOTION_LABEL]);
        assert_eq!(labels_set(Some(&promoted()), &promoted()), [""; 0]);
        assert_eq!(labels_set(Some(&promoted()), &account(json!({}))), [""; 0]);
        assert_eq!(labels_set(Some(&promoted()), &both), [OWNER_PROMOTION_LABEL, PROMOTION_LABEL]);
    }

    #[test]
    fn promotion_needs_permission_and_an_owner() {
        let check = |label: &str, configuration: Value, tenant: Value, may_promote| {
            let tenant = json!({ "metadata": { "name": "oil" }, "spec": tenant });
            let (configuration, tenant) =
                (serde_json::from_value(configuration).unwrap(), serde_json::from_value(tenant).unwrap());
            check(&[label], &configuration, &tenant, may_promote)
                .err()
                .map_or_else(String::new, |found| found.message)
        };
        let on = || json!({ "allowServiceAccountPromotion": true });
        let off = || json!({ "permissions": { "allowOwnerPromotion": false } });
        assert_eq!(check(OWNER_PROMOTION_LABEL, on(), json!({}), true), "");
        assert!(
            check(OWNER_PROMOTION_LABEL, json!({}), json!({}), true).contains("CapsuleConfiguration default")
        );
        assert!(check(OWNER_PROMOTION_LABEL, on(), off(), true).contains("Tenant oil does not allow"));
        assert!(check(OWNER_PROMOTION_LABEL, on(), json!({}), false).contains("only owners of Tenant oil"));
        assert_eq!(check(PROMOTION_LABEL, on(), off(), true), "");
    }
}

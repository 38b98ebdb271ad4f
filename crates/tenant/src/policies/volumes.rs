//! PersistentVolumes of PersistentVolumeClaims: a Tenant uses only its own volumes.
//!
//! A volume belongs to the Tenant in its label. The controller sets the label when a claim of the
//! Tenant binds the volume, and never removes it.

use capsule::api::names::TENANT_LABEL;
use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta},
};
use kube::Resource;
use serde::Deserialize;

use super::Violation;
use crate::reasons::CROSS_TENANT_REFERENCE;

/// The fields of a PersistentVolume that the controller and admission read.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = "PersistentVolume")]
pub(crate) struct Volume {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: VolumeSpec,
}

/// `spec` of a PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    claim_ref: Option<ClaimReference>,
}

/// The claim that a volume is bound to, or reserved for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimReference {
    namespace: String,
}

impl Volume {
    /// Returns the namespace of the claim.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.spec.claim_ref.as_ref().map(|claim| claim.namespace.as_str())
    }
}

/// Phase of a claim that has its volume.
const BOUND: &str = "Bound";

/// Returns the claim with a selector for the volumes of the Tenant, or `None` if it is unchanged.
///
/// A claim without selector and volume name gets a new volume, so it stays without selector.
pub(crate) fn with_tenant_selector(
    old: Option<&PersistentVolumeClaim>,
    new: &PersistentVolumeClaim,
    tenant: &str,
) -> Option<PersistentVolumeClaim> {
    let is_bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(BOUND)
    };
    let spec = new.spec.as_ref()?;
    let selects = spec.selector.is_some() || (old.is_none() && volume_name(spec).is_some());
    if !selects || old.is_some_and(|old| is_bound(old) || old.spec == new.spec) {
        return None;
    }
    let selector = tenant_selector(spec.selector.clone().unwrap_or_default(), tenant);
    if spec.selector.as_ref() == Some(&selector) {
        return None;
    }
    let mut changed = new.clone();
    changed.spec.get_or_insert_default().selector = Some(selector);
    Some(changed)
}

/// Returns the selector with the requirement that the volume has the label of the Tenant, instead
/// of all others for this label.
fn tenant_selector(mut selector: LabelSelector, tenant: &str) -> LabelSelector {
    if let Some(labels) = &mut selector.match_labels {
        labels.remove(TENANT_LABEL);
    }
    let expressions = selector.match_expressions.get_or_insert_default();
    expressions.retain(|expression| expression.key != TENANT_LABEL);
    expressions.push(requirement(tenant));
    selector.match_labels = selector.match_labels.filter(|labels| !labels.is_empty());
    selector
}

fn requirement(tenant: &str) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: TENANT_LABEL.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![tenant.to_owned()]),
    }
}

/// Checks the selector of a claim, and that it copies no data of other namespaces.
pub(crate) fn check_claim(spec: &PersistentVolumeClaimSpec, tenant: &str) -> Result<(), Violation> {
    if let Some(selector) = &spec.selector
        && tenant_selector(selector.clone(), tenant) != *selector
    {
        let message = format!(
            "spec.selector: it must select volumes of Tenant {tenant} by the label {TENANT_LABEL}, which the manager \
             adds; try again"
        );
        return Err(Violation::new(CROSS_TENANT_REFERENCE, message));
    }
    Ok(())
}

/// Returns the namespace of the data source, if it is another one.
pub(crate) fn foreign_source(claim: &PersistentVolumeClaim) -> Option<&str> {
    let source = claim.spec.as_ref()?.data_source_ref.as_ref()?;
    source.namespace.as_deref().filter(|namespace| Some(*namespace) != claim.metadata.namespace.as_deref())
}

/// Returns the denial of a claim that copies data of a namespace of another Tenant.
pub(crate) fn foreign_source_denied(namespace: &str, tenant: &str) -> Violation {
    let message = format!(
        "spec.dataSourceRef.namespace: namespace {namespace:?} does not belong to Tenant {tenant}; use data of its own \
         namespaces"
    );
    Violation::new(CROSS_TENANT_REFERENCE, message)
}

/// Returns the volume that the claim requests by name.
pub(crate) fn volume_name(spec: &PersistentVolumeClaimSpec) -> Option<&str> {
    spec.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Checks the Tenant of a requested volume. `owner` is the label of the volume: `None` if the
/// volume does not exist, empty if it has no label.
pub(crate) fn check_volume(volume: &str, owner: Option<&str>, tenant: &str) -> Result<(), Violation> {
    let cause = match owner {
        Some(owner) if owner == tenant => return Ok(()),
        None => "does not exist".to_owned(),
        Some("") => format!("does not have the label {TENANT_LABEL}"),
        Some(_) => "belongs to another Tenant".to_owned(),
    };
    let message = format!(
        "spec.volumeName: PersistentVolume {volume} {cause}; Tenant {tenant} can use only its own volumes: ask an \
         administrator to set the label to {tenant}"
    );
    Err(Violation::new(CROSS_TENANT_REFERENCE, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(spec: Value, phase: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": { "name": "data", "namespace": "oil-dev" }, "spec": spec, "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn selector_after(old: Option<(Value, &str)>, spec: Value) -> Option<Value> {
        let old = old.map(|(spec, phase)| claim(spec, phase));
        let changed = with_tenant_selector(old.as_ref(), &claim(spec, ""), "oil")?;
        Some(serde_json::to_value(changed.spec.unwrap().selector).unwrap())
    }

    fn own() -> Value {
        json!({ "key": TENANT_LABEL, "operator": "In", "values": ["oil"] })
    }

    #[test]
    fn claim_for_an_existing_volume_gets_a_selector() {
        assert_eq!(selector_after(None, json!({})), None);
        assert_eq!(selector_after(None, json!({ "volumeName": "" })), None);
        let only_own = json!({ "matchExpressions": [own()] });
        assert_eq!(selector_after(None, json!({ "volumeName": "a" })), Some(only_own.clone()));
        assert_eq!(selector_after(None, json!({ "selector": {} })), Some(only_own.clone()));
        assert_eq!(selector_after(None, json!({ "selector": only_own })), None);
    }

    #[test]
    fn selector_keeps_other_requirements_and_replaces_those_for_the_tenant() {
        let other = json!({ "key": "tier", "operator": "Exists" });
        let foreign = json!({ "key": TENANT_LABEL, "operator": "In", "values": ["gas", "oil"] });
        let exists = json!({ "key": TENANT_LABEL, "operator": "Exists" });
        let selector = json!({
            "matchLabels": { "a": "b", TENANT_LABEL: "gas" }, "matchExpressions": [foreign, other, exists],
        });
        let expected = json!({ "matchLabels": { "a": "b" }, "matchExpressions": [other, own()] });
        assert_eq!(selector_after(None, json!({ "selector": selector })), Some(expected));
    }

    #[test]
    fn bound_claim_and_unchanged_spec_stay() {
        let foreign = || json!({ "selector": { "matchLabels": { "a": "b" } } });
        assert_eq!(selector_after(Some((json!({}), "Bound")), foreign()), None);
        assert_eq!(selector_after(Some((foreign(), "Pending")), foreign()), None);
        assert!(selector_after(Some((json!({}), "Pending")), foreign()).is_some());
        // The volume binder of Kubernetes sets the name.
        assert_eq!(selector_after(Some((json!({}), "Pending")), json!({ "volumeName": "a" })), None);
    }

    #[test]
    fn selector_without_the_tenant_is_denied() {
        let check =
            |spec: Value| check_claim(&claim(spec, "").spec.unwrap(), "oil").map_err(|found| found.reason);
        assert_eq!(check(json!({})), Ok(()));
        assert_eq!(check(json!({ "selector": { "matchExpressions": [own()] } })), Ok(()));
        for selector in [
            json!({}),
            json!({ "matchLabels": { TENANT_LABEL: "oil" } }),
            json!({ "matchExpressions": [own(), { "key": TENANT_LABEL, "operator": "Exists" }] }),
        ] {
            assert_eq!(
                check(json!({ "selector": selector.clone() })),
                Err(CROSS_TENANT_REFERENCE),
                "{selector}"
            );
        }
    }

    #[test]
    fn volume_must_have_the_label_of_the_tenant() {
        let check = |owner| check_volume("pv", owner, "oil").map_err(|found| found.reason);
        assert_eq!(check(Some("oil")), Ok(()));
        assert_eq!(check(Some("gas")), Err(CROSS_TENANT_REFERENCE));
        assert_eq!(check(Some("")), Err(CROSS_TENANT_REFERENCE));
        assert_eq!(check(None), Err(CROSS_TENANT_REFERENCE));
        let message = check_volume("pv", Some("gas"), "oil").unwrap_err().message;
        assert!(!message.contains("gas"), "names no other Tenant: {message}");
    }

    #[test]
    fn data_source_in_another_namespace_is_foreign() {
        let source = |namespace: Value| {
            let source = json!({ "kind": "PersistentVolumeClaim", "name": "a", "namespace": namespace });
            let claim = claim(json!({ "dataSourceRef": source }), "");
            foreign_source(&claim).map(str::to_owned)
        };
        assert_eq!(source(json!("gas-dev")), Some("gas-dev".to_owned()));
        assert_eq!((source(json!("oil-dev")), source(Value::Null)), (None, None));
    }
}

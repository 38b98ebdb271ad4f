//! Check of the CustomResourceDefinitions: whether they exist, are served, and match this version.

use anyhow::{Context, Error};
use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, WebhookClientConfig},
};
use kube::{
    Api, ResourceExt,
    runtime::{conditions::is_crd_established, wait::Condition},
};
use serde_json::{Value, json};

use super::Finding;
use crate::{cluster::Cluster, installation::Installation};

pub(super) const WHAT: &str = "CRDs";
const APPLY: &str = "run `kubectl apply --server-side -f deploy/crds`";

/// Findings about the CustomResourceDefinitions.
pub(super) struct CrdCheck {
    pub(super) findings: Vec<Finding>,
    /// Whether none of the CustomResourceDefinitions exists.
    pub(super) is_not_installed: bool,
}

pub(super) async fn check(cluster: &Cluster, installation: &Installation) -> CrdCheck {
    let mut pairs = Vec::new();
    for kind in installation.kinds() {
        match get(cluster, &kind.definition.name_any()).await {
            Ok(found) => pairs.push((kind.definition, found)),
            Err(error) => {
                return CrdCheck { findings: vec![Finding::unknown(WHAT, &error)], is_not_installed: false };
            }
        }
    }
    evaluate(&pairs)
}

/// Gets a CustomResourceDefinition from the cluster.
pub(super) async fn get(cluster: &Cluster, name: &str) -> Result<Option<CustomResourceDefinition>, Error> {
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    api.get_opt(name).await.with_context(|| format!("cannot read the CustomResourceDefinition {name}"))
}

/// Compares the expected CustomResourceDefinitions with those of the cluster.
fn evaluate(pairs: &[(CustomResourceDefinition, Option<CustomResourceDefinition>)]) -> CrdCheck {
    if pairs.iter().all(|(_, found)| found.is_none()) {
        let message = "none exists: Ensemble is not installed in this cluster";
        let advice = "select another cluster with --context, or run `ensemblectl check --pre` to check whether you \
                      can install Ensemble";
        return CrdCheck { findings: vec![Finding::error(WHAT, message, advice)], is_not_installed: true };
    }
    let mut findings: Vec<_> =
        pairs.iter().filter_map(|(expected, found)| problem(expected, found.as_ref())).collect();
    if findings.is_empty() {
        let version = env!("CARGO_PKG_VERSION");
        findings
            .push(Finding::ok(WHAT, format!("all {} are served and match version {version}", pairs.len())));
    }
    CrdCheck { findings, is_not_installed: false }
}

fn problem(expected: &CustomResourceDefinition, found: Option<&CustomResourceDefinition>) -> Option<Finding> {
    let name = expected.name_any();
    let what = format!("CRD {name}");
    let Some(found) = found else {
        let message = "does not exist: its objects cannot be written, and its controller waits for it";
        return Some(Finding::error(&what, message, APPLY));
    };
    if found.metadata.deletion_timestamp.is_some() {
        let advice =
            "all its objects are deleted with it; run `ensemblectl status -A` to see which finalizers remain";
        return Some(Finding::error(&what, "is being deleted", advice));
    }
    if !is_crd_established().matches_object(Some(found)) {
        let advice =
            format!("run `kubectl describe crd {name}` to see the cause, for example a name conflict");
        return Some(Finding::error(&what, "is not served", advice));
    }
    if let Some(path) = difference(expected, found) {
        let version = env!("CARGO_PKG_VERSION");
        let message = format!("differs from version {version}, first at {path}");
        let advice = format!("{APPLY}, or use the ensemblectl of the installed version");
        return Some(Finding::error(&what, message, advice));
    }
    let client = conversion(found)?;
    if client.ca_bundle.as_ref().is_some_and(|ByteString(bundle)| !bundle.is_empty()) {
        return None;
    }
    let message = "has no caBundle for its conversion webhook: the API server cannot convert its versions";
    Some(Finding::error(&what, message, super::webhooks::CA_BUNDLE_ADVICE))
}

/// Returns the client configuration of the conversion webhook.
fn conversion(definition: &CustomResourceDefinition) -> Option<&WebhookClientConfig> {
    definition.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()
}

/// Returns the path of the first difference between two CustomResourceDefinitions.
///
/// Ignores fields that the API server defaults, and the address of the conversion webhook.
pub(super) fn difference(
    expected: &CustomResourceDefinition,
    found: &CustomResourceDefinition,
) -> Option<String> {
    let (mut expected, mut found) = (comparable(expected), comparable(found));
    let names_set = expected.pointer("/names").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(names) = found.get_mut("names").and_then(Value::as_object_mut) {
        names.retain(|name, _| names_set.contains_key(name));
    }
    for version in [&mut expected, &mut found] {
        remove_defaults(version);
    }
    let patch = json_patch::diff(&found, &expected);
    patch.0.first().map(|operation| format!("spec{}", operation.path().to_string().replace('/', ".")))
}

/// Returns the fields that are compared.
fn comparable(definition: &CustomResourceDefinition) -> Value {
    let spec = &definition.spec;
    let strategy = spec.conversion.as_ref().map_or("None", |conversion| &conversion.strategy);
    json!({
        "group": spec.group, "scope": spec.scope, "names": spec.names, "versions": spec.versions, "conversion": { "strategy": strategy },
    })
}

/// Removes zero and empty fields of printer columns, which the API server omits.
fn remove_defaults(value: &mut Value) {
    for version in value.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
            column.retain(|_, field| *field != json!(0) && *field != json!(""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::finding::State, kinds};

    fn expected(plural: &str) -> CustomResourceDefinition {
        kinds::find(plural).unwrap().definition
    }

    fn served(plural: &str) -> CustomResourceDefinition {
        let mut definition = serde_json::to_value(expected(plural)).unwrap();
        definition["status"] = json!({
            "acceptedNames": definition["spec"]["names"], "storedVersions": [],
            "conditions": [{ "type": "Established", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        });
        definition["spec"]["names"]["listKind"] = json!("Defaulted by the API server");
        serde_json::from_value(definition).unwrap()
    }

    fn finding(found: Option<CustomResourceDefinition>, plural: &str) -> (State, String) {
        let other = (expected("nsp"), Some(served("nsp")));
        let found = evaluate(&[other, (expected(plural), found)]).findings.remove(0);
        (found.state, format!("{} {}", found.what, found.message))
    }

    #[test]
    fn accepts_installed_crds() {
        assert_eq!(finding(Some(served("podset")), "podset").0, State::Ok);
    }

    #[test]
    fn reports_each_problem() {
        let (state, message) = finding(None, "podset");
        assert!(
            state == State::Error && message.contains("podsets.app.example.com does not exist"),
            "{message}"
        );
        let mut unserved = served("podset");
        unserved.status = None;
        assert!(finding(Some(unserved), "podset").1.contains("is not served"));
        let mut older = served("podset");
        older.spec.versions[0].schema = None;
        let (_, message) = finding(Some(older), "podset");
        assert!(message.contains("first at spec.versions.0.schema"), "{message}");
        let (_, message) = finding(Some(served("tenant")), "tenant");
        assert!(message.contains("has no caBundle for its conversion"), "{message}");
    }

    #[test]
    fn reports_missing_installation() {
        let check = evaluate(&[(expected("podset"), None), (expected("nsp"), None)]);
        assert!(check.is_not_installed);
        assert!(check.findings[0].message.contains("Ensemble is not installed"));
    }
}

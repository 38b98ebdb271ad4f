//! The custom resource definitions: there, served, and as this version has them.

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
use crate::{connect::Cluster, installation::Installation};

const WHAT: &str = "definitions";
const APPLY: &str = "install those of this version: kubectl apply --server-side -f deploy/crds";

/// What was found, and whether there is an installation at all.
pub(super) struct Definitions {
    pub(super) findings: Vec<Finding>,
    pub(super) none_is_there: bool,
}

pub(super) async fn find(cluster: &Cluster, installation: &Installation) -> Definitions {
    let mut pairs = Vec::new();
    for kind in installation.kinds() {
        match get(cluster, &kind.definition.name_any()).await {
            Ok(found) => pairs.push((kind.definition, found)),
            Err(error) => {
                return Definitions { findings: vec![Finding::unknown(WHAT, &error)], none_is_there: false };
            }
        }
    }
    judge(&pairs)
}

/// A definition as it is in the cluster.
pub(super) async fn get(cluster: &Cluster, name: &str) -> Result<Option<CustomResourceDefinition>, Error> {
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    api.get_opt(name).await.with_context(|| format!("cannot read the definition {name}"))
}

/// Judges what is there by what is wanted.
fn judge(pairs: &[(CustomResourceDefinition, Option<CustomResourceDefinition>)]) -> Definitions {
    if pairs.iter().all(|(_, found)| found.is_none()) {
        let message = "none of them is there: Ensemble is not installed in this cluster";
        let advice = "is this the right cluster? --context names another; `ensemblectl check --pre` says whether it \
                      could be installed here";
        return Definitions { findings: vec![Finding::error(WHAT, message, advice)], none_is_there: true };
    }
    let mut findings: Vec<_> =
        pairs.iter().filter_map(|(wanted, found)| fault(wanted, found.as_ref())).collect();
    if findings.is_empty() {
        let version = env!("CARGO_PKG_VERSION");
        findings.push(Finding::ok(
            WHAT,
            format!("all {} are served, as version {version} has them", pairs.len()),
        ));
    }
    Definitions { findings, none_is_there: false }
}

fn fault(wanted: &CustomResourceDefinition, found: Option<&CustomResourceDefinition>) -> Option<Finding> {
    let name = wanted.name_any();
    let what = format!("definition {name}");
    let Some(found) = found else {
        let message = "is not there: its objects cannot be written, and its controller waits for it";
        return Some(Finding::error(&what, message, APPLY));
    };
    if found.metadata.deletion_timestamp.is_some() {
        let advice = "all of its objects go with it; what holds them says `ensemblectl status -A`";
        return Some(Finding::error(&what, "is being deleted", advice));
    }
    if !is_crd_established().matches_object(Some(found)) {
        let advice =
            format!("`kubectl describe crd {name}` shows why; another definition may have the same names");
        return Some(Finding::error(&what, "is not served", advice));
    }
    if let Some(place) = difference(wanted, found) {
        let version = env!("CARGO_PKG_VERSION");
        let message = format!("is not as version {version} has it; the first difference is at {place}");
        let advice = format!("{APPLY}; or use the ensemblectl of the version that is installed");
        return Some(Finding::error(&what, message, advice));
    }
    let client = conversion(found)?;
    if client.ca_bundle.as_ref().is_some_and(|ByteString(bundle)| !bundle.is_empty()) {
        return None;
    }
    let message = "has no caBundle for its conversion: the API server cannot convert its versions";
    Some(Finding::error(&what, message, super::webhooks::WHO_WRITES_CA_BUNDLE))
}

/// Whom the API server asks to convert versions.
fn conversion(definition: &CustomResourceDefinition) -> Option<&WebhookClientConfig> {
    definition.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()
}

/// The path at which two definitions first differ, if they do. What the API server fills in, and where the conversion
/// is reached, does not count.
pub(super) fn difference(
    wanted: &CustomResourceDefinition,
    found: &CustomResourceDefinition,
) -> Option<String> {
    let (mut wanted, mut found) = (essence(wanted), essence(found));
    let given = wanted.pointer("/names").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(names) = found.get_mut("names").and_then(Value::as_object_mut) {
        names.retain(|name, _| given.contains_key(name));
    }
    for version in [&mut wanted, &mut found] {
        drop_empty(version);
    }
    let patch = json_patch::diff(&found, &wanted);
    patch.0.first().map(|operation| format!("spec{}", operation.path().to_string().replace('/', ".")))
}

/// What makes a definition what it is.
fn essence(definition: &CustomResourceDefinition) -> Value {
    let spec = &definition.spec;
    let strategy = spec.conversion.as_ref().map_or("None", |conversion| &conversion.strategy);
    json!({
        "group": spec.group, "scope": spec.scope, "names": spec.names, "versions": spec.versions, "conversion": { "strategy": strategy },
    })
}

/// The API server leaves out what is empty or nought where that is the default: columns' priorities, say.
fn drop_empty(value: &mut Value) {
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

    fn wanted(plural: &str) -> CustomResourceDefinition {
        kinds::find(plural).unwrap().definition
    }

    fn served(plural: &str) -> CustomResourceDefinition {
        let mut definition = serde_json::to_value(wanted(plural)).unwrap();
        definition["status"] = json!({
            "acceptedNames": definition["spec"]["names"], "storedVersions": [],
            "conditions": [{ "type": "Established", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        });
        definition["spec"]["names"]["listKind"] = json!("Filled in by the API server");
        serde_json::from_value(definition).unwrap()
    }

    fn said(found: Option<CustomResourceDefinition>, plural: &str) -> (State, String) {
        let other = (wanted("nsp"), Some(served("nsp")));
        let found = judge(&[other, (wanted(plural), found)]).findings.remove(0);
        (found.state, format!("{} {}", found.what, found.message))
    }

    #[test]
    fn as_they_are_installed_they_are_fine() {
        assert_eq!(said(Some(served("podset")), "podset").0, State::Ok);
    }

    #[test]
    fn each_fault_is_named() {
        let (state, says) = said(None, "podset");
        assert!(state == State::Error && says.contains("podsets.app.example.com is not there"), "{says}");
        let mut unserved = served("podset");
        unserved.status = None;
        assert!(said(Some(unserved), "podset").1.contains("is not served"));
        let mut older = served("podset");
        older.spec.versions[0].schema = None;
        let (_, says) = said(Some(older), "podset");
        assert!(says.contains("the first difference is at spec.versions.0.schema"), "{says}");
        let (_, says) = said(Some(served("tenant")), "tenant");
        assert!(says.contains("has no caBundle for its conversion"), "{says}");
    }

    #[test]
    fn where_there_is_none_nothing_is_installed() {
        let judged = judge(&[(wanted("podset"), None), (wanted("nsp"), None)]);
        assert!(judged.none_is_there);
        assert!(judged.findings[0].message.contains("Ensemble is not installed"));
    }
}

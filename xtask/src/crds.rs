//! `deploy/crds`: the CustomResourceDefinitions of all controllers.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use local_manager::crds::definitions;

use crate::generate::{Generated, document, sync_folder};

/// Returns a file for each definition.
pub(crate) fn files() -> Result<Vec<Generated>> {
    let file = |crd: &CustomResourceDefinition| {
        Generated::manifest(format!("{}.yaml", crd.name_any()), "gen-crds", &[document(crd)?])
    };
    definitions().iter().map(file).collect()
}

/// Writes `deploy/crds`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut files = files()?;
    files.push(Generated::kustomization("gen-crds", &files));
    sync_folder("deploy/crds", &files, "gen-crds", check)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns the paths of CEL rules about maps or lists of integers or strings.
    fn expensive_rules(schema: &Value, path: &str, found: &mut Vec<String>) {
        let is_int_or_string = |key: &str| schema[key]["x-kubernetes-int-or-string"] == true;
        let has_rules = schema.get("x-kubernetes-validations").is_some();
        if has_rules && ["additionalProperties", "items"].into_iter().any(is_int_or_string) {
            found.push(path.to_owned());
        }
        if let Value::Object(fields) = schema {
            fields.iter().for_each(|(key, value)| expensive_rules(value, &format!("{path}.{key}"), found));
        }
    }

    /// The API server of Kubernetes 1.33 refuses most of them, whatever the limits are.
    #[test]
    fn no_rule_is_about_maps_or_lists_of_integers_or_strings() {
        let mut found = Vec::new();
        for crd in definitions() {
            for version in &crd.spec.versions {
                let schema = serde_json::to_value(&version.schema).unwrap();
                expensive_rules(&schema, &format!("{} {}", crd.name_any(), version.name), &mut found);
            }
        }
        assert!(found.is_empty(), "{found:?}");
        let rule = serde_json::json!({ "additionalProperties": { "x-kubernetes-int-or-string": true }, "x-kubernetes-validations": [] });
        expensive_rules(&serde_json::json!({ "properties": { "quota": rule } }), "kind", &mut found);
        assert_eq!(found, ["kind.properties.quota"]);
    }
}

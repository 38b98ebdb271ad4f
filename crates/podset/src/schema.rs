//! CustomResourceDefinition of PodSet: the derived one, with a shortened and validated Pod template.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    ValidationRule,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::api::PodSet;

/// Pattern of the quantities that the API server accepts.
const QUANTITY: &str = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// Fields of a Pod that hold a quantity or a map of quantities.
const QUANTITIES: [&str; 5] = ["limits", "requests", "overhead", "sizeLimit", "divisor"];

/// Returns the CustomResourceDefinition of PodSet.
///
/// Descriptions of Pod fields keep only their first sentence. With the full text, the definition
/// would be too large for `kubectl apply`, which stores a copy in an annotation of at most 256 KiB.
/// Quantities are validated, because the API server would otherwise reject the Pods later.
pub(crate) fn crd() -> CustomResourceDefinition {
    let mut crd = PodSet::crd();
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let template = root
            .and_then(|root| root.properties.as_mut()?.get_mut("spec"))
            .and_then(|spec| spec.properties.as_mut()?.get_mut("template"));
        if let Some(template) = template {
            template.properties.iter_mut().flatten().for_each(|(name, field)| simplify(name, field));
            validate_as_replica_set(template);
        }
    }
    crd
}

/// Rejects what the API server rejects in the template of a ReplicaSet, as far as a schema can.
///
/// Labels need not match the selector, because a PodSet adds its own. Other errors appear when the
/// Pods are created.
fn validate_as_replica_set(template: &mut JSONSchemaProps) {
    require("spec", template);
    let Some(spec) = property("spec", template) else { return };
    spec.x_kubernetes_validations = Some(vec![
        forbidden(
            "!has(self.activeDeadlineSeconds)",
            ".activeDeadlineSeconds",
            "the Pods of a PodSet run until they are deleted; omit activeDeadlineSeconds, or use a Job",
        ),
        forbidden(
            "!has(self.ephemeralContainers) || size(self.ephemeralContainers) == 0",
            ".ephemeralContainers",
            "a template has no ephemeralContainers; add them to a running Pod with kubectl debug",
        ),
    ]);
    if let Some(policy) = property("restartPolicy", spec) {
        policy.enum_ = Some(vec![JSON(json!("Always"))]);
    }
    if let Some(containers) = property("containers", spec) {
        containers.min_items = Some(1);
    }
    for list in ["containers", "initContainers"] {
        let items = property(list, spec).and_then(|list| list.items.as_mut());
        let Some(JSONSchemaPropsOrArray::Schema(container)) = items else { continue };
        require("image", container);
        if let Some(image) = property("image", container) {
            image.min_length = Some(1);
        }
    }
}

fn property<'a>(name: &str, schema: &'a mut JSONSchemaProps) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

fn require(name: &str, schema: &mut JSONSchemaProps) {
    let required = schema.required.get_or_insert_default();
    if !required.iter().any(|known| known == name) {
        required.push(name.to_owned());
        required.sort();
    }
}

fn forbidden(rule: &str, field_path: &str, message: &str) -> ValidationRule {
    ValidationRule {
        rule: rule.to_owned(),
        message: Some(message.to_owned()),
        reason: Some("FieldValueForbidden".to_owned()),
        field_path: Some(field_path.to_owned()),
        ..ValidationRule::default()
    }
}

/// Shortens descriptions and validates quantities, in this field and all fields below it.
fn simplify(name: &str, schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        *description = first_sentence(description).to_owned();
    }
    if schema.x_kubernetes_int_or_string == Some(true) && QUANTITIES.contains(&name) {
        schema.pattern = Some(QUANTITY.to_owned());
    }
    schema.properties.iter_mut().flatten().for_each(|(name, field)| simplify(name, field));
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        simplify(name, items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        simplify(name, values);
    }
}

fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.find(". ").and_then(|end| line.get(..=end)).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_fits_into_the_annotation_of_kubectl_apply() {
        assert!(serde_json::to_string(&crd()).unwrap().len() < 200 * 1024);
    }

    #[test]
    fn description_keeps_its_first_sentence() {
        assert_eq!(first_sentence("One. Two."), "One.");
        assert_eq!(first_sentence("One\n\nTwo."), "One");
    }
}

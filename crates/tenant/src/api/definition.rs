//! The Tenant's definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

use super::{v1alpha1, v1beta1, v1beta2};

/// The most entries of a list that has no tighter bound: class names, registries, host names and the like. Far more than
/// Tenants have.
const MAX_ITEMS: i64 = 4096;

/// The definition of Tenants in all their versions. It is the derived one, but that in the stored version a Tenant may
/// leave out its whole spec, as the contract has it: the API server then fills in an empty one.
pub(crate) fn crd() -> CustomResourceDefinition {
    let mut crd = v1beta2::Tenant::crd();
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(root) = root {
            may_leave_out_the_spec(root);
        }
    }
    for older in [v1beta1::Tenant::crd(), v1alpha1::Tenant::crd()] {
        crd.spec.versions.extend(older.spec.versions.into_iter().map(|mut version| {
            version.storage = false;
            version
        }));
    }
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(spec) = root.and_then(|root| root.properties.as_mut()?.get_mut("spec")) {
            bound_lists(spec);
        }
    }
    crd
}

/// Bounds every list that is not bounded yet. What a list may hold is converted, compared and put
/// into messages; the status is the manager's own.
fn bound_lists(schema: &mut JSONSchemaProps) {
    if schema.type_.as_deref() == Some("array") {
        schema.max_items.get_or_insert(MAX_ITEMS);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        bound_lists(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        bound_lists(values);
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(bound_lists);
}

fn may_leave_out_the_spec(root: &mut JSONSchemaProps) {
    // The derived schema requires nothing else of the object itself.
    root.required.take_if(|required| required.iter().all(|field| field == "spec"));
    if let Some(spec) = root.properties.as_mut().and_then(|fields| fields.get_mut("spec")) {
        spec.default = Some(JSON(json!({})));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn definition() -> Value {
        serde_json::to_value(crd()).unwrap()
    }

    #[test]
    fn three_versions_are_served_and_one_is_stored() {
        let definition = definition();
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let told: Vec<_> = versions
            .iter()
            .map(|one| (one["name"].as_str().unwrap(), one["served"] == true, one["storage"] == true))
            .collect();
        assert_eq!(told, [("v1beta2", true, true), ("v1beta1", true, false), ("v1alpha1", true, false)]);
        let warnings: Vec<_> = versions.iter().map(|one| one["deprecationWarning"].as_str()).collect();
        assert_eq!(warnings[..2], [None, None]);
        assert!(warnings[2].unwrap().contains("use capsule.clastix.io/v1beta2"));
        assert!(versions.iter().all(|one| one["subresources"]["status"].is_object()));
    }

    #[test]
    fn nothing_is_required_in_the_stored_version() {
        let definition = definition();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(schema["required"].is_null(), "{}", schema["required"]);
        assert_eq!(schema["properties"]["spec"]["default"], json!({}));
    }

    #[test]
    fn an_older_version_requires_its_owners() {
        let definition = definition();
        for (place, owners) in [(1, "owners"), (2, "owner")] {
            let schema = &definition["spec"]["versions"][place]["schema"]["openAPIV3Schema"];
            assert_eq!(schema["required"], json!(["spec"]));
            assert_eq!(schema["properties"]["spec"]["required"], json!([owners]));
        }
    }

    /// The paths of all properties below a schema that have no description.
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if !property["description"].is_string() {
                found.push(path.clone());
            }
            undescribed(property, &path, found);
            undescribed(&property["items"], &path, found);
            undescribed(&property["additionalProperties"], &path, found);
        }
    }

    /// The paths of all lists below a schema that may grow without end.
    fn unbounded(schema: &Value, path: &str, found: &mut Vec<String>) {
        if schema["type"] == "array" && schema["maxItems"].is_null() {
            found.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            unbounded(property, &format!("{path}.{name}"), found);
        }
        unbounded_inside(schema, path, found);
    }

    fn unbounded_inside(schema: &Value, path: &str, found: &mut Vec<String>) {
        for inside in ["items", "additionalProperties"] {
            if schema[inside].is_object() {
                unbounded(&schema[inside], path, found);
            }
        }
    }

    #[test]
    fn every_list_that_is_written_by_people_is_bounded() {
        let (definition, mut found) = (definition(), Vec::new());
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            unbounded(spec, version["name"].as_str().unwrap(), &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn every_field_has_a_description() {
        let (definition, mut found) = (definition(), Vec::new());
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let schema = &version["schema"]["openAPIV3Schema"]["properties"];
            for part in ["spec", "status"] {
                let path = format!("{}.{part}", version["name"].as_str().unwrap());
                undescribed(&schema[part], &path, &mut found);
            }
        }
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn the_definition_is_small_enough_for_a_client_side_apply() {
        let size = definition().to_string().len();
        assert!(size < 200_000, "{size} bytes do not fit into the annotation that kubectl apply keeps");
    }
}

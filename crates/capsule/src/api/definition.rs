//! CustomResourceDefinition of Tenants.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

use super::{v1alpha1, v1beta1, v1beta2};

/// Limit of the number of items in a list that has no stricter limit, such as class names,
/// registries, and host names. Tenants have far fewer items.
const MAX_ITEMS: i64 = 4096;

/// Returns the definition of Tenants in all versions.
///
/// It is the derived definition, except that the spec is optional in the stored version, as in
/// Capsule. The API server defaults it to an empty spec.
pub fn crd() -> CustomResourceDefinition {
    let mut crd = v1beta2::Tenant::crd();
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(root) = root {
            make_spec_optional(root);
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
            limit_lists(spec);
        }
    }
    crd
}

/// Limits every list without a limit. The status has no limits, because only the manager writes it.
fn limit_lists(schema: &mut JSONSchemaProps) {
    if schema.type_.as_deref() == Some("array") {
        schema.max_items.get_or_insert(MAX_ITEMS);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        limit_lists(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        limit_lists(values);
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(limit_lists);
}

fn make_spec_optional(root: &mut JSONSchemaProps) {
    // The derived schema requires no other field of the object.
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
    fn three_versions_are_served_and_v1beta2_is_stored() {
        let definition = definition();
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let flags: Vec<_> = versions
            .iter()
            .map(|one| (one["name"].as_str().unwrap(), one["served"] == true, one["storage"] == true))
            .collect();
        assert_eq!(flags, [("v1beta2", true, true), ("v1beta1", true, false), ("v1alpha1", true, false)]);
        let warnings: Vec<_> = versions.iter().map(|one| one["deprecationWarning"].as_str()).collect();
        assert_eq!(warnings[..2], [None, None]);
        assert!(warnings[2].unwrap().contains("use capsule.clastix.io/v1beta2"));
        assert!(versions.iter().all(|one| one["subresources"]["status"].is_object()));
    }

    #[test]
    fn stored_version_requires_no_field() {
        let definition = definition();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(schema["required"].is_null(), "{}", schema["required"]);
        assert_eq!(schema["properties"]["spec"]["default"], json!({}));
    }

    #[test]
    fn older_versions_require_owners() {
        let definition = definition();
        for (index, owners) in [(1, "owners"), (2, "owner")] {
            let schema = &definition["spec"]["versions"][index]["schema"]["openAPIV3Schema"];
            assert_eq!(schema["required"], json!(["spec"]));
            assert_eq!(schema["properties"]["spec"]["required"], json!([owners]));
        }
    }

    /// Collects the paths of properties without a description.
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

    /// Collects the paths of lists without a limit.
    fn unlimited(schema: &Value, path: &str, found: &mut Vec<String>) {
        if schema["type"] == "array" && schema["maxItems"].is_null() {
            found.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            unlimited(property, &format!("{path}.{name}"), found);
        }
        unlimited_inside(schema, path, found);
    }

    fn unlimited_inside(schema: &Value, path: &str, found: &mut Vec<String>) {
        for inside in ["items", "additionalProperties"] {
            if schema[inside].is_object() {
                unlimited(&schema[inside], path, found);
            }
        }
    }

    #[test]
    fn every_list_in_a_spec_is_limited() {
        let (definition, mut found) = (definition(), Vec::new());
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            unlimited(spec, version["name"].as_str().unwrap(), &mut found);
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
    fn definition_is_small_enough_for_client_side_apply() {
        let size = definition().to_string().len();
        assert!(size < 200_000, "{size} bytes exceed the annotation of a client-side kubectl apply");
    }
}

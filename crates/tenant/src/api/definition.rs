//! The Tenant's definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::json;

use super::v1beta2::Tenant;

/// The definition of Tenants. It is the derived one, but that a Tenant may leave out its whole spec, as the
/// contract has it: the API server then fills in an empty one.
pub(crate) fn crd() -> CustomResourceDefinition {
    let mut crd = Tenant::crd();
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(root) = root {
            may_leave_out_the_spec(root);
        }
    }
    crd
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
    use super::*;

    #[test]
    fn nothing_is_required() {
        let crd = serde_json::to_value(crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(schema["required"].is_null(), "{}", schema["required"]);
        assert_eq!(schema["properties"]["spec"]["default"], json!({}));
    }
}

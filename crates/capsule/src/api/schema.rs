//! Schemas of Kubernetes' own types with additional validation.
//!
//! The types of `k8s_openapi` describe quantities and CIDRs as plain strings. A Tenant copies them
//! into other objects, which the API server validates. Without these rules, an error would be
//! reported only in a condition of the Tenant and not to the client that writes it.
//!
//! Lists and maps have limits, because the API server estimates the cost of a CEL rule from them.

use operator_core::quantity::NON_NEGATIVE_PATTERN;
use schemars::Schema;
use serde_json::{Map, Value, json};

/// Limit of the items in a list of policies, quotas, or limit ranges.
pub(super) const MAX_ITEMS: u32 = 64;
const MAX_RESOURCES: u32 = 32;
const MAX_QUANTITY_LENGTH: u32 = 64;

/// Checks a pattern with the RE2 parser of the API server. A valid pattern evaluates to true or
/// false. An invalid pattern fails with the error of the parser.
pub(super) const IS_PATTERN: &str = "'x'.matches(self) in [true, false]";
/// Message of [`IS_PATTERN`], which follows the error of the parser.
pub(super) const IS_PATTERN_MESSAGE: &str = "unable to compile regex: a pattern must be valid RE2 syntax";

/// Limits the name to the length of a label value.
pub(super) const IS_SHORT_NAME: &str = "self.metadata.name.size() <= 63";
/// Message of [`IS_SHORT_NAME`].
pub(super) const IS_SHORT_NAME_MESSAGE: &str = "the name of a Tenant may have at most 63 characters, \
     because its namespaces and objects have it as a label";

/// Checks the name of an owner that is a ServiceAccount.
pub(super) const IS_ACCOUNT_NAME: &str = "self.kind != 'ServiceAccount' || \
     self.name.matches('^system:serviceaccount:[a-z0-9]([-a-z0-9]*[a-z0-9])?:[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')";
/// Message of [`IS_ACCOUNT_NAME`].
pub(super) const IS_ACCOUNT_NAME_MESSAGE: &str =
    "the name of a ServiceAccount must have the form system:serviceaccount:<namespace>:<name>";

/// Allows the kinds of subjects of a RoleBinding.
pub(super) const ARE_SUBJECTS: &str = "self.all(s, s.kind in ['User', 'Group', 'ServiceAccount'])";
/// Message of [`ARE_SUBJECTS`].
pub(super) const ARE_SUBJECTS_MESSAGE: &str = "the kind of a subject must be User, Group or ServiceAccount";

/// Schema for any JSON value. The conversion distinguishes the shapes of fields that have several.
pub(super) fn any_value(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Schema for a list of objects that preserves unknown fields.
pub(super) fn unstructured_objects(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// Schema for an object that preserves unknown fields.
pub(super) fn unstructured_object(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Limits every list in a schema of Kubernetes' own types, and validates quantities and CIDRs.
pub(super) fn strict(schema: &mut Schema) {
    if let Some(object) = schema.as_object_mut() {
        visit(object);
    }
}

fn visit(schema: &mut Map<String, Value>) {
    if is_list(schema) {
        schema.entry("maxItems").or_insert_with(|| MAX_ITEMS.into());
    }
    if is_quantities(schema) {
        check_quantities(schema);
        return;
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        check_addresses(properties);
        properties.values_mut().filter_map(Value::as_object_mut).for_each(visit);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(Value::Object(nested)) = schema.get_mut(nested) {
            visit(nested);
        }
    }
}

fn is_list(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        _ => false,
    }
}

fn is_quantities(schema: &Map<String, Value>) -> bool {
    schema
        .get("additionalProperties")
        .and_then(|value| value.get("x-kubernetes-int-or-string"))
        .is_some_and(|marked| marked == true)
}

fn check_quantities(schema: &mut Map<String, Value>) {
    schema.insert("maxProperties".into(), MAX_RESOURCES.into());
    schema.insert(
        "additionalProperties".into(),
        json!({
            "description": "Quantity: a number with at most one suffix, such as 10, 500m, 1.5, or 16Gi.",
            "x-kubernetes-int-or-string": true,
            "maxLength": MAX_QUANTITY_LENGTH,
            "pattern": NON_NEGATIVE_PATTERN,
            "minimum": 0,
        }),
    );
}

/// Sets the format `cidr`, which accepts what Go's `net.ParseCIDR` accepts. That includes bits
/// beyond the prefix, which are cleared for a `NetworkPolicy`.
fn check_addresses(properties: &mut Map<String, Value>) {
    let Some(Value::Object(block)) = properties.get_mut("ipBlock") else { return };
    let Some(Value::Object(fields)) = block.get_mut("properties") else { return };
    if let Some(Value::Object(cidr)) = fields.get_mut("cidr") {
        cidr.insert("format".into(), "cidr".into());
    }
    if let Some(Value::Object(items)) = fields.get_mut("except").and_then(|except| except.get_mut("items")) {
        items.insert("format".into(), "cidr".into());
    }
}

/// Validates the values of a map as patterns.
pub(super) fn patterns(schema: &mut Schema) {
    schema.insert("maxProperties".into(), MAX_RESOURCES.into());
    schema.insert("additionalProperties".into(), json!({ "type": "string", "maxLength": 256 }));
    schema.insert(
        "x-kubernetes-validations".into(),
        json!([{
            "rule": "self.all(name, 'x'.matches(self[name]) in [true, false])",
            "message": IS_PATTERN_MESSAGE,
        }]),
    );
}

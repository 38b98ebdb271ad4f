//! Schemas of Kubernetes' own types, made stricter where the API server would otherwise store what nobody can
//! use.
//!
//! The types of `k8s_openapi` describe quantities and CIDRs as plain strings. A Tenant copies them into
//! objects for which the API server does check them, so a mistake would show only in a condition. Here it
//! shows to the person who writes the Tenant. List and map sizes are bounded because the cost of a rule in a
//! CRD is estimated from them.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// How many entries a list of policies, quotas or limit ranges may have.
pub(super) const MAX_ITEMS: u32 = 64;
const MAX_RESOURCES: u32 = 32;
const MAX_QUANTITY_LENGTH: u32 = 64;
/// `isQuantity` is the API server's own parser.
const IS_QUANTITY: &str = "self.all(name, type(self[name]) != string || isQuantity(self[name]))";
const NOT_NEGATIVE: &str = "self.all(name, type(self[name]) == string \
       ? !isQuantity(self[name]) || quantity(self[name]).compareTo(quantity('0')) >= 0 \
       : int(self[name]) >= 0)";

/// The API server's own expressions are RE2. The rule has the value true or false for every pattern it can
/// read, and fails with the parser's words for any other.
pub(super) const IS_PATTERN: &str = "'x'.matches(self) in [true, false]";
/// What follows the parser's words.
pub(super) const IS_PATTERN_MESSAGE: &str = "a pattern must be valid RE2 syntax";

/// Labels have at most 63 characters.
pub(super) const IS_SHORT_NAME: &str = "self.metadata.name.size() <= 63";
/// Says so.
pub(super) const IS_SHORT_NAME_MESSAGE: &str = "the name of a Tenant may have at most 63 characters, \
     since its namespaces and objects carry it as a label";

/// The API server's own name of a ServiceAccount, if the owner is one.
pub(super) const IS_ACCOUNT_NAME: &str = "self.kind != 'ServiceAccount' || \
     self.name.matches('^system:serviceaccount:[a-z0-9]([-a-z0-9]*[a-z0-9])?:[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')";
/// Says so.
pub(super) const IS_ACCOUNT_NAME_MESSAGE: &str =
    "the name of a ServiceAccount must have the form system:serviceaccount:<namespace>:<name>";

/// The kinds that a RoleBinding can name.
pub(super) const ARE_SUBJECTS: &str = "self.all(s, s.kind in ['User', 'Group', 'ServiceAccount'])";
/// Says so.
pub(super) const ARE_SUBJECTS_MESSAGE: &str = "the kind of a subject must be User, Group or ServiceAccount";

/// Either of two shapes, which the conversion tells apart.
pub(super) fn either(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Any JSON value at all.
pub(super) fn anything(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of objects whose fields are kept as they are.
pub(super) fn open_objects(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// One object whose fields are kept as they are.
pub(super) fn open_object(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Bounds every list in a schema of Kubernetes' own types, and checks every map of quantities and every CIDR
/// in it.
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
            "description": "An amount: a number with at most one suffix, such as 10, 500m, 1.5 or 16Gi.",
            "x-kubernetes-int-or-string": true,
            "maxLength": MAX_QUANTITY_LENGTH,
        }),
    );
    let malformed = "every amount must be a quantity: a number such as 2, 0.5 or 100 with at most one suffix \
                     (n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or an exponent such as e3)";
    schema.insert(
        "x-kubernetes-validations".into(),
        json!([
            { "rule": IS_QUANTITY, "message": malformed },
            { "rule": NOT_NEGATIVE, "message": "no amount may be negative" },
        ]),
    );
}

/// The format `cidr` takes what Go's `net.ParseCIDR` takes, so also addresses with bits beyond the prefix:
/// those are made canonical before they go into a `NetworkPolicy`.
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

/// A map whose values are patterns: each must be one that the API server can read.
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

//! Finds the fields of an OpenAPI schema and generates values for them.
//!
//! New fields of a CRD are found automatically. The API server decides whether a value is valid.

use serde_json::{Map, Value, json};

/// Maximum nesting of objects whose fields are set one by one. Deeper objects are set as a whole.
const MAX_DEPTH: usize = 5;
/// Maximum number of values for a schema.
const MAX_VALUES: usize = 96;
/// Strings. Most string fields accept at least one of them.
const TEXTS: [&str; 16] = [
    "alpha",
    "beta",
    "1m",
    "2m",
    "64Mi",
    "128Mi",
    "registry.example.com/alpha:1",
    "registry.example.com/beta:2",
    "https://alpha.example.com/",
    "https://beta.example.com/",
    "10.1.0.0/16",
    "10.2.0.0/16",
    "30s",
    "25%",
    "kubernetes.io/hostname",
    "2030-01-01T00:00:00Z",
];

/// A field and candidate values.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Path of the field.
    pub path: Vec<String>,
    /// Candidate values, the most likely first.
    pub values: Vec<Value>,
}

impl Field {
    /// Returns the path of the field, joined by dots.
    pub fn name(&self) -> String {
        self.path.join(".")
    }

    /// Returns a merge patch that sets or removes the field.
    pub fn patch(&self, value: Option<&Value>) -> Value {
        let innermost = value.cloned().unwrap_or_default();
        self.path.iter().rev().fold(innermost, |inner, name| json!({ name: inner }))
    }
}

/// Returns all fields of an object's schema. The fields of nested objects are listed one by one;
/// lists and maps are single fields.
pub fn fields(schema: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Field>) {
    for (name, property) in properties(schema) {
        path.push(name.clone());
        if path.len() < MAX_DEPTH && properties(property).next().is_some() {
            collect(property, path, found);
        } else {
            found.push(Field { path: path.clone(), values: values(property, path.len()) });
        }
        path.pop();
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Returns candidate values for a schema.
fn values(schema: &Value, depth: usize) -> Vec<Value> {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return choices.iter().filter(|choice| !choice.is_null()).cloned().collect();
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return ["1", "2", "64Mi", "128Mi", "50%"].map(Value::from).into();
    }
    let mut values = match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => vec![json!(true), json!(false)],
        Some("integer" | "number") => numbers(schema),
        Some("string") => TEXTS.map(Value::from).into(),
        Some("array") => lists(schema, depth),
        Some("object") => objects(schema, depth),
        _ => Vec::new(),
    };
    values.truncate(MAX_VALUES);
    values
}

fn numbers(schema: &Value) -> Vec<Value> {
    let bound = |name| schema.get(name).and_then(Value::as_f64);
    #[allow(clippy::cast_possible_truncation, reason = "bounds of fields are small")]
    let whole = |number: f64| number as i64;
    let least = bound("minimum").map_or(1, whole);
    let most = bound("maximum").map_or_else(|| least.saturating_add(1_000), whole);
    let middle = least.midpoint(most);
    let mut numbers = vec![least, least.saturating_add(1).min(most), middle, 1024.clamp(least, most), most];
    numbers.dedup();
    numbers.into_iter().map(Value::from).collect()
}

fn lists(schema: &Value, depth: usize) -> Vec<Value> {
    let items = schema.get("items").map(|items| values(items, depth + 1)).unwrap_or_default();
    let single = items.iter().map(|item| json!([item]));
    let pair = items.windows(2).take(1).map(|pair| json!(pair));
    single.chain(pair).collect()
}

/// Returns objects with the required fields, then with one optional field each, then with several.
fn objects(schema: &Value, depth: usize) -> Vec<Value> {
    if let Some(entries) = schema.get("additionalProperties").filter(|entries| entries.is_object()) {
        let names = ["cpu", "memory", "pods", "example.com/alpha", "alpha"];
        let values = values(entries, depth + 1);
        let pairs = names.iter().flat_map(|name| values.iter().take(3).map(move |value| (*name, value)));
        return pairs.map(|(name, value)| json!({ name: value })).collect();
    }
    if depth > MAX_DEPTH + 3 {
        return vec![json!({})];
    }
    let required: Vec<_> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let candidates: Vec<_> =
        properties(schema).map(|(name, property)| (name, values(property, depth + 1))).collect();
    // // Tries several values for the required fields.
    let filled = |place: usize| -> Map<String, Value> {
        let needed = candidates.iter().filter(|(name, _)| required.contains(&name.as_str()));
        needed
            .filter_map(|(name, values)| {
                let value = values.get(place % values.len().max(1))?;
                Some(((*name).clone(), value.clone()))
            })
            .collect()
    };
    let mut objects: Vec<Value> = (0..TEXTS.len()).map(|place| Value::Object(filled(place))).collect();
    for (name, values) in candidates.iter().filter(|(name, _)| !required.contains(&name.as_str())) {
        // // With the first strings, and with addresses.
        for (place, value) in
            [0, 8].into_iter().flat_map(|place| values.iter().take(2).map(move |value| (place, value)))
        {
            let mut object = filled(place);
            object.insert((*name).clone(), value.clone());
            objects.push(Value::Object(object));
        }
    }
    objects.dedup();
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "properties": {
            "size": { "type": "integer", "minimum": 0, "maximum": 3 },
            "policy": { "type": "string", "enum": ["Keep", "Drop"] },
            "inner": { "type": "object", "properties": { "on": { "type": "boolean" } } },
            "list": { "type": "array", "items": {
                "type": "object", "required": ["name"],
                "properties": { "name": { "type": "string" }, "flag": { "type": "boolean" } },
            } },
            "amounts": { "type": "object", "additionalProperties": { "x-kubernetes-int-or-string": true } },
        } })
    }

    fn field(name: &str) -> Field {
        fields(&schema()).into_iter().find(|field| field.name() == name).unwrap()
    }

    #[test]
    fn finds_every_field_with_values_of_its_type() {
        let names: Vec<_> = fields(&schema()).iter().map(Field::name).collect();
        assert_eq!(names, ["amounts", "inner.on", "list", "policy", "size"]);
        assert_eq!(field("size").values, [json!(0), json!(1), json!(3)]);
        assert_eq!(field("policy").values, [json!("Keep"), json!("Drop")]);
        assert!(field("list").values.contains(&json!([{ "name": "alpha" }])));
        assert!(field("list").values.contains(&json!([{ "name": "alpha", "flag": true }])));
        assert!(field("amounts").values.contains(&json!({ "cpu": "1" })));
    }

    #[test]
    fn patch_sets_or_removes_field() {
        assert_eq!(field("inner.on").patch(Some(&json!(true))), json!({ "inner": { "on": true } }));
        assert_eq!(field("inner.on").patch(None), json!({ "inner": { "on": null } }));
    }
}

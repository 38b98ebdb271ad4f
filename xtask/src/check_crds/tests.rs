//! Each rule on a definition with one change.

use serde_json::{Value, json};

use super::{definition::breaking_changes, newest};

/// Returns a definition with two versions.
fn definition() -> Value {
    let schema = json!({ "openAPIV3Schema": {
        "type": "object",
        "required": ["spec"],
        "properties": { "spec": {
            "type": "object",
            "x-kubernetes-validations": [{ "rule": "self.size > 0", "message": "too small" }],
            "properties": {
                "size": { "type": "integer", "minimum": 0, "maximum": 9 },
                "mode": { "type": "string", "enum": ["a", "b"], "maxLength": 5, "nullable": true, "default": "a" },
                "tags": { "type": "object", "additionalProperties": { "type": "string", "maxLength": 3 } },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "list": {
                    "type": "array", "maxItems": 4, "x-kubernetes-list-type": "set",
                    "items": { "type": "string", "pattern": "^a", "minLength": 1 },
                },
            },
        } },
    } });
    json!({ "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": { "kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList", "shortNames": ["th"] },
        "versions": [
            { "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": { "status": {} } },
            { "name": "v1beta1", "served": true, "storage": false, "schema": schema },
        ],
    } })
}

const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// Returns the breaking changes of a definition with one change.
fn changed(path: &str, value: Option<Value>) -> Vec<String> {
    let mut new = definition();
    let (parent, field) = path.rsplit_once('/').unwrap();
    let parent = new.pointer_mut(parent).expect(path);
    match (parent, value) {
        (Value::Array(list), None) => drop(list.remove(field.parse().unwrap())),
        (Value::Object(fields), None) => assert!(fields.remove(field).is_some(), "{path}"),
        (parent, Some(value)) => parent[field] = value,
        (other, None) => panic!("{other} has no fields"),
    }
    breaking_changes("things.example.com", &definition(), Some(&new))
}

fn in_spec(path: &str, value: Option<Value>) -> Vec<String> {
    changed(&format!("{SPEC}/{path}"), value)
}

fn assert_one(changes: &[String], expected: &str) {
    assert!(changes.len() == 1 && changes[0].contains(expected), "expected {expected:?}, got {changes:#?}");
}

#[test]
fn accepts_unchanged_definition() {
    assert_eq!(breaking_changes("things.example.com", &definition(), Some(&definition())), [] as [String; 0]);
}

#[test]
fn rejects_changed_names_and_scope() {
    assert_one(&breaking_changes("things.example.com", &definition(), None), "the definition was removed");
    assert_one(
        &changed("/spec/scope", Some(json!("Cluster"))),
        "the scope changed from Namespaced to Cluster",
    );
    assert_one(&changed("/spec/group", Some(json!("example.org"))), "the group changed from example.com");
    for (field, what) in
        [("kind", "kind"), ("plural", "plural"), ("singular", "singular"), ("listKind", "list kind")]
    {
        assert_one(
            &changed(&format!("/spec/names/{field}"), Some(json!("other"))),
            &format!("the {what} changed"),
        );
    }
    assert_one(&changed("/spec/names/shortNames", Some(json!([]))), "the short name th was removed");
}

#[test]
fn rejects_removed_versions_and_unserved_storage_version() {
    assert_one(&changed("/spec/versions/1", None), "v1beta1: the version was removed");
    assert_one(
        &changed("/spec/versions/1/served", Some(json!(false))),
        "v1beta1: the version is no longer served",
    );
    assert_one(&changed("/spec/versions/0/subresources", None), "v1: the subresource status was removed");
    let mut other = definition();
    other["spec"]["versions"][0]["storage"] = json!(false);
    other["spec"]["versions"][1]["storage"] = json!(true);
    assert_eq!(
        breaking_changes("things", &definition(), Some(&other)),
        [] as [String; 0],
        "both versions were served"
    );
    other["spec"]["versions"][0]["served"] = json!(false);
    let changes = breaking_changes("things", &definition(), Some(&other));
    assert!(changes.iter().any(|change| change.contains("and v1 is no longer served")), "{changes:#?}");
    let mut new = definition();
    let mut v2 = new["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().unwrap().push(v2);
    assert_one(
        &breaking_changes("things", &definition(), Some(&new)),
        "which the last release does not serve: rollback is impossible",
    );
}

#[test]
fn rejects_removed_fields_and_changed_types() {
    assert_one(&in_spec("properties/size", None), ".spec.size: the field was removed");
    assert_one(
        &in_spec("properties/size/type", Some(json!("string"))),
        "v1 .spec.size: the type changed from integer to string",
    );
    assert_eq!(in_spec("properties/size/type", Some(json!("number"))), [] as [String; 0]);
    assert_one(
        &in_spec("properties/list/items/type", Some(json!("object"))),
        ".spec.list[]: the type changed from string",
    );
    assert_one(&in_spec("properties/free/x-kubernetes-preserve-unknown-fields", None), "no longer preserved");
    assert_one(&in_spec("properties/tags/additionalProperties", None), "arbitrary keys and values");
    assert_one(
        &in_spec("properties/tags/additionalProperties/maxLength", Some(json!(2))),
        ".spec.tags.*: maxLength",
    );
    assert_one(
        &in_spec("properties/list/x-kubernetes-list-type", Some(json!("atomic"))),
        "list-type changed from set",
    );
}

#[test]
fn rejects_required_field_without_default() {
    assert_one(&in_spec("required", Some(json!(["size"]))), ".spec.size: the field became required");
    let changes = in_spec("properties/more", Some(json!({ "type": "string", "maxLength": 1 })));
    assert_eq!(changes, [] as [String; 0], "a new field can have limits");
    let mut new = definition();
    let spec = new.pointer_mut(SPEC).unwrap();
    spec["properties"]["more"] = json!({ "type": "string", "default": "x" });
    spec["required"] = json!(["more"]);
    assert_eq!(
        breaking_changes("things", &definition(), Some(&new)),
        [] as [String; 0],
        "the field has a default"
    );
}

#[test]
fn rejects_changed_and_removed_defaults() {
    let at = ".spec.mode: default changed from a to ";
    assert_one(&in_spec("properties/mode/default", Some(json!("b"))), &format!("{at}b"));
    assert_one(&in_spec("properties/mode/default", None), &format!("{at}not set"));
    assert_eq!(in_spec("properties/size/default", Some(json!(1))), [] as [String; 0]);
}

#[test]
fn accepts_looser_limits_only() {
    for (path, tighter, looser) in [
        ("properties/size/minimum", json!(1), json!(-1)),
        ("properties/size/maximum", json!(8), json!(10)),
        ("properties/mode/maxLength", json!(4), json!(6)),
        ("properties/list/maxItems", json!(3), json!(5)),
        ("properties/list/items/minLength", json!(2), json!(0)),
        ("properties/mode/nullable", json!(false), json!(true)),
    ] {
        let keyword = path.rsplit_once('/').unwrap().1;
        assert_one(&in_spec(path, Some(tighter)), &format!("{keyword} changed"));
        assert_eq!(in_spec(path, Some(looser)), [] as [String; 0], "{path}");
    }
    for (path, value) in [
        ("properties/list/minItems", json!(1)),
        ("properties/tags/maxProperties", json!(1)),
        ("properties/mode/format", json!("date")),
        ("properties/list/uniqueItems", json!(true)),
        ("properties/list/items/pattern", json!("^b")),
        ("properties/size/enum", json!([1])),
    ] {
        assert_one(&in_spec(path, Some(value)), "values that were valid are rejected");
    }
    assert_eq!(in_spec("properties/list/items/pattern", None), [] as [String; 0]);
    assert_one(&in_spec("properties/mode/enum", Some(json!(["a", "c"]))), "the value b is no longer valid");
    assert_one(&in_spec("properties/size/anyOf", Some(json!([{}]))), "anyOf was added or changed");
}

#[test]
fn accepts_removed_rules_only() {
    let rules = |rules: &[&str]| {
        let rules: Vec<_> = rules.iter().map(|rule| json!({ "rule": rule })).collect();
        in_spec("x-kubernetes-validations", Some(json!(rules)))
    };
    assert_eq!(rules(&[]), [] as [String; 0]);
    assert_eq!(rules(&["self.size > 0"]), [] as [String; 0], "the message is not part of the rule");
    assert_one(&rules(&["self.size > 0", "self.size < 5"]), ".spec: the rule self.size < 5 was added");
}

#[test]
fn compares_with_newest_release() {
    let folder = tempfile::tempdir().unwrap();
    let error = newest(folder.path()).unwrap_err().to_string();
    assert!(error.contains("contains no release"), "{error}");
    for version in ["0.9.0", "0.10.0", "0.2.1"] {
        std::fs::create_dir(folder.path().join(version)).unwrap();
    }
    assert!(newest(folder.path()).unwrap().1.ends_with("0.10.0"));
    std::fs::create_dir(folder.path().join("latest")).unwrap();
    assert!(newest(folder.path()).unwrap_err().to_string().contains("such as 1.2.3"));
}

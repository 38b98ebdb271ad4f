//! Each rule, on a definition with one change.

use serde_json::{Value, json};

use super::{definition::breaks, newest};

/// A definition of two versions.
fn definition() -> Value {
    let schema = json!({ "openAPIV3Schema": {
        "type": "object",
        "required": ["spec"],
        "properties": { "spec": {
            "type": "object",
            "x-kubernetes-validations": [{ "rule": "self.size > 0", "message": "too small" }],
            "properties": {
                "size": { "type": "integer", "minimum": 0, "maximum": 9 },
                "mode": { "type": "string", "enum": ["a", "b"], "maxLength": 5, "nullable": true },
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

/// What is wrong with a definition that differs in one place.
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
    breaks("things.example.com", &definition(), Some(&new))
}

fn in_spec(path: &str, value: Option<Value>) -> Vec<String> {
    changed(&format!("{SPEC}/{path}"), value)
}

fn assert_one(told: &[String], words: &str) {
    assert!(told.len() == 1 && told[0].contains(words), "expected {words:?}, told: {told:#?}");
}

#[test]
fn what_is_the_same_is_taken() {
    assert_eq!(breaks("things.example.com", &definition(), Some(&definition())), [] as [String; 0]);
}

#[test]
fn a_definition_keeps_its_names_and_scope() {
    assert_one(&breaks("things.example.com", &definition(), None), "the definition is gone");
    assert_one(&changed("/spec/scope", Some(json!("Cluster"))), "the scope was Namespaced and is Cluster");
    assert_one(&changed("/spec/group", Some(json!("example.org"))), "the group was example.com");
    for (field, what) in
        [("kind", "kind"), ("plural", "plural"), ("singular", "singular"), ("listKind", "kind of lists")]
    {
        assert_one(
            &changed(&format!("/spec/names/{field}"), Some(json!("other"))),
            &format!("the {what} was"),
        );
    }
    assert_one(&changed("/spec/names/shortNames", Some(json!([]))), "the short name th is gone");
}

#[test]
fn versions_are_served_on_and_stored_so_that_there_is_a_way_back() {
    assert_one(&changed("/spec/versions/1", None), "v1beta1: the version is gone");
    assert_one(
        &changed("/spec/versions/1/served", Some(json!(false))),
        "v1beta1: the version is no longer served",
    );
    assert_one(&changed("/spec/versions/0/subresources", None), "v1: the subresource status is gone");
    let mut other = definition();
    other["spec"]["versions"][0]["storage"] = json!(false);
    other["spec"]["versions"][1]["storage"] = json!(true);
    assert_eq!(breaks("things", &definition(), Some(&other)), [] as [String; 0], "both were served");
    other["spec"]["versions"][0]["served"] = json!(false);
    let told = breaks("things", &definition(), Some(&other));
    assert!(
        told.iter().any(|told| told.contains("no longer as v1, which is not served either")),
        "{told:#?}"
    );
    let mut new = definition();
    let mut v2 = new["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().unwrap().push(v2);
    assert_one(
        &breaks("things", &definition(), Some(&new)),
        "which the last release does not serve: no way back",
    );
}

#[test]
fn fields_stay_and_keep_their_types() {
    assert_one(&in_spec("properties/size", None), ".spec.size: the field is gone");
    assert_one(
        &in_spec("properties/size/type", Some(json!("string"))),
        "v1 .spec.size: the type was integer and is string",
    );
    assert_eq!(in_spec("properties/size/type", Some(json!("number"))), [] as [String; 0]);
    assert_one(
        &in_spec("properties/list/items/type", Some(json!("object"))),
        ".spec.list[]: the type was string",
    );
    assert_one(&in_spec("properties/free/x-kubernetes-preserve-unknown-fields", None), "no longer kept");
    assert_one(&in_spec("properties/tags/additionalProperties", None), "keys and values of people's own");
    assert_one(
        &in_spec("properties/tags/additionalProperties/maxLength", Some(json!(2))),
        ".spec.tags.*: maxLength",
    );
    assert_one(
        &in_spec("properties/list/x-kubernetes-list-type", Some(json!("atomic"))),
        "list-type was set",
    );
}

#[test]
fn a_field_is_not_required_all_at_once() {
    assert_one(&in_spec("required", Some(json!(["size"]))), ".spec.size: the field is required and was not");
    let told = in_spec("properties/more", Some(json!({ "type": "string", "maxLength": 1 })));
    assert_eq!(told, [] as [String; 0], "a new field may have limits");
    let mut new = definition();
    let spec = new.pointer_mut(SPEC).unwrap();
    spec["properties"]["more"] = json!({ "type": "string", "default": "x" });
    spec["required"] = json!(["more"]);
    assert_eq!(breaks("things", &definition(), Some(&new)), [] as [String; 0], "it has a default");
}

#[test]
fn limits_are_loosened_and_never_tightened() {
    for (path, tighter, looser) in [
        ("properties/size/minimum", json!(1), json!(-1)),
        ("properties/size/maximum", json!(8), json!(10)),
        ("properties/mode/maxLength", json!(4), json!(6)),
        ("properties/list/maxItems", json!(3), json!(5)),
        ("properties/list/items/minLength", json!(2), json!(0)),
        ("properties/mode/nullable", json!(false), json!(true)),
    ] {
        let keyword = path.rsplit_once('/').unwrap().1;
        assert_one(&in_spec(path, Some(tighter)), &format!("{keyword} was"));
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
        assert_one(&in_spec(path, Some(value)), "values that were taken are refused");
    }
    assert_eq!(in_spec("properties/list/items/pattern", None), [] as [String; 0]);
    assert_one(&in_spec("properties/mode/enum", Some(json!(["a", "c"]))), "the value b is no longer taken");
    assert_one(&in_spec("properties/size/anyOf", Some(json!([{}]))), "anyOf is new or has changed");
}

#[test]
fn rules_go_and_do_not_come() {
    let rules = |rules: &[&str]| {
        let rules: Vec<_> = rules.iter().map(|rule| json!({ "rule": rule })).collect();
        in_spec("x-kubernetes-validations", Some(json!(rules)))
    };
    assert_eq!(rules(&[]), [] as [String; 0]);
    assert_eq!(rules(&["self.size > 0"]), [] as [String; 0], "other words are no other rule");
    assert_one(&rules(&["self.size > 0", "self.size < 5"]), ".spec: the rule self.size < 5 is new");
}

#[test]
fn the_newest_release_counts() {
    let folder = tempfile::tempdir().unwrap();
    let error = newest(folder.path()).unwrap_err().to_string();
    assert!(error.contains("holds no release"), "{error}");
    for version in ["0.9.0", "0.10.0", "0.2.1"] {
        std::fs::create_dir(folder.path().join(version)).unwrap();
    }
    assert!(newest(folder.path()).unwrap().1.ends_with("0.10.0"));
    std::fs::create_dir(folder.path().join("latest")).unwrap();
    assert!(newest(folder.path()).unwrap_err().to_string().contains("such as 1.2.3"));
}

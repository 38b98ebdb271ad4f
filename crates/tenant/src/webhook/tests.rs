use k8s_openapi::api::authentication::v1::UserInfo;
use kube::CustomResourceExt;
use operator_core::{
    admission::{Reason, faults},
    register,
};
use serde_json::{Value, json};

use super::*;
use crate::TenantController;

fn tenant(spec: Value) -> Tenant {
    serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap()
}

fn request(operation: Operation, old: Option<Value>, new: Option<Value>) -> Request<Tenant> {
    Request {
        operation,
        name: "oil".to_owned(),
        namespace: None,
        subresource: None,
        resource: "tenants".to_owned(),
        group: "capsule.clastix.io".to_owned(),
        user: UserInfo::default(),
        dry_run: false,
        old: old.map(tenant),
        new: new.map(tenant),
        options: Value::Null,
    }
}

fn create(spec: Value) -> Verdict {
    judge(&request(Operation::Create, None, Some(spec)))
}

fn update(old: Value, new: Value) -> Verdict {
    judge(&request(Operation::Update, Some(old), Some(new)))
}

fn message(verdict: &Verdict) -> &str {
    verdict.denial.as_ref().map_or("", |denial| denial.message.as_str())
}

/// The paths of all fields of the definition that hold patterns, and what is at their ends.
fn pattern_fields(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if name == "requiredMetadata" {
            for map in ["labels", "annotations"] {
                found.push([path.as_slice(), &[map.to_owned(), "key".to_owned()]].concat());
            }
        } else if property["x-kubernetes-validations"].to_string().contains("'x'.matches(self)") {
            found.push(path.clone());
        } else {
            pattern_fields(property, path, found);
        }
        path.pop();
    }
}

/// A spec with nothing but this in it.
fn spec_with(path: &[String], value: &str) -> Value {
    path.iter().rev().fold(json!(value), |inner, name| json!({ name: inner }))
}

fn all_pattern_fields() -> Vec<Vec<String>> {
    let crd = serde_json::to_value(Tenant::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut found = Vec::new();
    pattern_fields(schema, &mut Vec::new(), &mut found);
    found
}

#[test]
fn cve_2026_61794_each_pattern_of_the_definition_is_checked_by_itself_and_told_by_its_own_path() {
    let fields = all_pattern_fields();
    assert!(fields.len() >= 14, "{fields:?}");
    for path in fields {
        let bad = spec_with(&path, "(unclosed");
        let good = spec_with(&path, "^closed$");
        let told = match path.as_slice() {
            [before @ .., key] if before.iter().any(|name| name == "requiredMetadata") => {
                format!("spec.{}[{key}]: ", before.join("."))
            }
            path => format!("spec.{}: ", path.join(".")),
        };
        let verdict = create(bad.clone());
        assert!(message(&verdict).starts_with(&told), "{} should begin with {told}", message(&verdict));
        assert!(message(&verdict).ends_with("unclosed group"), "{}", message(&verdict));
        assert_eq!(verdict.denial.as_ref().unwrap().reason, Reason::Invalid);
        assert_eq!(update(json!({}), bad).denial, verdict.denial);
        assert_eq!(create(good).denial, None);
    }
}

#[test]
fn cve_2026_61795_an_update_is_judged_by_what_the_tenant_is_to_become() {
    for path in all_pattern_fields() {
        let (bad, good) = (spec_with(&path, "(unclosed"), spec_with(&path, "^closed$"));
        assert!(update(good.clone(), bad.clone()).denial.is_some(), "{path:?}");
        assert_eq!(update(bad, good).denial, None, "{path:?}");
    }
}

/// What `""` means in each field that holds a pattern: nothing. What is left of a list without one is an empty list,
/// and a key that is required may have any value.
#[test]
fn an_empty_pattern_is_absent_in_every_field() {
    for path in all_pattern_fields() {
        let empty = spec_with(&path, "");
        assert_eq!(create(empty.clone()).denial, None, "{path:?}");
        let is_required = path.iter().any(|name| name == "requiredMetadata");
        let [before @ .., _] = path.as_slice() else { panic!("{path:?}") };
        let without = before.iter().rev().fold(json!({}), |inner, name| json!({ name: inner }));
        let fields = |spec: Value| unsupported_fields::fields(&serde_json::from_value(spec).unwrap());
        if !is_required {
            assert_eq!(fields(empty), fields(without), "{path:?}");
        }
    }
}

#[test]
fn every_bad_pattern_is_told_at_once() {
    let verdict = create(json!({
        "storageClasses": { "allowedRegex": "[" }, "containerRegistries": { "allowedRegex": "\\Qa\\E" },
    }));
    assert!(message(&verdict).contains("spec.storageClasses.allowedRegex: "), "{}", message(&verdict));
    assert!(message(&verdict).contains("spec.containerRegistries.allowedRegex: "), "{}", message(&verdict));
}

#[test]
fn a_pattern_that_grows_too_large_is_refused() {
    let verdict = create(json!({ "storageClasses": { "allowedRegex": "(\\pL{100}){100}" } }));
    assert!(message(&verdict).contains("it is too large"), "{}", message(&verdict));
}

#[test]
fn what_the_api_server_would_refuse_in_other_objects_is_refused_in_the_tenant() {
    let bad = || json!({ "serviceOptions": { "additionalMetadata": { "labels": { "bad key!": "a" } } } });
    let verdict = create(bad());
    assert!(
        message(&verdict)
            .starts_with("spec.serviceOptions.additionalMetadata.labels[bad key!]: a key must be"),
        "{}",
        message(&verdict)
    );
    assert_eq!(verdict.denial.as_ref().unwrap().reason, Reason::Invalid);
    assert_eq!(update(json!({}), bad()).denial, verdict.denial);
    assert_eq!(update(bad(), json!({})).denial, None);
    // One that is stored with faults can be changed elsewhere, and gets no others.
    let mut changed = bad();
    changed["preventDeletion"] = true.into();
    assert_eq!(update(bad(), changed.clone()).denial, None);
    changed["nodeSelector"] = json!({ "a b": "c" });
    assert!(message(&update(bad(), changed)).starts_with("spec.nodeSelector[a b]: "));
    let many: Value =
        (0..40).map(|at| (format!("bad key {at}"), json!("a"))).collect::<serde_json::Map<_, _>>().into();
    let verdict = create(json!({ "nodeSelector": many }));
    assert!(message(&verdict).ends_with("; and 24 more faults"), "{}", message(&verdict));
}

#[test]
fn what_was_stored_before_stays_usable_while_the_spec_does_not_change() {
    let bad = json!({ "storageClasses": { "allowedRegex": "(" } });
    assert_eq!(update(bad.clone(), bad), Verdict::allow());
}

#[test]
fn free_data_is_nobodys_pattern() {
    assert_eq!(create(json!({ "data": { "nameRegex": "(" } })).denial, None);
}

#[test]
fn a_protected_tenant_is_not_deleted() {
    let delete = |spec| judge(&request(Operation::Delete, Some(spec), None));
    let verdict = delete(json!({ "preventDeletion": true }));
    assert!(message(&verdict).contains("set spec.preventDeletion to false"), "{}", message(&verdict));
    assert_eq!(verdict.denial.unwrap().reason, Reason::Forbidden);
    assert_eq!(delete(json!({})), Verdict::allow());
}

#[test]
fn fields_that_nothing_enforces_yet_are_warned_of() {
    let verdict = create(json!({ "cordoned": true, "preventDeletion": true }));
    assert_eq!(verdict.denial, None);
    assert_eq!(verdict.warnings, ["spec.cordoned is set, and not enforced by this version of the manager"]);
}

#[test]
fn the_declaration_has_no_fault() {
    assert_eq!(faults(&register::<TenantController>()), [""; 0]);
}

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::CustomResourceExt;
use operator_core::{admission::Reason, manifests::validate_webhooks, register};
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
    validate(&request(Operation::Create, None, Some(spec)))
}

fn update(old: Value, new: Value) -> Verdict {
    validate(&request(Operation::Update, Some(old), Some(new)))
}

fn message(verdict: &Verdict) -> &str {
    verdict.denial.as_ref().map_or("", |denial| denial.message.as_str())
}

/// Collects the paths of all pattern fields of the CRD.
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

/// Returns a spec with only this field.
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
fn cve_2026_61794_validates_every_pattern_field_and_reports_its_path() {
    let fields = all_pattern_fields();
    assert!(fields.len() >= 14, "{fields:?}");
    for path in fields {
        let bad = spec_with(&path, "(unclosed");
        let good = spec_with(&path, "^closed$");
        let expected = match path.as_slice() {
            [before @ .., key] if before.iter().any(|name| name == "requiredMetadata") => {
                format!("spec.{}[{key}]: ", before.join("."))
            }
            path => format!("spec.{}: ", path.join(".")),
        };
        let verdict = create(bad.clone());
        assert!(message(&verdict).starts_with(&expected), "{}, expected {expected}", message(&verdict));
        assert!(message(&verdict).ends_with("unclosed group"), "{}", message(&verdict));
        assert_eq!(verdict.denial.as_ref().unwrap().reason, Reason::Invalid);
        assert_eq!(update(json!({}), bad).denial, verdict.denial);
        assert_eq!(create(good).denial, None);
    }
}

#[test]
fn cve_2026_61795_validates_the_new_tenant_of_an_update() {
    for path in all_pattern_fields() {
        let (bad, good) = (spec_with(&path, "(unclosed"), spec_with(&path, "^closed$"));
        assert!(update(good.clone(), bad.clone()).denial.is_some(), "{path:?}");
        assert_eq!(update(bad, good).denial, None, "{path:?}");
    }
}

/// A list with only an empty pattern equals an empty list. A required key with an empty pattern may
/// have any value.
#[test]
fn treats_empty_pattern_as_unset_in_every_field() {
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
fn reports_all_invalid_patterns_together() {
    let verdict = create(json!({
        "storageClasses": { "allowedRegex": "[" }, "containerRegistries": { "allowedRegex": "\\Qa\\E" },
    }));
    assert!(message(&verdict).contains("spec.storageClasses.allowedRegex: "), "{}", message(&verdict));
    assert!(message(&verdict).contains("spec.containerRegistries.allowedRegex: "), "{}", message(&verdict));
}

#[test]
fn rejects_pattern_that_compiles_too_large() {
    let verdict = create(json!({ "storageClasses": { "allowedRegex": "(\\pL{100}){100}" } }));
    assert!(message(&verdict).contains("it is too large"), "{}", message(&verdict));
}

#[test]
fn rejects_values_that_the_api_server_rejects_in_other_objects() {
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
    // A stored Tenant with errors can be changed elsewhere, but gets no new errors.
    let mut changed = bad();
    changed["preventDeletion"] = true.into();
    assert_eq!(update(bad(), changed.clone()).denial, None);
    changed["nodeSelector"] = json!({ "a b": "c" });
    assert!(message(&update(bad(), changed)).starts_with("spec.nodeSelector[a b]: "));
    let many: Value =
        (0..40).map(|at| (format!("bad key {at}"), json!("a"))).collect::<serde_json::Map<_, _>>().into();
    let verdict = create(json!({ "nodeSelector": many }));
    assert!(message(&verdict).ends_with("; and 24 more errors"), "{}", message(&verdict));
}

#[test]
fn allows_update_of_invalid_tenant_with_unchanged_spec() {
    let bad = json!({ "storageClasses": { "allowedRegex": "(" } });
    assert_eq!(update(bad.clone(), bad), Verdict::allow());
}

#[test]
fn does_not_validate_patterns_in_data() {
    assert_eq!(create(json!({ "data": { "nameRegex": "(" } })).denial, None);
}

#[test]
fn denies_deletion_of_protected_tenant() {
    let delete = |spec| validate(&request(Operation::Delete, Some(spec), None));
    let verdict = delete(json!({ "preventDeletion": true }));
    assert!(message(&verdict).contains("set spec.preventDeletion to false"), "{}", message(&verdict));
    assert_eq!(verdict.denial.unwrap().reason, Reason::Forbidden);
    assert_eq!(delete(json!({})), Verdict::allow());
}

#[test]
fn warns_about_fields_that_are_not_enforced() {
    let verdict = create(json!({ "rules": [{ "quota": [{ "name": "a" }] }], "cordoned": true }));
    assert_eq!(verdict.denial, None);
    let warning = "spec.rules is set, but this version of the manager does not enforce it";
    assert_eq!(verdict.warnings, [warning]);
}

#[test]
fn validates_annotations_that_limit_objects() {
    let with = |limit: &str| {
        let mut tenant = tenant(json!({}));
        let key = "quota.resources.capsule.clastix.io/foos.example.com_v1".to_owned();
        tenant.metadata.annotations = Some([(key, limit.to_owned())].into());
        tenant
    };
    let mut review = request(Operation::Create, None, Some(json!({})));
    review.new = Some(with("3"));
    let verdict = validate(&review);
    assert_eq!(verdict.denial, None);
    assert!(verdict.warnings[0].contains("use spec.resourceQuotas with count/<plural>.<group>"));
    review.new = Some(with("many"));
    assert!(message(&validate(&review)).contains("the value must be a number"));
    // A Tenant with an invalid annotation can still be changed.
    review.old = Some(with("many"));
    review.operation = Operation::Update;
    assert_eq!(validate(&review).denial, None);
}

#[test]
fn webhook_declarations_are_valid() {
    assert_eq!(validate_webhooks(&register::<TenantController>()), [""; 0]);
}

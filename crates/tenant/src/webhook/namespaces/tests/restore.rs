//! What is put back instead of refused.

use super::*;

const LEVEL: &str = "pod-security.kubernetes.io/enforce";
const VERSION: &str = "pod-security.kubernetes.io/enforce-version";

fn restricted() -> Arc<Tenant> {
    let given = json!({ "labels": { LEVEL: "restricted" }, "annotations": { "note": "x" } });
    tenant("oil", json!({ "namespaceOptions": { "additionalMetadata": given } }))
}

fn people(role: Role) -> Facts {
    facts(role, &[restricted()], &[tenant("gas", json!({}))])
}

/// A namespace of the Tenant with all that it gives, and something of its own.
fn complete() -> Namespace {
    let labels = json!({ KEY: "oil", LEVEL: "restricted", "team": "a" });
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9" });
    let metadata = json!({
        "labels": labels, "annotations": { "note": "x" }, "ownerReferences": [reference("oil"), other],
    });
    namespace("dev", metadata)
}

fn with(change: impl FnOnce(&mut Namespace)) -> Namespace {
    let mut changed = complete();
    change(&mut changed);
    changed
}

fn label(one: &mut Namespace, key: &str, value: Option<&str>) {
    let labels = one.metadata.labels.as_mut().unwrap();
    match value {
        Some(value) => drop(labels.insert(key.to_owned(), value.to_owned())),
        None => drop(labels.remove(key)),
    }
}

fn reference_to(one: &mut Namespace) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
    &mut one.metadata.owner_references.as_mut().unwrap()[0]
}

#[test]
fn what_a_whole_manifest_leaves_out_is_put_back_with_a_warning() {
    let manifest = namespace("dev", json!({ "labels": { "team": "b" } }));
    for role in [Role::CapsuleUser, Role::Administrator] {
        let mut bare = manifest.clone();
        if role == Role::Administrator {
            label(&mut bare, KEY, Some("oil"));
        }
        let kept = changed(complete(), bare, &people(role)).unwrap();
        let expected = with(|one| {
            label(one, "team", Some("b"));
            one.metadata.owner_references.as_mut().unwrap().truncate(1);
        });
        assert_eq!(kept.namespace.metadata, expected.metadata);
        let [membership, given] = kept.warnings.as_slice() else { panic!("{:?}", kept.warnings) };
        assert!(membership.contains("owner reference of Tenant oil stays"), "{membership}");
        assert_eq!(
            given,
            "namespace dev: Tenant oil sets the label pod-security.kubernetes.io/enforce, the annotation note; kept as the \
             Tenant sets it"
        );
        assert_eq!(said(Some(complete()), Some(kept.namespace), &people(role)), "");
    }
}

#[test]
fn each_change_of_what_the_tenant_gives_is_undone_by_itself() {
    let changes: [fn(&mut Namespace); 9] = [
        |one| label(one, KEY, None),
        |one| label(one, KEY, Some("")),
        |one| drop(one.metadata.owner_references.as_mut().unwrap().remove(0)),
        |one| reference_to(one).controller = Some(true),
        |one| reference_to(one).api_version = "capsule.clastix.io/v1beta1".to_owned(),
        |one| label(one, LEVEL, Some("privileged")),
        |one| label(one, LEVEL, None),
        |one| label(one, VERSION, Some("v1.0")),
        |one| one.metadata.annotations = None,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        for role in [Role::CapsuleUser, Role::Administrator] {
            let kept = changed(complete(), with(change), &people(role)).unwrap();
            assert_eq!(kept.namespace.metadata, complete().metadata, "{at}");
            assert_eq!(kept.warnings.len(), 1, "{at}");
            assert!(kept.warnings[0].len() <= 256, "{at}");
        }
        for role in [Role::Other, Role::Manager] {
            assert!(
                changed(complete(), with(change), &people(role)).is_none_or(|kept| kept.warnings.is_empty())
            );
        }
        let stranger = facts(Role::CapsuleUser, &[], &[restricted()]);
        assert_eq!(changed(complete(), with(change), &stranger), None, "{at}");
    }
    // What others may change stays changed.
    assert_eq!(
        changed(complete(), with(|one| label(one, "team", Some("b"))), &people(Role::CapsuleUser)),
        None
    );
}

#[test]
fn what_names_another_tenant_is_left_to_be_refused() {
    let changes: [fn(&mut Namespace); 4] = [
        |one| label(one, KEY, Some("gas")),
        |one| reference_to(one).uid = "forged".to_owned(),
        |one| {
            *reference_to(one) = serde_json::from_value(reference("gas")).unwrap();
        },
        |one| {
            let other = serde_json::from_value(reference("gas")).unwrap();
            one.metadata.owner_references.as_mut().unwrap().push(other);
        },
    ];
    for change in changes {
        let facts = people(Role::CapsuleUser);
        assert_eq!(changed(complete(), with(change), &facts), None);
        assert!(!said(Some(complete()), Some(with(change)), &facts).is_empty());
    }
}

#[test]
fn an_administrator_takes_a_namespace_out_by_label_and_reference_together() {
    let root = people(Role::Administrator);
    let free = with(|one| {
        label(one, KEY, None);
        one.metadata.owner_references.as_mut().unwrap().remove(0);
    });
    let left = changed(complete(), free.clone(), &root).map_or_else(|| free.clone(), |left| left.namespace);
    assert_eq!(left.metadata, free.metadata);
    assert_eq!(said(Some(complete()), Some(left), &root), "");
    // An owner does not.
    let kept = changed(complete(), free, &people(Role::CapsuleUser)).unwrap();
    assert!(kept.warnings[0].contains("only administrators can take it out"), "{:?}", kept.warnings);
    // What is broken already is theirs to mend.
    let broken = namespace("dev", json!({ "labels": { KEY: "oil" } }));
    assert!(changed(broken, namespace("dev", json!({})), &root).is_none_or(|one| one.warnings.is_empty()));
}

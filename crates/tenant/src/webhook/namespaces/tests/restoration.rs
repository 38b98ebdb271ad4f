//! Metadata that is restored instead of denying the update.

use super::*;

const LEVEL: &str = "pod-security.kubernetes.io/enforce";
const VERSION: &str = "pod-security.kubernetes.io/enforce-version";

fn restricted() -> Arc<Tenant> {
    let metadata = json!({ "labels": { LEVEL: "restricted" }, "annotations": { "note": "x" } });
    tenant("oil", json!({ "namespaceOptions": { "additionalMetadata": metadata } }))
}

fn user(role: Role) -> AdmissionContext {
    context(role, &[restricted()], &[tenant("gas", json!({}))])
}

/// Returns a namespace with all metadata of the Tenant, and with other metadata.
fn complete() -> Namespace {
    let labels = json!({ TENANT_LABEL: "oil", LEVEL: "restricted", "team": "a" });
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
fn restores_metadata_that_a_manifest_omits_and_warns() {
    let manifest = namespace("dev", json!({ "labels": { "team": "b" } }));
    for role in [Role::CapsuleUser, Role::Administrator] {
        let mut bare = manifest.clone();
        if role == Role::Administrator {
            label(&mut bare, TENANT_LABEL, Some("oil"));
        }
        let restored = updated(complete(), bare, &user(role)).unwrap();
        let expected = with(|one| {
            label(one, "team", Some("b"));
            one.metadata.owner_references.as_mut().unwrap().truncate(1);
        });
        assert_eq!(restored.namespace.metadata, expected.metadata);
        let [membership, metadata] = restored.warnings.as_slice() else { panic!("{:?}", restored.warnings) };
        assert!(membership.contains("owner reference of Tenant oil"), "{membership}");
        assert_eq!(
            metadata,
            "namespace dev: restored the label pod-security.kubernetes.io/enforce, the annotation note, which Tenant oil manages"
        );
        assert_eq!(denial(Some(complete()), Some(restored.namespace), &user(role)), "");
    }
}

#[test]
fn restores_each_change_of_membership_and_metadata() {
    let changes: [fn(&mut Namespace); 9] = [
        |one| label(one, TENANT_LABEL, None),
        |one| label(one, TENANT_LABEL, Some("")),
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
            let restored = updated(complete(), with(change), &user(role)).unwrap();
            assert_eq!(restored.namespace.metadata, complete().metadata, "{at}");
            assert_eq!(restored.warnings.len(), 1, "{at}");
            assert!(restored.warnings[0].len() <= 256, "{at}");
        }
        assert!(
            updated(complete(), with(change), &user(Role::Manager))
                .is_none_or(|restored| restored.warnings.is_empty())
        );
        // For other users, only metadata is restored.
        let restored = updated(complete(), with(change), &user(Role::Other));
        let is_membership = at < 5;
        assert_eq!(restored.is_none(), is_membership, "{at}");
        assert!(restored.is_none_or(|restored| restored.namespace.metadata == complete().metadata), "{at}");
        let other = context(Role::CapsuleUser, &[], &[restricted()]);
        assert_eq!(updated(complete(), with(change), &other), None, "{at}");
    }
    // Other changes are not restored.
    assert_eq!(
        updated(complete(), with(|one| label(one, "team", Some("b"))), &user(Role::CapsuleUser)),
        None
    );
}

#[test]
fn does_not_restore_update_that_references_another_tenant() {
    let changes: [fn(&mut Namespace); 4] = [
        |one| label(one, TENANT_LABEL, Some("gas")),
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
        let context = user(Role::CapsuleUser);
        assert_eq!(updated(complete(), with(change), &context), None);
        assert!(!denial(Some(complete()), Some(with(change)), &context).is_empty());
    }
}

#[test]
fn administrator_removes_namespace_with_label_and_reference_together() {
    let root = user(Role::Administrator);
    let free = with(|one| {
        label(one, TENANT_LABEL, None);
        one.metadata.owner_references.as_mut().unwrap().remove(0);
    });
    let left = updated(complete(), free.clone(), &root).map_or_else(|| free.clone(), |left| left.namespace);
    assert_eq!(left.metadata, free.metadata);
    assert_eq!(denial(Some(complete()), Some(left), &root), "");
    // An owner cannot.
    let restored = updated(complete(), free, &user(Role::CapsuleUser)).unwrap();
    assert!(
        restored.warnings[0].contains("only administrators can remove the namespace"),
        "{:?}",
        restored.warnings
    );
    // Administrators can correct an inconsistent namespace.
    let broken = namespace("dev", json!({ "labels": { TENANT_LABEL: "oil" } }));
    assert!(updated(broken, namespace("dev", json!({})), &root).is_none_or(|one| one.warnings.is_empty()));
}

mod metadata;
mod restoration;

use std::{collections::BTreeMap, sync::Arc};

use capsule::{
    api::{names::RESERVED_LABELS, v1beta2::Tenant},
    subjects::Role,
};
use k8s_openapi::api::authentication::v1::UserInfo;
use operator_core::admission::Denial;
use serde_json::{Value, json};

use super::*;
use crate::webhook::lookups::AdmissionContext;

const TENANT_LABEL: &str = "capsule.clastix.io/tenant";
const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

fn tenant(name: &str, spec: Value) -> Arc<Tenant> {
    let metadata = json!({ "name": name, "uid": format!("uid-{name}") });
    Arc::new(serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap())
}

fn by_name(tenants: &[Arc<Tenant>]) -> BTreeMap<String, Arc<Tenant>> {
    tenants.iter().map(|tenant| (tenant.metadata.name.clone().unwrap(), tenant.clone())).collect()
}

/// Returns the context of a user with this role who owns the first Tenants, but not the others.
fn context(role: Role, owned: &[Arc<Tenant>], others: &[Arc<Tenant>]) -> AdmissionContext {
    AdmissionContext {
        user: "alice".to_owned(),
        role,
        referenced: by_name(&[owned, others].concat()),
        owned: if role == Role::CapsuleUser { by_name(owned) } else { BTreeMap::new() },
        configuration: serde_json::from_value(json!({})).unwrap(),
        manager_namespace: "ensemble-system".to_owned(),
    }
}

fn oil_and_gas(role: Role) -> AdmissionContext {
    context(role, &[tenant("oil", json!({}))], &[tenant("gas", json!({}))])
}

fn reference(tenant: &str) -> Value {
    json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": tenant, "uid": format!("uid-{tenant}"),
    })
}

fn namespace(name: &str, metadata: Value) -> Namespace {
    let mut metadata = metadata;
    metadata["name"] = name.into();
    serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).unwrap()
}

fn member(name: &str, tenant: &str) -> Namespace {
    namespace(name, json!({ "labels": { TENANT_LABEL: tenant }, "ownerReferences": [reference(tenant)] }))
}

fn free(name: &str) -> Namespace {
    namespace(name, json!({}))
}

fn request(old: Option<Namespace>, new: Option<Namespace>) -> Request<Namespace> {
    let operation = match (&old, &new) {
        (None, _) => Operation::Create,
        (_, None) => Operation::Delete,
        _ => Operation::Update,
    };
    let name = old.as_ref().or(new.as_ref()).and_then(|one| one.metadata.name.clone());
    Request {
        operation,
        name: name.unwrap_or_default(),
        namespace: None,
        subresource: None,
        resource: "namespaces".to_owned(),
        group: String::new(),
        user: UserInfo::default(),
        dry_run: false,
        old,
        new,
        options: Value::Null,
    }
}

fn created(new: Namespace, context: &AdmissionContext) -> Result<Option<Namespace>, String> {
    let assigned = assign(&request(None, Some(new)), context).map_err(|denial| denial.message);
    assigned.map(|assigned| assigned.map(|assigned| assigned.namespace))
}

/// Returns the namespace after the mutating webhook, if it changes an update.
fn updated(old: Namespace, new: Namespace, context: &AdmissionContext) -> Option<MutatedNamespace> {
    assign(&request(Some(old), Some(new)), context).unwrap()
}

/// Returns the Tenant that is assigned to a new namespace.
fn tenant_of(new: Namespace, context: &AdmissionContext) -> String {
    let namespace = created(new, context).unwrap().unwrap();
    let references = namespace.metadata.owner_references.unwrap();
    assert_eq!(references.len(), 1);
    assert_eq!((references[0].controller, references[0].block_owner_deletion), (None, None));
    assert_eq!(references[0].uid, format!("uid-{}", references[0].name));
    assert_eq!(namespace.metadata.labels.unwrap()[TENANT_LABEL], references[0].name);
    references[0].name.clone()
}

fn validated(
    old: Option<Namespace>,
    new: Option<Namespace>,
    context: &AdmissionContext,
) -> Result<Option<String>, Denial> {
    validate(&request(old, new), context).map(|admitted| match admitted {
        Admission::Allowed => None,
        Admission::NeedsReservation { tenant, .. } => tenant.metadata.name.clone(),
    })
}

fn denial(old: Option<Namespace>, new: Option<Namespace>, context: &AdmissionContext) -> String {
    validated(old, new, context).err().map_or_else(String::new, |denial| denial.message)
}

#[test]
fn chooses_tenant_by_label_then_only_tenant_then_longest_prefix() {
    let one = context(Role::CapsuleUser, &[tenant("oil", json!({}))], &[]);
    assert_eq!(tenant_of(free("anything"), &one), "oil");
    let several: Vec<_> = ["gas", "oil", "oil-north"].map(|name| tenant(name, json!({}))).into();
    let several = context(Role::CapsuleUser, &several, &[]);
    assert_eq!(tenant_of(namespace("oil-x", json!({ "labels": { TENANT_LABEL: "gas" } })), &several), "gas");
    assert_eq!(tenant_of(free("oil-dev"), &several), "oil");
    assert_eq!(tenant_of(free("oil-north-dev"), &several), "oil-north");
    assert_eq!(tenant_of(free("oil-northern"), &several), "oil");
    let mut generated = free("");
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("oil-north-".to_owned());
    assert_eq!(tenant_of(generated, &several), "oil-north");
    let message = created(free("dev"), &several).unwrap_err();
    assert!(message.contains("you own several Tenants (gas, oil, oil-north)"), "{message}");
    assert!(created(free("oil-"), &several).is_err(), "the name is only the prefix");
}

#[test]
fn denies_namespace_of_user_without_tenant_or_of_other_tenant() {
    let no_tenant = context(Role::CapsuleUser, &[], &[tenant("gas", json!({}))]);
    assert!(created(free("dev"), &no_tenant).unwrap_err().contains("you own no Tenant"));
    let named = |tenant: &str| namespace("dev", json!({ "labels": { TENANT_LABEL: tenant } }));
    assert!(created(named("gas"), &no_tenant).unwrap_err().contains("is not owned by alice"));
    assert!(created(named("coal"), &no_tenant).unwrap_err().contains("does not exist"));
}

#[test]
fn sets_metadata_of_the_tenant_on_a_new_namespace() {
    let spec = json!({
        "nodeSelector": { "pool": "oil" },
        "namespaceOptions": { "additionalMetadataList": [
            { "namespaceSelector": { "matchLabels": { "env": "dev" } }, "labels": { "of": "{{namespace}}" } },
        ] },
    });
    let context = context(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
    let new =
        namespace("a", json!({ "labels": { "env": "dev" }, "annotations": { NODE_SELECTOR: "pool=mine" } }));
    let namespace = created(new, &context).unwrap().unwrap();
    assert_eq!(namespace.metadata.labels.as_ref().unwrap()["of"], "a");
    assert_eq!(namespace.metadata.annotations.as_ref().unwrap()[NODE_SELECTOR], "pool=oil");
    assert_eq!(validated(None, Some(namespace), &context).unwrap().unwrap(), "oil");
}

/// Otherwise the controller would mistake the label for one that the user set.
#[test]
fn does_not_set_metadata_that_changes_its_own_selector() {
    let spec = json!({ "namespaceOptions": { "additionalMetadataList": [{
        "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] },
        "labels": { "a": "b" },
    }] } });
    let namespace =
        created(free("a"), &context(Role::CapsuleUser, &[tenant("oil", spec)], &[])).unwrap().unwrap();
    assert_eq!(namespace.metadata.labels.unwrap().len(), 1);

    let undoing = json!({ "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] }, "labels": { "a": "b" } });
    let options =
        json!({ "additionalMetadata": { "labels": { "team": "oil" } }, "additionalMetadataList": [undoing] });
    let spec = json!({ "namespaceOptions": options });
    let context = context(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
    let namespace = created(free("a"), &context).unwrap().unwrap();
    let labels: Vec<_> = namespace.metadata.labels.clone().unwrap().into_keys().collect();
    assert_eq!(labels, [TENANT_LABEL, "team"], "metadata without a selector is set");
    assert_eq!(denial(None, Some(namespace), &context), "");
}

#[test]
fn adds_owner_reference_for_label_of_administrator() {
    let root = oil_and_gas(Role::Administrator);
    assert_eq!(tenant_of(namespace("dev", json!({ "labels": { TENANT_LABEL: "oil" } })), &root), "oil");
    assert_eq!(created(free("dev"), &root), Ok(None));
    let mut moved = member("dev", "oil");
    moved.metadata.labels.as_mut().unwrap().insert(TENANT_LABEL.to_owned(), "gas".to_owned());
    let mutated = updated(member("dev", "oil"), moved, &root).unwrap();
    assert_eq!(mutated.namespace.metadata, member("dev", "gas").metadata);
    assert_eq!(mutated.warnings, [] as [&str; 0]);
}

#[test]
fn does_not_change_owner_references_for_other_users() {
    for role in [Role::CapsuleUser, Role::Other] {
        let context = oil_and_gas(role);
        let moved = namespace(
            "dev",
            json!({ "labels": { TENANT_LABEL: "gas" }, "ownerReferences": [reference("oil")] }),
        );
        assert_eq!(updated(member("dev", "oil"), moved, &context), None);
    }
    let labelled = namespace("dev", json!({ "labels": { TENANT_LABEL: "oil" } }));
    assert_eq!(created(labelled, &oil_and_gas(Role::Other)), Ok(None));
}

#[test]
fn owner_creates_namespaces_only_in_own_tenants() {
    let alice = oil_and_gas(Role::CapsuleUser);
    assert_eq!(validated(None, Some(member("dev", "oil")), &alice).unwrap().unwrap(), "oil");
    assert!(
        denial(None, Some(member("dev", "gas")), &alice).contains("Tenant gas, which alice does not own")
    );
    assert!(denial(None, Some(free("dev")), &alice).contains("the manager did not answer in time"));
    let no_tenant = context(Role::CapsuleUser, &[], &[]);
    assert!(denial(None, Some(free("dev")), &no_tenant).contains("you own no Tenant"));
    let label_alone = namespace("dev", json!({ "labels": { TENANT_LABEL: "oil" } }));
    assert!(denial(None, Some(label_alone), &alice).contains("no owner reference to the Tenant"));
    let mut forged = member("dev", "oil");
    forged.metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
    assert!(denial(None, Some(forged), &alice).contains("are not those of this Tenant"));
    let both =
        namespace("dev", json!({ "labels": { TENANT_LABEL: "oil" }, "ownerReferences": [reference("gas")] }));
    assert!(denial(None, Some(both), &alice).contains("several Tenants"));
}

#[test]
fn other_users_create_only_namespaces_without_tenant() {
    let other = oil_and_gas(Role::Other);
    assert_eq!(validated(None, Some(free("dev")), &other), Ok(None));
    assert!(denial(None, Some(member("dev", "oil")), &other).contains("alice is neither"));
    assert!(
        denial(None, Some(namespace("dev", json!({ "labels": { TENANT_LABEL: "coal" } }))), &other)
            .contains("does not exist")
    );
    let root = oil_and_gas(Role::Administrator);
    assert_eq!(validated(None, Some(free("dev")), &root), Ok(None));
    assert_eq!(validated(None, Some(member("dev", "oil")), &root).unwrap().unwrap(), "oil");
    assert!(denial(None, Some(member("dev", "coal")), &root).contains("Tenant coal does not exist"));
}

#[test]
fn denies_tenant_of_cluster_namespaces_to_every_role() {
    for role in [Role::CapsuleUser, Role::Administrator, Role::Manager] {
        for name in ["kube-system", "default", "ensemble-system"] {
            let message = denial(Some(free(name)), Some(member(name, "oil")), &oil_and_gas(role));
            assert!(!message.is_empty(), "{name} by {role:?}");
        }
    }
}

#[test]
fn only_administrators_change_membership_and_only_consistently() {
    let mut doubled = member("dev", "oil");
    doubled
        .metadata
        .owner_references
        .as_mut()
        .unwrap()
        .push(serde_json::from_value(reference("gas")).unwrap());
    let half = namespace("dev", json!({ "labels": { TENANT_LABEL: "oil" } }));
    let changes = [
        (free("dev"), member("dev", "oil"), true),
        (member("dev", "oil"), free("dev"), true),
        (member("dev", "oil"), member("dev", "gas"), true),
        (member("dev", "oil"), doubled, false),
        (member("dev", "oil"), half, false),
    ];
    for (old, new, is_right) in changes {
        for role in [Role::CapsuleUser, Role::Other] {
            let message = denial(Some(old.clone()), Some(new.clone()), &oil_and_gas(role));
            assert!(message.contains("only administrators of Tenants may change"), "{message}");
        }
        for role in [Role::Administrator, Role::Manager] {
            let ended = validated(Some(old.clone()), Some(new.clone()), &oil_and_gas(role));
            assert_eq!(ended.is_ok(), is_right, "{ended:?}");
        }
    }
    // A namespace that joins a Tenant needs a reservation.
    let root = oil_and_gas(Role::Administrator);
    assert_eq!(validated(Some(free("dev")), Some(member("dev", "oil")), &root).unwrap().unwrap(), "oil");
    assert_eq!(
        validated(Some(member("dev", "oil")), Some(member("dev", "gas")), &root).unwrap().unwrap(),
        "gas"
    );
}

/// CVE-2022-46167: Capsule assumed that the old namespace has owner references.
#[test]
fn cve_2022_46167_validates_namespace_without_owner_references() {
    let broken = namespace("dev", json!({ "labels": { TENANT_LABEL: "oil" } }));
    let mut changed = broken.clone();
    changed.metadata.labels.as_mut().unwrap().insert("team".to_owned(), "a".to_owned());
    let message = denial(Some(broken.clone()), Some(changed.clone()), &oil_and_gas(Role::CapsuleUser));
    assert!(message.contains("it cannot belong to Tenant oil"), "{message}");
    assert_eq!(validated(Some(broken), Some(changed), &oil_and_gas(Role::Other)), Ok(None));
}

/// CVE-2025-55205: users of Tenants could change labels of namespaces without a Tenant.
#[test]
fn cve_2025_55205_tenant_users_cannot_change_namespaces_without_tenant() {
    let labelled = namespace("shop", json!({ "labels": { "team": "oil" } }));
    let message = denial(Some(free("shop")), Some(labelled.clone()), &oil_and_gas(Role::CapsuleUser));
    assert!(message.contains("it belongs to no Tenant"), "{message}");
    assert!(
        denial(Some(free("shop")), None, &oil_and_gas(Role::CapsuleUser)).contains("it belongs to no Tenant")
    );
    assert_eq!(validated(Some(free("shop")), Some(labelled), &oil_and_gas(Role::Other)), Ok(None));
}

#[test]
fn owner_updates_and_deletes_namespaces_only_of_own_tenants() {
    let with = |tenant: &str| {
        let mut changed = member("dev", tenant);
        changed.metadata.labels.as_mut().unwrap().insert("team".to_owned(), "a".to_owned());
        (Some(member("dev", tenant)), Some(changed))
    };
    let alice = oil_and_gas(Role::CapsuleUser);
    let (old, new) = with("oil");
    assert_eq!(validated(old.clone(), new, &alice), Ok(None));
    assert_eq!(validated(old, None, &alice), Ok(None));
    let (old, new) = with("gas");
    assert!(denial(old.clone(), new, &alice).contains("Tenant gas, which alice does not own"));
    assert!(denial(old, None, &alice).contains("Tenant gas, which alice does not own"));
}

#[test]
fn denies_owner_changes_of_managed_metadata_and_reserved_keys() {
    let spec = json!({ "nodeSelector": { "pool": "oil" }, "storageClasses": { "allowed": ["fast"] } });
    let alice = context(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
    let with_annotations = |annotations: Value| {
        let mut one = member("dev", "oil");
        one.metadata.annotations = serde_json::from_value(annotations).unwrap();
        one
    };
    let old = || with_annotations(json!({ NODE_SELECTOR: "pool=oil" }));
    let tried = |annotations: Value| denial(Some(old()), Some(with_annotations(annotations)), &alice);
    for annotations in [json!({}), json!({ NODE_SELECTOR: "pool=gas" })] {
        let message = tried(annotations);
        assert!(message.contains("is managed by Tenant oil in spec.nodeSelector"), "{message}");
    }
    let theirs = json!({ NODE_SELECTOR: "pool=oil", "capsule.clastix.io/storage-classes": "slow" });
    assert!(
        tried(theirs).contains("the annotation capsule.clastix.io/storage-classes is managed by Tenant oil")
    );
    let wanted =
        json!({ NODE_SELECTOR: "pool=oil", "capsule.clastix.io/storage-classes": "fast", "team": "a" });
    assert_eq!(tried(wanted), "", "owners may set the value that the Tenant sets");

    let is_checked = |key: &&str| {
        ![TENANT_LABEL, "projectcapsule.dev/cordoned", "kubernetes.io/metadata.name"].contains(key)
    };
    let annotations = ["capsule.clastix.io/allowed-registries-regexp", "used.resources.capsule.clastix.io/x"];
    for key in RESERVED_LABELS.into_iter().filter(is_checked).chain(annotations) {
        let mut labelled = old();
        labelled.metadata.labels.as_mut().unwrap().insert(key.to_owned(), "x".to_owned());
        let message = denial(Some(old()), Some(labelled.clone()), &alice);
        assert!(message.contains(&format!("the label {key} is managed by Tenant oil")), "{message}");
        assert!(denial(None, Some(labelled), &alice).contains(key));
    }
    // Other keys with the same prefixes are not reserved.
    for key in [
        "projectcapsule.dev/cordoned",
        "kubernetes.io/metadata.name",
        "capsule.clastix.io/x",
        "projectcapsule.dev/x",
        "resource.capsule.clastix.io/x",
        "team.projectcapsule.dev/managed-by",
        "notcapsule.clastix.io/x",
        "capsule.clastix.io.example.com/x",
        "x",
    ] {
        let mut labelled = old();
        labelled.metadata.labels.as_mut().unwrap().insert(key.to_owned(), "x".to_owned());
        assert_eq!(denial(Some(old()), Some(labelled), &alice), "");
    }
}

#[test]
fn enforces_name_prefix_and_protected_names() {
    let message = |name: &str, spec: Value, configuration: Value| {
        let mut alice = context(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
        alice.configuration = serde_json::from_value(configuration).unwrap();
        denial(None, Some(member(name, "oil")), &alice)
    };
    let forced = || json!({ "forceTenantPrefix": true });
    assert!(message("dev", forced(), json!({})).contains("must begin with oil-; use the name oil-dev"));
    assert!(message("dev", json!({}), forced()).contains("must begin with oil-"));
    assert_eq!(message("dev", json!({ "forceTenantPrefix": false }), forced()), "");
    assert_eq!(message("oil-dev", forced(), json!({})), "");
    assert!(message("oil-", forced(), json!({})).contains("must begin with oil-"));
    let longest = format!("oil-{}", "x".repeat(59));
    assert_eq!(longest.len(), 63);
    assert_eq!(message(&longest, forced(), json!({})), "");
    assert!(message(&"x".repeat(63), forced(), json!({})).contains("would be longer than 63 characters"));

    let protected = |pattern: &str| json!({ "protectedNamespaceRegex": pattern });
    assert!(
        message("my-prod-1", json!({}), protected("prod"))
            .contains("names that match \"prod\" are protected")
    );
    assert_eq!(message("dev", json!({}), protected("^prod")), "");
    assert_eq!(message("dev", json!({}), protected("")), "", "an empty pattern matches nothing");
    assert!(message("dev", json!({}), protected("(")).contains("ask an administrator to correct it"));
}

#[test]
fn terminating_tenant_denies_new_namespaces_and_allows_deletes() {
    let mut leaving = Tenant::clone(&tenant("oil", json!({})));
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let leaving = [Arc::new(leaving)];
    for role in [Role::CapsuleUser, Role::Administrator] {
        let context = context(role, &leaving, &[]);
        assert!(denial(None, Some(member("dev", "oil")), &context).contains("is being deleted"));
        assert_eq!(validated(Some(member("dev", "oil")), None, &context), Ok(None));
    }
}

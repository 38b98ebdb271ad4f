mod metadata;
mod restore;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::authentication::v1::UserInfo;
use operator_core::admission::Denial;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{names::RESERVED_LABELS, v1beta2::Tenant},
    subjects::Role,
    webhook::lookups::Facts,
};

const KEY: &str = "capsule.clastix.io/tenant";
const SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

fn tenant(name: &str, spec: Value) -> Arc<Tenant> {
    let metadata = json!({ "name": name, "uid": format!("uid-{name}") });
    Arc::new(serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap())
}

fn by_name(tenants: &[Arc<Tenant>]) -> BTreeMap<String, Arc<Tenant>> {
    tenants.iter().map(|tenant| (tenant.metadata.name.clone().unwrap(), tenant.clone())).collect()
}

/// Somebody of that role, who owns the first of the Tenants; of the others there are.
fn facts(role: Role, owned: &[Arc<Tenant>], there: &[Arc<Tenant>]) -> Facts {
    Facts {
        who: "alice".to_owned(),
        role,
        named: by_name(&[owned, there].concat()),
        owned: if role == Role::CapsuleUser { by_name(owned) } else { BTreeMap::new() },
        configuration: serde_json::from_value(json!({})).unwrap(),
        manager_namespace: "ensemble-system".to_owned(),
    }
}

fn oil_and_gas(role: Role) -> Facts {
    facts(role, &[tenant("oil", json!({}))], &[tenant("gas", json!({}))])
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
    namespace(name, json!({ "labels": { KEY: tenant }, "ownerReferences": [reference(tenant)] }))
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

fn assigned(new: Namespace, facts: &Facts) -> Result<Option<Namespace>, String> {
    let assigned = assign(&request(None, Some(new)), facts).map_err(|denial| denial.message);
    assigned.map(|assigned| assigned.map(|assigned| assigned.namespace))
}

/// What becomes of a change before it is judged.
fn changed(old: Namespace, new: Namespace, facts: &Facts) -> Option<Assigned> {
    assign(&request(Some(old), Some(new)), facts).unwrap()
}

/// The Tenant that a new namespace is given, by label and reference.
fn tenant_of(new: Namespace, facts: &Facts) -> String {
    let given = assigned(new, facts).unwrap().unwrap();
    let references = given.metadata.owner_references.unwrap();
    assert_eq!(references.len(), 1);
    assert_eq!((references[0].controller, references[0].block_owner_deletion), (None, None));
    assert_eq!(references[0].uid, format!("uid-{}", references[0].name));
    assert_eq!(given.metadata.labels.unwrap()[KEY], references[0].name);
    references[0].name.clone()
}

fn judged(old: Option<Namespace>, new: Option<Namespace>, facts: &Facts) -> Result<Option<String>, Denial> {
    judge(&request(old, new), facts).map(|admitted| match admitted {
        Admitted::Freely => None,
        Admitted::Joining { tenant, .. } => tenant.metadata.name.clone(),
    })
}

fn said(old: Option<Namespace>, new: Option<Namespace>, facts: &Facts) -> String {
    judged(old, new, facts).err().map_or_else(String::new, |denial| denial.message)
}

#[test]
fn a_namespace_finds_its_tenant_by_label_then_by_the_only_one_then_by_the_longest_prefix() {
    let one = facts(Role::CapsuleUser, &[tenant("oil", json!({}))], &[]);
    assert_eq!(tenant_of(free("anything"), &one), "oil");
    let several: Vec<_> = ["gas", "oil", "oil-north"].map(|name| tenant(name, json!({}))).into();
    let several = facts(Role::CapsuleUser, &several, &[]);
    assert_eq!(tenant_of(namespace("oil-x", json!({ "labels": { KEY: "gas" } })), &several), "gas");
    assert_eq!(tenant_of(free("oil-dev"), &several), "oil");
    assert_eq!(tenant_of(free("oil-north-dev"), &several), "oil-north");
    assert_eq!(tenant_of(free("oil-northern"), &several), "oil");
    let mut made_up = free("");
    made_up.metadata.name = None;
    made_up.metadata.generate_name = Some("oil-north-".to_owned());
    assert_eq!(tenant_of(made_up, &several), "oil-north");
    let refused = assigned(free("dev"), &several).unwrap_err();
    assert!(refused.contains("you own several Tenants (gas, oil, oil-north)"), "{refused}");
    assert!(assigned(free("oil-"), &several).is_err(), "a dash alone makes no name");
}

#[test]
fn who_owns_no_tenant_or_names_another_is_told_so() {
    let nobody = facts(Role::CapsuleUser, &[], &[tenant("gas", json!({}))]);
    assert!(assigned(free("dev"), &nobody).unwrap_err().contains("you own no Tenant"));
    let named = |tenant: &str| namespace("dev", json!({ "labels": { KEY: tenant } }));
    assert!(assigned(named("gas"), &nobody).unwrap_err().contains("is not owned by alice"));
    assert!(assigned(named("coal"), &nobody).unwrap_err().contains("does not exist"));
}

#[test]
fn a_new_namespace_has_at_once_what_its_tenant_says_of_it() {
    let spec = json!({
        "nodeSelector": { "pool": "oil" },
        "namespaceOptions": { "additionalMetadataList": [
            { "namespaceSelector": { "matchLabels": { "env": "dev" } }, "labels": { "of": "{{namespace}}" } },
        ] },
    });
    let facts = facts(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
    let new = namespace("a", json!({ "labels": { "env": "dev" }, "annotations": { SELECTOR: "pool=mine" } }));
    let given = assigned(new, &facts).unwrap().unwrap();
    assert_eq!(given.metadata.labels.as_ref().unwrap()["of"], "a");
    assert_eq!(given.metadata.annotations.as_ref().unwrap()[SELECTOR], "pool=oil");
    assert_eq!(judged(None, Some(given), &facts).unwrap().unwrap(), "oil");
}

/// Else the label would stay there, and the controller would take it for the person's own.
#[test]
fn what_would_undo_its_own_choice_is_left_to_the_controller() {
    let spec = json!({ "namespaceOptions": { "additionalMetadataList": [{
        "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] },
        "labels": { "a": "b" },
    }] } });
    let given = assigned(free("a"), &facts(Role::CapsuleUser, &[tenant("oil", spec)], &[])).unwrap().unwrap();
    assert_eq!(given.metadata.labels.unwrap().len(), 1);

    let undoing = json!({ "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] }, "labels": { "a": "b" } });
    let options =
        json!({ "additionalMetadata": { "labels": { "team": "oil" } }, "additionalMetadataList": [undoing] });
    let spec = json!({ "namespaceOptions": options });
    let facts = facts(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
    let given = assigned(free("a"), &facts).unwrap().unwrap();
    let labels: Vec<_> = given.metadata.labels.clone().unwrap().into_keys().collect();
    assert_eq!(labels, [KEY, "team"], "what every namespace has is given at once");
    assert_eq!(said(None, Some(given), &facts), "");
}

#[test]
fn an_administrator_gives_the_label_and_gets_the_reference() {
    let root = oil_and_gas(Role::Administrator);
    assert_eq!(tenant_of(namespace("dev", json!({ "labels": { KEY: "oil" } })), &root), "oil");
    assert_eq!(assigned(free("dev"), &root), Ok(None));
    let mut moved = member("dev", "oil");
    moved.metadata.labels.as_mut().unwrap().insert(KEY.to_owned(), "gas".to_owned());
    let given = changed(member("dev", "oil"), moved, &root).unwrap();
    assert_eq!(given.namespace.metadata, member("dev", "gas").metadata);
    assert_eq!(given.warnings, [] as [&str; 0]);
}

#[test]
fn of_others_nothing_is_silently_changed() {
    for role in [Role::CapsuleUser, Role::Other] {
        let facts = oil_and_gas(role);
        let moved =
            namespace("dev", json!({ "labels": { KEY: "gas" }, "ownerReferences": [reference("oil")] }));
        assert_eq!(changed(member("dev", "oil"), moved, &facts), None);
    }
    let labelled = namespace("dev", json!({ "labels": { KEY: "oil" } }));
    assert_eq!(assigned(labelled, &oil_and_gas(Role::Other)), Ok(None));
}

#[test]
fn an_owner_creates_namespaces_of_their_own_tenants_and_no_others() {
    let alice = oil_and_gas(Role::CapsuleUser);
    assert_eq!(judged(None, Some(member("dev", "oil")), &alice).unwrap().unwrap(), "oil");
    assert!(said(None, Some(member("dev", "gas")), &alice).contains("Tenant gas, which alice does not own"));
    assert!(said(None, Some(free("dev")), &alice).contains("the manager did not answer in time"));
    let nobody = facts(Role::CapsuleUser, &[], &[]);
    assert!(said(None, Some(free("dev")), &nobody).contains("you own no Tenant"));
    let label_alone = namespace("dev", json!({ "labels": { KEY: "oil" } }));
    assert!(said(None, Some(label_alone), &alice).contains("no owner reference to the Tenant"));
    let mut forged = member("dev", "oil");
    forged.metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
    assert!(said(None, Some(forged), &alice).contains("are not those of this Tenant"));
    let both = namespace("dev", json!({ "labels": { KEY: "oil" }, "ownerReferences": [reference("gas")] }));
    assert!(said(None, Some(both), &alice).contains("several Tenants"));
}

#[test]
fn everybody_else_creates_namespaces_of_no_tenant() {
    let other = oil_and_gas(Role::Other);
    assert_eq!(judged(None, Some(free("dev")), &other), Ok(None));
    assert!(said(None, Some(member("dev", "oil")), &other).contains("alice is neither"));
    assert!(
        said(None, Some(namespace("dev", json!({ "labels": { KEY: "coal" } }))), &other)
            .contains("does not exist")
    );
    let root = oil_and_gas(Role::Administrator);
    assert_eq!(judged(None, Some(free("dev")), &root), Ok(None));
    assert_eq!(judged(None, Some(member("dev", "oil")), &root).unwrap().unwrap(), "oil");
    assert!(said(None, Some(member("dev", "coal")), &root).contains("there is no Tenant coal"));
}

#[test]
fn nobody_takes_what_the_cluster_consists_of_into_a_tenant() {
    for role in [Role::CapsuleUser, Role::Administrator, Role::Manager] {
        for name in ["kube-system", "default", "ensemble-system"] {
            let refused = said(Some(free(name)), Some(member(name, "oil")), &oil_and_gas(role));
            assert!(!refused.is_empty(), "{name} by {role:?}");
        }
    }
}

#[test]
fn membership_is_changed_by_administrators_alone_and_only_to_what_is_right() {
    let mut doubled = member("dev", "oil");
    doubled
        .metadata
        .owner_references
        .as_mut()
        .unwrap()
        .push(serde_json::from_value(reference("gas")).unwrap());
    let half = namespace("dev", json!({ "labels": { KEY: "oil" } }));
    let changes = [
        (free("dev"), member("dev", "oil"), true),
        (member("dev", "oil"), free("dev"), true),
        (member("dev", "oil"), member("dev", "gas"), true),
        (member("dev", "oil"), doubled, false),
        (member("dev", "oil"), half, false),
    ];
    for (old, new, is_right) in changes {
        for role in [Role::CapsuleUser, Role::Other] {
            let refused = said(Some(old.clone()), Some(new.clone()), &oil_and_gas(role));
            assert!(refused.contains("only administrators of Tenants may change"), "{refused}");
        }
        for role in [Role::Administrator, Role::Manager] {
            let ended = judged(Some(old.clone()), Some(new.clone()), &oil_and_gas(role));
            assert_eq!(ended.is_ok(), is_right, "{ended:?}");
        }
    }
    // Whoever moves in needs a place.
    let root = oil_and_gas(Role::Administrator);
    assert_eq!(judged(Some(free("dev")), Some(member("dev", "oil")), &root).unwrap().unwrap(), "oil");
    assert_eq!(
        judged(Some(member("dev", "oil")), Some(member("dev", "gas")), &root).unwrap().unwrap(),
        "gas"
    );
}

/// CVE-2022-46167: the first version of the check took it for granted that the old namespace has owner references.
#[test]
fn cve_2022_46167_a_namespace_without_owner_references_is_no_exception() {
    let broken = namespace("dev", json!({ "labels": { KEY: "oil" } }));
    let mut changed = broken.clone();
    changed.metadata.labels.as_mut().unwrap().insert("team".to_owned(), "a".to_owned());
    let refused = said(Some(broken.clone()), Some(changed.clone()), &oil_and_gas(Role::CapsuleUser));
    assert!(refused.contains("it cannot belong to Tenant oil"), "{refused}");
    assert_eq!(judged(Some(broken), Some(changed), &oil_and_gas(Role::Other)), Ok(None));
}

/// CVE-2025-55205: what belongs to no Tenant is not for Tenants' people to change, whatever it is that they change.
#[test]
fn cve_2025_55205_tenants_people_change_nothing_that_belongs_to_no_tenant() {
    let labelled = namespace("shop", json!({ "labels": { "team": "oil" } }));
    let refused = said(Some(free("shop")), Some(labelled.clone()), &oil_and_gas(Role::CapsuleUser));
    assert!(refused.contains("it belongs to no Tenant"), "{refused}");
    assert!(
        said(Some(free("shop")), None, &oil_and_gas(Role::CapsuleUser)).contains("it belongs to no Tenant")
    );
    assert_eq!(judged(Some(free("shop")), Some(labelled), &oil_and_gas(Role::Other)), Ok(None));
}

#[test]
fn an_owner_changes_and_deletes_namespaces_of_their_own_tenants_and_no_others() {
    let with = |tenant: &str| {
        let mut changed = member("dev", tenant);
        changed.metadata.labels.as_mut().unwrap().insert("team".to_owned(), "a".to_owned());
        (Some(member("dev", tenant)), Some(changed))
    };
    let alice = oil_and_gas(Role::CapsuleUser);
    let (old, new) = with("oil");
    assert_eq!(judged(old.clone(), new, &alice), Ok(None));
    assert_eq!(judged(old, None, &alice), Ok(None));
    let (old, new) = with("gas");
    assert!(said(old.clone(), new, &alice).contains("Tenant gas, which alice does not own"));
    assert!(said(old, None, &alice).contains("Tenant gas, which alice does not own"));
}

#[test]
fn what_only_the_tenant_says_is_left_alone_by_its_owners() {
    let spec = json!({ "nodeSelector": { "pool": "oil" }, "storageClasses": { "allowed": ["fast"] } });
    let alice = facts(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
    let given = |annotations: Value| {
        let mut one = member("dev", "oil");
        one.metadata.annotations = serde_json::from_value(annotations).unwrap();
        one
    };
    let old = || given(json!({ SELECTOR: "pool=oil" }));
    let tried = |annotations: Value| said(Some(old()), Some(given(annotations)), &alice);
    for annotations in [json!({}), json!({ SELECTOR: "pool=gas" })] {
        let refused = tried(annotations);
        assert!(refused.contains("for Tenant oil to say in spec.nodeSelector"), "{refused}");
    }
    let theirs = json!({ SELECTOR: "pool=oil", "capsule.clastix.io/storage-classes": "slow" });
    assert!(
        tried(theirs).contains("the annotation capsule.clastix.io/storage-classes is for Tenant oil to say")
    );
    let wanted = json!({ SELECTOR: "pool=oil", "capsule.clastix.io/storage-classes": "fast", "team": "a" });
    assert_eq!(tried(wanted), "", "what the Tenant wants may always be put there");

    let judged =
        |key: &&str| ![KEY, "projectcapsule.dev/cordoned", "kubernetes.io/metadata.name"].contains(key);
    let annotations = ["capsule.clastix.io/allowed-registries-regexp", "used.resources.capsule.clastix.io/x"];
    for key in RESERVED_LABELS.into_iter().filter(judged).chain(annotations) {
        let mut labelled = old();
        labelled.metadata.labels.as_mut().unwrap().insert(key.to_owned(), "x".to_owned());
        let refused = said(Some(old()), Some(labelled.clone()), &alice);
        assert!(refused.contains(&format!("the label {key} is for Tenant oil")), "{refused}");
        assert!(said(None, Some(labelled), &alice).contains(key));
    }
    // Other keys of the same domains are free.
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
        assert_eq!(said(Some(old()), Some(labelled), &alice), "");
    }
}

#[test]
fn names_are_protected_and_prefixed_where_the_configuration_or_the_tenant_says_so() {
    let refused = |name: &str, spec: Value, configuration: Value| {
        let mut alice = facts(Role::CapsuleUser, &[tenant("oil", spec)], &[]);
        alice.configuration = serde_json::from_value(configuration).unwrap();
        said(None, Some(member(name, "oil")), &alice)
    };
    let forced = || json!({ "forceTenantPrefix": true });
    assert!(refused("dev", forced(), json!({})).contains("must begin with oil-; call it oil-dev"));
    assert!(refused("dev", json!({}), forced()).contains("must begin with oil-"));
    assert_eq!(refused("dev", json!({ "forceTenantPrefix": false }), forced()), "");
    assert_eq!(refused("oil-dev", forced(), json!({})), "");
    assert!(refused("oil-", forced(), json!({})).contains("must begin with oil-"));
    let longest = format!("oil-{}", "x".repeat(59));
    assert_eq!(longest.len(), 63);
    assert_eq!(refused(&longest, forced(), json!({})), "");
    assert!(refused(&"x".repeat(63), forced(), json!({})).contains("would be too long"));

    let protected = |pattern: &str| json!({ "protectedNamespaceRegex": pattern });
    assert!(
        refused("my-prod-1", json!({}), protected("prod"))
            .contains("names that match \"prod\" are protected")
    );
    assert_eq!(refused("dev", json!({}), protected("^prod")), "");
    assert_eq!(refused("dev", json!({}), protected("")), "", "an empty pattern protects nothing");
    assert!(refused("dev", json!({}), protected("(")).contains("an administrator has to correct it"));
}

#[test]
fn a_tenant_that_is_being_deleted_takes_no_more_namespaces_and_lets_them_go() {
    let mut leaving = Tenant::clone(&tenant("oil", json!({})));
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let leaving = [Arc::new(leaving)];
    for role in [Role::CapsuleUser, Role::Administrator] {
        let facts = facts(role, &leaving, &[]);
        assert!(said(None, Some(member("dev", "oil")), &facts).contains("is being deleted"));
        assert_eq!(judged(Some(member("dev", "oil")), None, &facts), Ok(None));
    }
}

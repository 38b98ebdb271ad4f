mod generated;

use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use self::generated::{old_annotations, stored, v1alpha1 as any_v1alpha1, v1beta1 as any_v1beta1};
use super::*;

type Old = api::v1alpha1::Tenant;
type Middle = api::v1beta1::Tenant;

fn parsed<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn old(annotations: Value, spec: Value) -> Old {
    let mut old: Old = parsed(json!({
        "apiVersion": "capsule.clastix.io/v1alpha1", "kind": "Tenant",
        "metadata": { "name": "oil", "annotations": annotations }, "spec": spec,
    }));
    old.metadata.annotations.take_if(|annotations| annotations.is_empty());
    old
}

fn new(spec: Value) -> Tenant {
    parsed(json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": "oil" }, "spec": spec,
    }))
}

/// Returns the object without preserved fields of other versions.
fn plain<K: ResourceExt>(mut object: K) -> K {
    object.annotations_mut().retain(|key, _| !key.starts_with(PRESERVED_PREFIX));
    object.meta_mut().annotations.take_if(|annotations| annotations.is_empty());
    object
}

fn spec_of<K: serde::Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap()["spec"].clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn storage_version_round_trips_through_v1beta1(tenant in stored()) {
        let back = from_v1beta1(to_v1beta1(tenant.clone()).unwrap()).unwrap();
        prop_assert_eq!(back, tenant);
    }

    #[test]
    fn storage_version_round_trips_through_v1alpha1(tenant in stored()) {
        let back = from_v1alpha1(to_v1alpha1(tenant.clone()).unwrap()).unwrap();
        prop_assert_eq!(back, tenant);
    }

    #[test]
    fn v1beta1_round_trips_through_storage_version(tenant in any_v1beta1()) {
        let back = to_v1beta1(from_v1beta1(tenant.clone()).unwrap()).unwrap();
        prop_assert_eq!(back, tenant);
    }

    #[test]
    fn v1alpha1_round_trips_through_storage_version(tenant in any_v1alpha1()) {
        let stored = from_v1alpha1(tenant.clone()).unwrap();
        prop_assert_eq!(to_v1alpha1(stored.clone()).unwrap(), tenant);
        // A second round trip does not change the preserved fields.
        let again = from_v1alpha1(to_v1alpha1(stored.clone()).unwrap()).unwrap();
        prop_assert_eq!(again, stored);
    }

    #[test]
    fn v1alpha1_round_trips_through_v1beta1(tenant in any_v1alpha1()) {
        let middle = to_v1beta1(from_v1alpha1(tenant.clone()).unwrap()).unwrap();
        prop_assert_eq!(to_v1alpha1(from_v1beta1(middle).unwrap()).unwrap(), tenant);
    }

    #[test]
    fn edit_in_v1alpha1_is_read_as_written(tenant in stored(), edit in any_v1alpha1()) {
        let mut seen = to_v1alpha1(tenant).unwrap();
        seen.spec = edit.spec;
        let written = seen.clone();
        let read = to_v1alpha1(from_v1alpha1(seen).unwrap()).unwrap();
        prop_assert_eq!(plain(read), plain(written));
    }

    #[test]
    fn edit_in_v1beta1_is_read_as_written(tenant in stored(), edit in any_v1beta1()) {
        let mut seen = to_v1beta1(tenant).unwrap();
        seen.spec = edit.spec;
        let written = seen.clone();
        let read = to_v1beta1(from_v1beta1(seen).unwrap()).unwrap();
        prop_assert_eq!(plain(read), plain(written));
    }

    #[test]
    fn edit_in_storage_version_wins_over_preserved_fields(tenant in any_v1alpha1(), edit in stored()) {
        let mut seen = from_v1alpha1(tenant).unwrap();
        seen.spec = edit.spec;
        let written = seen.clone();
        let read = from_v1alpha1(to_v1alpha1(seen).unwrap()).unwrap();
        prop_assert_eq!(plain(read), plain(written));
    }

    #[test]
    fn converts_or_rejects_annotations_of_old_versions(annotations in old_annotations()) {
        let tenant = old(json!(annotations), json!({ "owner": { "kind": "User", "name": "alice" } }));
        if let Ok(stored) = from_v1alpha1(tenant.clone()) {
            prop_assert_eq!(to_v1alpha1(stored).unwrap(), tenant);
        }
    }
}

#[test]
fn converts_every_field_and_annotation_of_v1alpha1() {
    let tenant = old(
        json!({
            "owners.capsule.clastix.io/group": "drillers, welders",
            "owners.capsule.clastix.io/user": "bob",
            "capsule.clastix.io/enable-node-listing": "alice,bob",
            "capsule.clastix.io/enable-node-update": "alice",
            "capsule.clastix.io/resource-quota-scope": "Namespace",
            "capsule.clastix.io/enable-node-ports": "false",
            "capsule.clastix.io/allowed-image-pull-policy": "Always,IfNotPresent",
            "priorityclass.capsule.clastix.io/allowed": "low,high",
            "priorityclass.capsule.clastix.io/allowed-regex": "^tenant-",
            "ingress.capsule.clastix.io/hostname-collision-scope": "Tenant",
            "clusterrolenames.capsule.clastix.io/user.bob": "view",
            "theirs": "stays",
        }),
        json!({
            "owner": { "kind": "User", "name": "alice" },
            "namespaceQuota": 3,
            "namespacesMetadata": { "additionalLabels": { "a": "b" } },
            "servicesMetadata": { "additionalAnnotations": { "c": "d" } },
            "storageClasses": { "allowed": ["fast"], "allowedRegex": "^oil-" },
            "ingressClasses": { "allowed": ["nginx"] },
            "ingressHostnames": { "allowedRegex": "oil" },
            "containerRegistries": { "allowed": ["quay.io"] },
            "nodeSelector": { "pool": "oil" },
            "resourceQuotas": [{ "hard": { "pods": "10" } }],
            "limitRanges": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }],
            "networkPolicies": [{ "podSelector": {} }],
            "additionalRoleBindings": [
                { "clusterRoleName": "view", "subjects": [{ "kind": "User", "name": "carol" }] },
            ],
            "externalServiceIPs": { "allowed": ["10.0.0.0/8"] },
        }),
    );
    let stored = from_v1alpha1(tenant).unwrap();
    let usual = json!(["admin", "capsule-namespace-deleter"]);
    let owner = |kind: &str, name: &str| json!({ "kind": kind, "name": name, "clusterRoles": usual });
    let mut alice = owner("User", "alice");
    alice["proxySettings"] = json!([{ "kind": "Nodes", "operations": ["List", "Update"] }]);
    let mut bob = owner("User", "bob");
    bob["clusterRoles"] = json!(["view"]);
    bob["proxySettings"] = json!([{ "kind": "Nodes", "operations": ["List"] }]);
    let expected = json!({
        "owners": [alice, bob, owner("Group", "drillers"), owner("Group", "welders")],
        "namespaceOptions": {
            "quota": 3, "additionalMetadata": { "labels": { "a": "b" } }, "managedMetadataOnly": false,
        },
        "serviceOptions": {
            "additionalMetadata": { "annotations": { "c": "d" } },
            "allowedServices": { "nodePort": false, "externalName": true, "loadBalancer": true },
            "externalIPs": { "allowed": ["10.0.0.0/8"] },
        },
        "storageClasses": { "allowed": ["fast"], "allowedRegex": "^oil-" },
        "priorityClasses": { "allowed": ["low", "high"], "allowedRegex": "^tenant-" },
        "ingressOptions": {
            "allowedClasses": { "allowed": ["nginx"] },
            "allowedHostnames": { "allowedRegex": "oil" },
            "hostnameCollisionScope": "Tenant",
            "allowWildcardHostnames": true,
        },
        "containerRegistries": { "allowed": ["quay.io"] },
        "nodeSelector": { "pool": "oil" },
        "resourceQuotas": { "scope": "Namespace", "items": [{ "hard": { "pods": "10" } }] },
        "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
        "networkPolicies": { "items": [{ "podSelector": {} }] },
        "additionalRoleBindings": [
            { "clusterRoleName": "view", "subjects": [{ "kind": "User", "name": "carol" }] },
        ],
        "imagePullPolicies": ["Always", "IfNotPresent"],
        "cordoned": false,
        "preventDeletion": false,
    });
    assert_eq!(spec_of(&stored), expected);
    assert_eq!(plain(stored).annotations().keys().collect::<Vec<_>>(), ["theirs"]);
}

#[test]
fn round_trips_early_formats_of_v1alpha1() {
    let spec = json!({ "owner": "alice", "namespaceQuota": 3, "ingressClasses": ["nginx"], "storageClasses": ["fast"] });
    let tenant = old(json!({}), spec.clone());
    let stored = from_v1alpha1(tenant).unwrap();
    assert_eq!(stored.spec.owners[0].name, "alice");
    assert_eq!(stored.spec.storage_classes.as_ref().unwrap().allowed, ["fast"]);
    assert_eq!(spec_of(&to_v1alpha1(stored.clone()).unwrap()), spec);
    // Editing one field does not change the format of the others.
    let mut edited = stored;
    edited.spec.storage_classes.as_mut().unwrap().allowed.push("slow".to_owned());
    let read = spec_of(&to_v1alpha1(edited).unwrap());
    assert_eq!((&read["owner"], &read["ingressClasses"]), (&json!("alice"), &json!(["nginx"])));
    assert_eq!(read["storageClasses"], json!({ "allowed": ["fast", "slow"] }));
}

#[test]
fn rejects_owner_in_unknown_format() {
    let tenant = json!({
        "apiVersion": "capsule.clastix.io/v1alpha1", "kind": "Tenant", "metadata": { "name": "oil" },
        "spec": { "owner": { "kind": "Robot", "name": "r2" } },
    });
    let error = conversion().convert(tenant, "capsule.clastix.io/v1beta2").unwrap_err();
    assert!(error.to_string().contains("Tenant oil of capsule.clastix.io/v1alpha1"), "{error}");
}

#[test]
fn error_contains_invalid_annotation() {
    let owner = json!({ "owner": "alice" });
    let error = |key: &str, value: &str| {
        from_v1alpha1(old(json!({ key: value }), owner.clone())).unwrap_err().to_string()
    };
    assert_eq!(
        error("capsule.clastix.io/enable-node-ports", "maybe"),
        "metadata.annotations[capsule.clastix.io/enable-node-ports]: \"maybe\" is not true or false"
    );
    assert!(error("capsule.clastix.io/allowed-image-pull-policy", "Always,Often").contains("\"Often\""));
}

#[test]
fn converts_cordoned_to_label_and_annotation() {
    let stored = new(json!({ "cordoned": true, "preventDeletion": true }));
    let middle = to_v1beta1(stored.clone()).unwrap();
    assert_eq!(middle.annotations()["capsule.clastix.io/cordon"], "true");
    assert_eq!(middle.annotations()["capsule.clastix.io/protected"], "true");
    let oldest = to_v1alpha1(stored).unwrap();
    assert_eq!(oldest.labels()["capsule.clastix.io/cordon"], "enabled");
    let mut freed = oldest;
    freed.labels_mut().clear();
    let stored = from_v1alpha1(freed).unwrap();
    assert!(!stored.spec.cordoned && stored.spec.prevent_deletion);
}

#[test]
fn edit_in_old_version_keeps_fields_of_new_version() {
    let stored = new(json!({
        "owners": [
            { "kind": "User", "name": "alice", "labels": { "a": "b" } },
            { "kind": "Group", "name": "oidc:drillers", "clusterRoles": ["view"] },
            { "kind": "Group", "name": "cn=welders,dc=oil", "clusterRoles": ["edit"] },
            { "kind": "User", "name": "bob", "clusterRoles": [] },
        ],
        "namespaceOptions": { "managedMetadataOnly": true },
        "storageClasses": { "allowed": ["fast"], "default": "fast", "matchLabels": { "tier": "oil" } },
        "runtimeClasses": { "allowed": ["gvisor"] },
        "data": { "any": [null, 1] },
        "rules": [{ "enforce": { "unknown": true } }],
        "forceTenantPrefix": true,
    }));
    let mut seen = to_v1alpha1(stored.clone()).unwrap();
    seen.spec.namespace_quota = Some(3);
    let users = seen.annotations_mut().entry("owners.capsule.clastix.io/user".to_owned()).or_default();
    users.push_str(",carol");
    let edited = from_v1alpha1(seen).unwrap();
    let mut expected = stored;
    expected.spec.namespace_options.as_mut().unwrap().quota = Some(3);
    let owners = |tenant: &Tenant| {
        let mut owners = tenant.spec.owners.clone();
        owners.sort_by(|one, other| one.name.cmp(&other.name));
        owners
    };
    let carol = parsed(json!({ "kind": "User", "name": "carol" }));
    expected.spec.owners.push(carol);
    assert_eq!(owners(&edited), owners(&expected));
    let (mut edited, mut expected) = (edited.spec, expected.spec);
    (edited.owners, expected.owners) = (Vec::new(), Vec::new());
    assert_eq!(edited, expected);
}

#[test]
fn keeps_roles_of_owners_that_are_reordered_in_old_version() {
    let stored = new(json!({ "owners": [
        { "kind": "User", "name": "alice" },
        { "kind": "Group", "name": "a:b", "clusterRoles": ["view"] },
        { "kind": "User", "name": "bob@oil.io", "clusterRoles": ["edit"] },
    ] }));
    let mut seen = to_v1beta1(stored).unwrap();
    assert_eq!(seen.annotations()["clusterrolenames.capsule.clastix.io/user.bob__AT__oil.io"], "edit");
    seen.spec.owners.reverse();
    seen.spec.owners.remove(2);
    let roles: Vec<_> =
        from_v1beta1(seen).unwrap().spec.owners.into_iter().map(|owner| owner.cluster_roles).collect();
    assert_eq!(roles, [["edit"], ["view"]]);
}

#[test]
fn reads_roles_by_index() {
    let mut tenant: Middle = parsed(json!({
        "apiVersion": "capsule.clastix.io/v1beta1", "kind": "Tenant", "metadata": { "name": "oil" },
        "spec": { "owners": [{ "kind": "User", "name": "alice" }, { "kind": "User", "name": "bob" }] },
    }));
    tenant
        .annotations_mut()
        .insert("clusterrolenames.capsule.clastix.io/1".to_owned(), "view,edit".to_owned());
    let stored = from_v1beta1(tenant).unwrap();
    assert_eq!(stored.spec.owners[0].cluster_roles, ["admin", "capsule-namespace-deleter"]);
    assert_eq!(stored.spec.owners[1].cluster_roles, ["view", "edit"]);
}

#[test]
fn does_not_list_owner_with_comma_in_name() {
    let stored = new(json!({ "owners": [
        { "kind": "User", "name": "alice" }, { "kind": "Group", "name": "cn=a,mallory" },
    ] }));
    let seen = to_v1alpha1(stored).unwrap();
    assert!(!seen.annotations().contains_key("owners.capsule.clastix.io/group"));
}

#[test]
fn rejects_annotation_that_is_too_large_before_parsing() {
    let key = format!("{PRESERVED_PREFIX}v1beta2");
    let many = format!(r#"{{"Items":{{"more":[{}{{}}]}}}}"#, r#"{"a":0},"#.repeat(100_000));
    let old: Middle = parsed(json!({
        "apiVersion": "capsule.clastix.io/v1beta1", "kind": "Tenant",
        "metadata": { "name": "oil", "annotations": { key.clone(): many } }, "spec": { "owners": [] },
    }));
    let error = from_v1beta1(old).unwrap_err().to_string();
    assert!(error.contains(&key) && error.contains("too large"), "{error}");
}

#[test]
fn rejects_annotations_with_too_many_entries() {
    let key = "owners.capsule.clastix.io/user";
    let names = vec!["a"; 20_000].join(",");
    let owner = json!({ "owner": { "kind": "User", "name": "a" } });
    let error = from_v1alpha1(old(json!({ key: names }), owner)).unwrap_err().to_string();
    assert!(error.contains(key) && error.contains("more than 16384 entries"), "{error}");
}

#[test]
fn rejects_or_ignores_invalid_preserved_fields() {
    let seen = to_v1beta1(new(json!({ "forceTenantPrefix": true }))).unwrap();
    let key = "conversion.ensemble/v1beta2";
    let with = |text: &str| {
        let mut seen = seen.clone();
        seen.annotations_mut().insert(key.to_owned(), text.to_owned());
        from_v1beta1(seen)
    };
    let incompatible = r#"{"in":{"spec":{"in":{"forceTenantPrefix":{"value":{"is":"often"}}}}}}"#;
    let error = with(incompatible).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot restore the fields in metadata.annotations[{key}]: they are not valid in the Tenant; remove it"
        )
    );
    assert_eq!(with("not ours").unwrap().spec.force_tenant_prefix, None);
}

//! Strategies that generate Tenants of each version, with all fields that differ between versions.

use std::collections::BTreeMap;

use capsule::api::{self, v1beta2::Tenant};
use proptest::{collection::vec, option, prelude::*, strategy::Union};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

type Any = BoxedStrategy<Value>;

fn one_of<const N: usize>(values: [Value; N]) -> Any {
    Union::new(values.map(Just)).boxed()
}

/// Generates an object with these optional fields.
fn object(fields: Vec<(&'static str, Any)>) -> Any {
    let (names, values): (Vec<_>, Vec<_>) =
        fields.into_iter().map(|(name, value)| (name, option::of(value))).unzip();
    let assemble = move |values: Vec<Option<Value>>| {
        let given = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Value::Object(given.collect())
    };
    values.prop_map(assemble).boxed()
}

fn with(required: Vec<(&'static str, Any)>, optional: Vec<(&'static str, Any)>) -> Any {
    let (names, values): (Vec<_>, Vec<_>) = required.into_iter().unzip();
    let both = move |(required, optional): (Vec<Value>, Value)| {
        let mut all: Map<String, Value> = optional.as_object().cloned().unwrap_or_default();
        all.extend(names.iter().map(|name| (*name).to_owned()).zip(required));
        Value::Object(all)
    };
    (values, object(optional)).prop_map(both).boxed()
}

fn list(item: Any, longest: usize) -> Any {
    vec(item, 0..=longest).prop_map(Value::from).boxed()
}

fn flag() -> Any {
    any::<bool>().prop_map(Value::from).boxed()
}

fn text() -> Any {
    prop_oneof!["[a-c]{1,3}", "[a-c, ]{1,4}", Just("a.b".to_owned())].prop_map(Value::from).boxed()
}

fn map() -> Any {
    prop::collection::btree_map("[a-c]{1,2}", "[a-c]{0,2}", 0..3).prop_map(|map| json!(map)).boxed()
}

fn names() -> Any {
    list(text(), 3)
}

fn allowed() -> Any {
    object(vec![("allowed", names()), ("allowedRegex", one_of([json!("^a"), json!("")]))])
}

fn default_allowed() -> Any {
    let requirement = one_of([json!({ "key": "a", "operator": "Exists" })]);
    object(vec![
        ("allowed", names()),
        ("allowedRegex", one_of([json!("^a"), json!("")])),
        ("matchLabels", map()),
        ("matchExpressions", list(requirement, 2)),
        ("default", text()),
    ])
}

fn forbidden() -> Any {
    object(vec![("denied", names()), ("deniedRegex", one_of([json!("^a"), json!("")]))])
}

fn metadata() -> Any {
    object(vec![("labels", map()), ("annotations", map())])
}

fn kind() -> Any {
    one_of([json!("User"), json!("Group"), json!("ServiceAccount")])
}

fn owner_name() -> Any {
    let names =
        ["alice", "bob", "Bob", "bob@oil.io", "cn=a,dc=b", "system:serviceaccount:a:b", " padded ", "oidc:x"];
    proptest::sample::select(names.to_vec()).prop_map(Value::from).boxed()
}

fn proxy() -> Any {
    let kinds = [
        "Nodes",
        "StorageClasses",
        "IngressClasses",
        "PriorityClasses",
        "RuntimeClasses",
        "PersistentVolumes",
    ];
    let kinds = proptest::sample::select(kinds.to_vec()).prop_map(Value::from).boxed();
    let operation = one_of([json!("List"), json!("Update"), json!("Delete")]);
    with(vec![("kind", kinds), ("operations", list(operation, 2))], vec![])
}

fn owner_v1beta1() -> Any {
    with(vec![("kind", kind()), ("name", owner_name())], vec![("proxySettings", list(proxy(), 2))])
}

fn owner() -> Any {
    let roles = vec![("clusterRoles", list(one_of([json!("view"), json!("admin")]), 2))];
    let optional = vec![("proxySettings", list(proxy(), 2)), ("labels", map()), ("annotations", map())];
    let given = [roles, optional].concat();
    with(vec![("kind", kind()), ("name", owner_name())], given)
}

fn services() -> Any {
    let types = object(vec![("nodePort", flag()), ("externalName", flag()), ("loadBalancer", flag())]);
    object(vec![
        ("additionalMetadata", metadata()),
        ("allowedServices", types),
        ("externalIPs", external_ips()),
        ("forbiddenLabels", forbidden()),
        ("forbiddenAnnotations", forbidden()),
    ])
}

fn external_ips() -> Any {
    with(vec![("allowed", list(one_of([json!("10.0.0.1"), json!("10.0.0.0/8")]), 2))], vec![])
}

fn binding(optional: Vec<(&'static str, Any)>) -> Any {
    let subject = one_of([json!({ "kind": "User", "name": "a" }), json!({ "kind": "Group", "name": "b" })]);
    let subjects = vec(subject, 1..3).prop_map(Value::from).boxed();
    with(vec![("clusterRoleName", one_of([json!("view"), json!("edit")])), ("subjects", subjects)], optional)
}

fn quota_items() -> Any {
    list(one_of([json!({ "hard": { "pods": "1" } }), json!({ "scopes": ["NotTerminating"] })]), 2)
}

fn limit_items() -> Any {
    list(one_of([json!({ "limits": [{ "type": "Pod" }] })]), 2)
}

fn policy_items() -> Any {
    list(one_of([json!({ "podSelector": {} }), json!({ "policyTypes": ["Ingress"] })]), 2)
}

fn items(of: Any) -> Any {
    object(vec![("items", of)])
}

fn scope() -> Any {
    one_of([json!("Cluster"), json!("Tenant"), json!("Namespace"), json!("Disabled")])
}

fn shared_spec() -> Vec<(&'static str, Any)> {
    vec![
        ("serviceOptions", services()),
        ("containerRegistries", allowed()),
        ("nodeSelector", map()),
        ("networkPolicies", items(policy_items())),
        ("limitRanges", items(limit_items())),
        (
            "resourceQuotas",
            object(vec![("scope", one_of([json!("Tenant"), json!("Namespace")])), ("items", quota_items())]),
        ),
        ("additionalRoleBindings", list(binding(vec![("labels", map()), ("annotations", map())]), 2)),
        ("imagePullPolicies", list(one_of([json!("Always"), json!("Never"), json!("IfNotPresent")]), 3)),
    ]
}

fn stored_spec() -> Any {
    let namespaces = object(vec![
        ("quota", (1..9).prop_map(Value::from).boxed()),
        ("additionalMetadata", metadata()),
        ("additionalMetadataList", list(object(vec![("labels", map())]), 2)),
        ("requiredMetadata", metadata()),
        ("forbiddenLabels", forbidden()),
        ("forbiddenAnnotations", forbidden()),
        ("managedMetadataOnly", flag()),
    ]);
    let ingress = object(vec![
        ("allowedClasses", default_allowed()),
        ("hostnameCollisionScope", scope()),
        ("allowedHostnames", allowed()),
        ("allowWildcardHostnames", flag()),
    ]);
    let own = vec![
        ("owners", list(owner(), 4)),
        ("data", one_of([json!({ "a": [null, { "b": 1 }] }), json!("text"), json!([])])),
        ("permissions", object(vec![("allowOwnerPromotion", flag())])),
        ("namespaceOptions", namespaces),
        ("storageClasses", default_allowed()),
        ("priorityClasses", default_allowed()),
        ("runtimeClasses", default_allowed()),
        ("gatewayOptions", object(vec![("allowedClasses", default_allowed())])),
        ("ingressOptions", ingress),
        ("cordoned", flag()),
        ("preventDeletion", flag()),
        ("forceTenantPrefix", flag()),
        ("podOptions", object(vec![("additionalMetadata", metadata())])),
        ("rules", list(one_of([json!({ "enforce": { "novel": 1 } })]), 2)),
    ];
    object([own, shared_spec()].concat())
}

fn v1beta1_spec() -> Any {
    let namespaces =
        object(vec![("quota", (1..9).prop_map(Value::from).boxed()), ("additionalMetadata", metadata())]);
    let ingress = object(vec![
        ("allowedClasses", allowed()),
        ("hostnameCollisionScope", scope()),
        ("allowedHostnames", allowed()),
    ]);
    let own = vec![
        ("namespaceOptions", namespaces),
        ("storageClasses", allowed()),
        ("priorityClasses", allowed()),
        ("ingressOptions", ingress),
    ];
    with(vec![("owners", list(owner_v1beta1(), 4))], [own, shared_spec()].concat())
}

fn v1alpha1_spec() -> Any {
    let full =
        with(vec![("kind", kind()), ("name", prop_oneof![owner_name(), Just(json!(""))].boxed())], vec![]);
    let classes = || prop_oneof![names(), allowed()].boxed();
    let metadata = || object(vec![("additionalLabels", map()), ("additionalAnnotations", map())]);
    with(
        vec![("owner", prop_oneof![full, owner_name()].boxed())],
        vec![
            ("namespaceQuota", (1..9).prop_map(Value::from).boxed()),
            ("namespacesMetadata", metadata()),
            ("servicesMetadata", metadata()),
            ("storageClasses", classes()),
            ("ingressClasses", classes()),
            ("ingressHostnames", allowed()),
            ("containerRegistries", allowed()),
            ("nodeSelector", map()),
            ("networkPolicies", policy_items()),
            ("limitRanges", limit_items()),
            ("resourceQuotas", quota_items()),
            ("additionalRoleBindings", list(binding(vec![]), 2)),
            ("externalServiceIPs", external_ips()),
        ],
    )
}

fn status() -> Any {
    let space = with(vec![("name", text())], vec![("uid", text()), ("metadata", metadata())]);
    object(vec![
        ("state", one_of([json!("Active"), json!("Cordoned"), json!("Terminating")])),
        ("observedGeneration", one_of([json!(3)])),
        ("owners", list(owner(), 2)),
        ("size", (0..9).prop_map(Value::from).boxed()),
        ("namespaces", names()),
        ("spaces", list(space, 2)),
    ])
}

fn old_status() -> Any {
    object(vec![("size", (0..9).prop_map(Value::from).boxed()), ("namespaces", names())])
}

/// Generates annotations of older versions, and others.
pub(super) fn old_annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
    let keys = [
        "theirs",
        "capsule.clastix.io/resource-quota-scope",
        "capsule.clastix.io/enable-node-ports",
        "capsule.clastix.io/enable-node-listing",
        "capsule.clastix.io/enable-ingressclass-deletion",
        "capsule.clastix.io/deny-wildcard",
        "capsule.clastix.io/cordon",
        "capsule.clastix.io/protected",
        "capsule.clastix.io/forbidden-namespace-labels",
        "capsule.clastix.io/forbidden-namespace-annotations-regexp",
        "clusterrolenames.capsule.clastix.io/0",
        "clusterrolenames.capsule.clastix.io/user.alice",
        "owners.capsule.clastix.io/user",
        "owners.capsule.clastix.io/group",
        "owners.capsule.clastix.io/serviceaccount",
        "priorityclass.capsule.clastix.io/allowed",
        "priorityclass.capsule.clastix.io/allowed-regex",
        "ingress.capsule.clastix.io/hostname-collision-scope",
    ];
    let values = ["", "true", "1", "False", "alice,bob", " bob , carol", "Namespace", "Tenant", "nonsense"];
    prop::collection::btree_map(
        proptest::sample::select(keys.map(str::to_owned).to_vec()),
        proptest::sample::select(values.map(str::to_owned).to_vec()),
        0..6,
    )
}

fn tenant<T: DeserializeOwned + std::fmt::Debug + 'static>(
    version: &'static str,
    spec: Any,
    status: Any,
) -> impl Strategy<Value = T> {
    // Another test covers annotations that every conversion rejects.
    let is_valid = |annotations: &BTreeMap<String, String>| {
        let flag = annotations.get("capsule.clastix.io/enable-node-ports").map(String::as_str);
        matches!(flag, None | Some("true" | "1" | "False"))
    };
    let labels = prop::collection::btree_map("a|capsule.clastix.io/cordon", "b|enabled", 0..2);
    let annotations = old_annotations().prop_filter("annotations that are rejected", is_valid);
    (spec, option::of(status), labels, annotations).prop_map(move |(spec, status, labels, annotations)| {
        let mut tenant = json!({
            "apiVersion": format!("capsule.clastix.io/{version}"), "kind": "Tenant", "metadata": { "name": "oil" },
            "spec": spec,
        });
        // The API server omits empty maps.
        if !labels.is_empty() {
            tenant["metadata"]["labels"] = json!(labels);
        }
        if !annotations.is_empty() {
            tenant["metadata"]["annotations"] = json!(annotations);
        }
        if let Some(status) = status {
            tenant["status"] = status;
        }
        serde_json::from_value(tenant).unwrap()
    })
}

pub(super) fn stored() -> impl Strategy<Value = Tenant> {
    tenant("v1beta2", stored_spec(), status())
}

pub(super) fn v1beta1() -> impl Strategy<Value = api::v1beta1::Tenant> {
    let status = object(vec![
        ("state", one_of([json!("Active"), json!("Cordoned")])),
        ("size", (0..9).prop_map(Value::from).boxed()),
    ]);
    tenant("v1beta1", v1beta1_spec(), status)
}

pub(super) fn v1alpha1() -> impl Strategy<Value = api::v1alpha1::Tenant> {
    tenant("v1alpha1", v1alpha1_spec(), old_status())
}

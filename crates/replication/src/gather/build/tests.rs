use std::sync::Arc;

use capsule::api::v1beta2::ReplicationScope;

use super::*;
use crate::target::{
    TenantNamespaces, targets,
    tests::{namespace, tenant},
};

fn scope(scope: ReplicationScope) -> Scope {
    let tenant = tenant("oil", json!({ "tier": "gold" }));
    let namespaces = vec![namespace("oil-dev", "oil", "oil"), namespace("oil-prod", "oil", "oil")];
    let members = TenantNamespaces::new(tenant, namespaces, "ensemble-system");
    let names = members.names().collect();
    Scope {
        targets: targets(&[members], scope),
        tenant_namespaces: Some(names),
        home: Some("oil-dev".to_owned()),
    }
}

fn resources(value: Value) -> Vec<ReplicatedResources> {
    serde_json::from_value(json!([value])).unwrap()
}

fn build_in(scope: &Scope, value: Value, objects: Value) -> Result<Vec<Item>, GatherError> {
    let resources = resources(value);
    let references = super::super::references(&resources, scope)?;
    let objects: Vec<Value> = serde_json::from_value(objects).unwrap();
    let objects = Arc::new(objects);
    let sources = references.into_iter().map(|reference| (reference, objects.clone())).collect();
    build(&resources, scope, &sources)
}

/// Returns the namespace, name, and origin of each item.
fn places(items: &[Item]) -> Vec<String> {
    let place = |item: &Item| {
        let ObjectId { namespace, name, .. } = &item.key.object;
        format!("{namespace}/{name} {} {}", item.key.tenant, item.key.origin)
    };
    items.iter().map(place).collect()
}

fn config_map(name: &str, namespace: Option<&str>) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "in": "{{namespace}}" } })
}

#[test]
fn raw_items_are_in_each_namespace_whatever_they_say() {
    let raw = json!({ "rawItems": [config_map("{{tenant.name}}-a", Some("kube-system"))] });
    let items = build_in(&scope(ReplicationScope::Namespace), raw, json!([])).unwrap();
    assert_eq!(places(&items), ["oil-dev/oil-a oil 0/raw-0", "oil-prod/oil-a oil 0/raw-0"]);
    assert_eq!(items[1].object["data"]["in"], "oil-prod");
}

#[test]
fn scopes_tenant_and_none_keep_the_namespace() {
    let raw = || json!({ "rawItems": [config_map("a", Some("shared"))] });
    for (of, expected) in [
        (ReplicationScope::Tenant, "shared/a oil 0/raw-0"),
        (ReplicationScope::None, "shared/a None 0/raw-0"),
    ] {
        assert_eq!(places(&build_in(&scope(of), raw(), json!([])).unwrap()), [expected]);
    }
}

#[test]
fn generators_use_tenant_namespace_and_context() {
    let template = "{{ range $i, $s := .secrets }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  \
        name: {{ $.tenant.metadata.name }}-{{ $s.metadata.name }}\n  namespace: kube-system\n\
        data:\n  in: {{ $.namespace.metadata.name }}\n  tier: {{ $.tenant.metadata.labels.tier }}\n\
        {{ end }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: count-{{ len .secrets }}-{{ len (index . \"1\") }}\n";
    let spec = json!({
        "generators": [{ "template": template }],
        "context": { "resources": [
            { "index": "secrets", "kind": "Secret", "namespace": "{{namespace}}", "selector": {} },
            { "kind": "Secret", "name": "x" },
        ] },
        "namespaceSelector": { "matchLabels": { "env": "oil-prod" } },
    });
    let secrets = json!([{ "metadata": { "name": "s" } }]);
    let items = build_in(&scope(ReplicationScope::Namespace), spec, secrets).unwrap();
    let expected = ["oil-prod/oil-s oil 0/generator-0-0", "oil-prod/count-1-1 oil 0/generator-0-1"];
    assert_eq!(places(&items), expected);
    assert_eq!(items[0].object["data"], json!({ "in": "oil-prod", "tier": "gold" }));
}

#[test]
fn copies_leave_out_their_own_namespace_and_our_copies() {
    let spec = json!({ "namespacedItems": [{ "kind": "Secret", "selector": { "matchLabels": { "copy": "yes" } } }] });
    let object = |name: &str, labels: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "oil-dev", "labels": labels } });
    let objects = json!([
        object("a", json!({ "copy": "yes", "team": "x" })),
        object("b", json!({ "copy": "yes", CREATED_BY_LABEL: REPLICATIONS })),
    ]);
    let items = build_in(&scope(ReplicationScope::Namespace), spec, objects).unwrap();
    assert_eq!(places(&items), ["oil-prod/a oil replica"]);
    assert_eq!(items[0].object["metadata"]["labels"], json!({ "team": "x" }));
}

#[test]
fn additional_metadata_has_tags_in_keys_and_values() {
    let spec = json!({
        "rawItems": [config_map("a", None)],
        "additionalMetadata": {
            "labels": { "{{tenant.name}}": "{{ namespace }}", CREATED_BY_LABEL: "me" },
            "annotations": { "note": "{{.namespace}}" },
        },
    });
    let items = build_in(&scope(ReplicationScope::Namespace), spec, json!([])).unwrap();
    assert_eq!(items[0].object["metadata"]["labels"], json!({ "oil": "oil-dev" }));
    assert_eq!(items[0].object["metadata"]["annotations"], json!({ "note": "" }));
}

#[test]
fn invalid_items_are_errors_with_their_place() {
    let fails = |raw: Value| {
        let error = build_in(&scope(ReplicationScope::Namespace), json!({ "rawItems": [raw] }), json!([]));
        error.unwrap_err().to_string()
    };
    for (raw, text) in [
        (json!({}), "apiVersion"),
        (json!({ "apiVersion": "a/b/c", "kind": "X", "metadata": { "name": "a" } }), "apiVersion"),
        (json!({ "apiVersion": "v1", "metadata": { "name": "a" } }), "kind"),
        (json!({ "apiVersion": "v1", "kind": "ConfigMap" }), "metadata.name"),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "a" } }),
            "generateName",
        ),
        (json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "../x" } }), "metadata.name"),
        (json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": [1] }), "metadata.name"),
        (json!("text"), "apiVersion"),
    ] {
        let error = fails(raw.clone());
        assert!(error.contains("spec.resources[0] (0/raw-0)") && error.contains(text), "{raw}: {error}");
    }
    let generator =
        json!({ "generators": [{ "template": "{{ .x | fromYaml }}" }, { "template": "{{ nope }}" }] });
    let error =
        build_in(&scope(ReplicationScope::Namespace), generator.clone(), json!([])).unwrap_err().to_string();
    assert!(error.contains("spec.resources[0].generators[1].template") && error.contains("nope"), "{error}");
    assert_eq!(template_errors(&resources(generator)).len(), 1);
}

#[test]
fn limits_items_and_bytes() {
    let many = json!({ "generators": vec![json!({
        "template": "{{ range $i, $x := .list }}{{ end }}{{ range 250 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\n{{ end }}",
    }); 5] });
    let error = build_in(&scope(ReplicationScope::Namespace), many, json!([])).unwrap_err().to_string();
    assert!(error.contains("2000 items"), "{error}");
    let mut large = config_map("a", None);
    large["data"]["big"] = "x".repeat(1_400_000).into();
    let few = json!({ "rawItems": vec![large.clone(); 2] });
    assert_eq!(build_in(&scope(ReplicationScope::Namespace), few, json!([])).unwrap().len(), 4);
    let error =
        build_in(&scope(ReplicationScope::Namespace), json!({ "rawItems": vec![large; 7] }), json!([]));
    assert!(error.unwrap_err().to_string().contains("bytes"));
}

#[test]
fn tenant_values_contain_the_roles_of_its_subjects() {
    let mut tenant = tenant("oil", json!({})).as_ref().clone();
    tenant.status = serde_json::from_value(json!({
        "size": 0, "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["view", "admin"] }],
    }))
    .ok();
    tenant.spec.additional_role_bindings = serde_json::from_value(json!([
        { "clusterRoleName": "edit", "subjects": [{ "kind": "User", "name": "alice" }] },
    ]))
    .unwrap();
    let values = tenant_values(&tenant);
    assert_eq!(values["rbac"][0]["Roles"], json!(["admin", "edit", "view"]));
    assert_eq!((&values["rbac"][0]["Name"], &values["metadata"]["name"]), (&json!("alice"), &json!("oil")));
}

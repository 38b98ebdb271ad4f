use serde_json::{Value, json};

use super::*;

fn messages(spec: Value) -> Vec<String> {
    validate("oil", &serde_json::from_value(spec).unwrap()).messages
}

/// Asserts that exactly these paths are rejected.
fn assert_rejected(spec: Value, paths: &[&str]) {
    let found = messages(spec.clone());
    let found: Vec<_> = found.iter().map(|error| error.split(": ").next().unwrap()).collect();
    assert_eq!(found, paths, "{spec}");
}

fn long() -> String {
    "x".repeat(MAX_ANNOTATIONS_SIZE)
}

/// Returns specs with this metadata in every field that is copied without rendering, with the path
/// of the field.
fn locations(metadata: &Value) -> Vec<(Value, &'static str)> {
    let with = |mut object: Value| {
        let fields = object.as_object_mut().unwrap();
        fields.extend(metadata.as_object().unwrap().clone());
        object
    };
    let subjects = json!([{ "kind": "User", "name": "bob" }]);
    vec![
        (
            json!({ "namespaceOptions": { "additionalMetadata": metadata } }),
            "spec.namespaceOptions.additionalMetadata",
        ),
        (
            json!({ "namespaceOptions": { "additionalMetadataList": [{}, metadata] } }),
            "spec.namespaceOptions.additionalMetadataList[1]",
        ),
        (
            json!({ "serviceOptions": { "additionalMetadata": metadata } }),
            "spec.serviceOptions.additionalMetadata",
        ),
        (json!({ "podOptions": { "additionalMetadata": metadata } }), "spec.podOptions.additionalMetadata"),
        (json!({ "owners": [with(json!({ "kind": "User", "name": "bob" }))] }), "spec.owners[0]"),
        (
            json!({ "additionalRoleBindings": [with(json!({ "clusterRoleName": "view", "subjects": subjects }))] }),
            "spec.additionalRoleBindings[0]",
        ),
    ]
}

#[test]
fn rejects_invalid_labels_and_annotations_in_every_field() {
    let good = json!({
        "labels": { "team": "oil", "example.com/env": "", "a.b/C_d": "1" },
        "annotations": { "Example.com/note": "any text {{ at all }}\n" },
    });
    for (spec, _) in locations(&good) {
        assert_eq!(messages(spec.clone()), [""; 0], "{spec}");
    }
    for (bad, at) in [
        (json!({ "labels": { "bad key!": "a" } }), "labels[bad key!]"),
        (json!({ "labels": { "Example.com/a": "a" } }), "labels[Example.com/a]"),
        (json!({ "labels": { "a/b/c": "a" } }), "labels[a/b/c]"),
        (json!({ "labels": { "": "a" } }), "labels[]"),
        (json!({ "labels": { "team": "no spaces" } }), "labels[team]"),
        (json!({ "labels": { "team": "x".repeat(64) } }), "labels[team]"),
        (json!({ "annotations": { "bad key!": "a" } }), "annotations[bad key!]"),
        (json!({ "annotations": { "/a": "a" } }), "annotations[/a]"),
    ] {
        for (spec, path) in locations(&bad) {
            assert_rejected(spec, &[&format!("{path}.{at}")]);
        }
    }
}

#[test]
fn rejects_annotations_whose_total_size_is_too_large() {
    for (spec, path) in locations(&json!({ "annotations": { "note": long() } })) {
        let found = messages(spec);
        assert!(
            found[0].starts_with(&format!("{path}.annotations: the annotations of an object")),
            "{found:?}"
        );
    }
    // Each entry fits, but the annotations of a namespace do not.
    let half = || json!({ "annotations": { "a": "x".repeat(MAX_ANNOTATIONS_SIZE / 2) } });
    let other = json!({ "annotations": { "b": "x".repeat(MAX_ANNOTATIONS_SIZE / 2) } });
    assert_rejected(
        json!({ "namespaceOptions": { "additionalMetadata": half(), "additionalMetadataList": [other] } }),
        &["spec"],
    );
    assert_rejected(json!({ "namespaceOptions": { "additionalMetadata": half() } }), &[]);
}

/// Templates are rendered with the name of the Tenant and the shortest name of a namespace.
#[test]
fn validates_rendered_templates() {
    let list =
        |labels: Value| json!({ "namespaceOptions": { "additionalMetadataList": [{ "labels": labels }] } });
    for labels in [
        json!({ "of": "{{tenant.name}}" }),
        json!({ "of": "{{ tenant.name }}-{{namespace}}" }),
        json!({ "{{tenant.name}}.example.com/{{ namespace }}": "a" }),
        json!({ "of": format!("{{{{namespace}}}}{}", "x".repeat(62)) }),
    ] {
        assert_eq!(messages(list(labels.clone())), [""; 0], "{labels}");
    }
    for labels in [
        json!({ "of": "{{unknown}}" }),
        json!({ "of": "{{namespace}}!" }),
        json!({ "of": format!("{{{{tenant.name}}}}{}", "x".repeat(61)) }),
        json!({ "of": format!("{{{{namespace}}}}{}", "x".repeat(63)) }),
        json!({ "{{unknown}}": "a" }),
    ] {
        assert_eq!(messages(list(labels.clone())).len(), 1, "{labels}");
    }
    // additionalMetadata has no templates.
    let options = json!({ "additionalMetadata": { "labels": { "of": "{{tenant.name}}" } } });
    assert_rejected(
        json!({ "namespaceOptions": options }),
        &["spec.namespaceOptions.additionalMetadata.labels[of]"],
    );
}

#[test]
fn rejects_node_selectors_and_required_keys_that_nothing_can_match() {
    assert_rejected(json!({ "nodeSelector": { "kubernetes.io/os": "linux", "pool": "" } }), &[]);
    assert_rejected(
        json!({ "nodeSelector": { "a,b": "c", "pool": "x=y" } }),
        &["spec.nodeSelector[a,b]", "spec.nodeSelector[pool]"],
    );
    let required = json!({ "labels": { "a b": "", "c": "^d$" }, "annotations": { "e f": "" } });
    assert_rejected(
        json!({ "namespaceOptions": { "requiredMetadata": required } }),
        &[
            "spec.namespaceOptions.requiredMetadata.labels[a b]",
            "spec.namespaceOptions.requiredMetadata.annotations[e f]",
        ],
    );
}

#[test]
fn rejects_roles_and_subjects_that_are_invalid_in_role_bindings() {
    let owner = |roles: Value| json!({ "owners": [{ "kind": "User", "name": "a", "clusterRoles": roles }] });
    assert_rejected(owner(json!(["admin", "system:view"])), &[]);
    assert_rejected(
        owner(json!(["admin", "", "a/b"])),
        &["spec.owners[0].clusterRoles[1]", "spec.owners[0].clusterRoles[2]"],
    );
    let binding = |role: &str, subject: Value| json!({ "additionalRoleBindings": [{ "clusterRoleName": role, "subjects": [subject] }] });
    let at = "spec.additionalRoleBindings[0]";
    for subject in [
        json!({ "kind": "User", "name": "System:Any one" }),
        json!({ "kind": "Group", "name": "devs", "apiGroup": RBAC_GROUP }),
        json!({ "kind": "ServiceAccount", "name": "deployer" }),
        json!({ "kind": "ServiceAccount", "name": "a.b", "namespace": "default", "apiGroup": "" }),
    ] {
        assert_rejected(binding("view", subject), &[]);
    }
    assert_rejected(
        binding("..", json!({ "kind": "User", "name": "" })),
        &[&format!("{at}.clusterRoleName"), &format!("{at}.subjects[0].name")],
    );
    for subject in [
        json!({ "kind": "ServiceAccount", "name": "a", "apiGroup": RBAC_GROUP }),
        json!({ "kind": "User", "name": "a", "apiGroup": "apps" }),
    ] {
        assert_rejected(binding("view", subject), &[&format!("{at}.subjects[0].apiGroup")]);
    }
    let account = json!({ "kind": "ServiceAccount", "name": "system:serviceaccount:a:b" });
    assert_rejected(binding("view", account), &[&format!("{at}.subjects[0].name")]);
}

#[test]
fn rejects_invalid_selectors() {
    let good = json!({ "matchLabels": { "a": "b" }, "matchExpressions": [
        { "key": "c", "operator": "In", "values": ["d", ""] }, { "key": "e", "operator": "DoesNotExist" },
    ] });
    let bad = json!({ "matchLabels": { "a b": "c" }, "matchExpressions": [
        { "key": "c", "operator": "Like" }, { "key": "d", "operator": "In" },
        { "key": "e!", "operator": "Exists", "values": ["f g"] },
    ] });
    let ends = [
        "matchLabels[a b]",
        "matchExpressions[0].operator",
        "matchExpressions[1].values",
        "matchExpressions[2].key",
        "matchExpressions[2].values",
        "matchExpressions[2].values[0]",
    ];
    let locations = |selector: &Value| {
        [
            (json!({ "permissions": { "matchOwners": [selector] } }), "spec.permissions.matchOwners[0]"),
            (
                json!({ "namespaceOptions": { "additionalMetadataList": [{ "namespaceSelector": selector }] } }),
                "spec.namespaceOptions.additionalMetadataList[0].namespaceSelector",
            ),
            (json!({ "storageClasses": selector }), "spec.storageClasses"),
            (json!({ "priorityClasses": selector }), "spec.priorityClasses"),
            (json!({ "runtimeClasses": selector }), "spec.runtimeClasses"),
            (json!({ "deviceClasses": selector }), "spec.deviceClasses"),
            (
                json!({ "ingressOptions": { "allowedClasses": selector } }),
                "spec.ingressOptions.allowedClasses",
            ),
            (
                json!({ "gatewayOptions": { "allowedClasses": selector } }),
                "spec.gatewayOptions.allowedClasses",
            ),
        ]
    };
    for (spec, _) in locations(&good) {
        assert_rejected(spec, &[]);
    }
    for (spec, path) in locations(&bad) {
        let paths: Vec<_> = ends.iter().map(|end| format!("{path}.{end}")).collect();
        assert_rejected(spec, &paths.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn quotes_only_the_first_characters_and_escapes_them() {
    assert_eq!(quoted("a\u{7}b"), "a\\u{7}b");
    assert_eq!(quoted(&"x".repeat(100)).len(), MAX_QUOTED_CHARS + 3);
}

#[test]
fn limits_recorded_violations_and_detects_new_ones() {
    let with = |count: usize| {
        let labels: BTreeMap<_, _> =
            (0..count).map(|at| (format!("bad key {at:06}"), String::new())).collect();
        validate("oil", &TenantSpec { node_selector: labels, ..TenantSpec::default() })
    };
    let many = with(10_000);
    assert_eq!((many.messages.len(), many.count), (MAX_RECORDED, 10_000));
    assert_eq!(with(1_000).since(&with(1_000)).message(), None);
    assert_eq!(with(999).since(&with(1_000)).message(), None);
    assert_eq!(with(1_001).since(&with(1_000)).message().unwrap(), "and 1 more errors");
    assert!(with(18).since(&Violations::default()).message().unwrap().ends_with("; and 2 more errors"));
}

/// The test `api_server_rejects_the_same_propagated_values` runs the same cases on a real API
/// server.
#[test]
fn rejects_child_specs_that_the_api_server_rejects() {
    let cases: Value =
        serde_json::from_str(include_str!("../../../../capsule/tests/fixtures/propagated-values.json"))
            .unwrap();
    let cases = cases["specs"].as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let field = if case["kind"] == "LimitRange" { "limitRanges" } else { "networkPolicies" };
        let path = case["error"].as_str().map(|error| format!("spec.{field}.items[0].{error}"));
        let paths: Vec<_> = path.iter().map(String::as_str).collect();
        assert_rejected(json!({ field: { "items": [case["spec"]] } }), &paths);
    }
}

use serde_json::{Value, json};

use super::*;

fn told(spec: Value) -> Vec<String> {
    faults("oil", &serde_json::from_value(spec).unwrap()).spelled
}

/// The paths that are refused, and nothing else.
fn assert_refused(spec: Value, paths: &[&str]) {
    let found = told(spec.clone());
    let found: Vec<_> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(found, paths, "{spec}");
}

fn long() -> String {
    "x".repeat(MAX_ANNOTATIONS_SIZE)
}

/// A spec in which metadata of this shape stands where it is copied as it is, with the path of each.
fn places(metadata: &Value) -> Vec<(Value, &'static str)> {
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
fn malformed_labels_and_annotations_are_refused_wherever_they_are_copied_from() {
    let good = json!({
        "labels": { "team": "oil", "example.com/env": "", "a.b/C_d": "1" },
        "annotations": { "Example.com/note": "any text {{ at all }}\n" },
    });
    for (spec, _) in places(&good) {
        assert_eq!(told(spec.clone()), [""; 0], "{spec}");
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
        for (spec, path) in places(&bad) {
            assert_refused(spec, &[&format!("{path}.{at}")]);
        }
    }
}

#[test]
fn annotations_that_are_too_large_together_are_refused() {
    for (spec, path) in places(&json!({ "annotations": { "note": long() } })) {
        let found = told(spec);
        assert!(
            found[0].starts_with(&format!("{path}.annotations: the annotations of an object")),
            "{found:?}"
        );
    }
    // Each of them fits, and all that a namespace gets does not.
    let half = || json!({ "annotations": { "a": "x".repeat(MAX_ANNOTATIONS_SIZE / 2) } });
    let other = json!({ "annotations": { "b": "x".repeat(MAX_ANNOTATIONS_SIZE / 2) } });
    assert_refused(
        json!({ "namespaceOptions": { "additionalMetadata": half(), "additionalMetadataList": [other] } }),
        &["spec"],
    );
    assert_refused(json!({ "namespaceOptions": { "additionalMetadata": half() } }), &[]);
}

/// What is known of a template: the name of the Tenant, and that a namespace has a name of at least one letter.
#[test]
fn templates_are_judged_by_what_they_become() {
    let list =
        |labels: Value| json!({ "namespaceOptions": { "additionalMetadataList": [{ "labels": labels }] } });
    for labels in [
        json!({ "of": "{{tenant.name}}" }),
        json!({ "of": "{{ tenant.name }}-{{namespace}}" }),
        json!({ "{{tenant.name}}.example.com/{{ namespace }}": "a" }),
        json!({ "of": format!("{{{{namespace}}}}{}", "x".repeat(62)) }),
    ] {
        assert_eq!(told(list(labels.clone())), [""; 0], "{labels}");
    }
    for labels in [
        json!({ "of": "{{unknown}}" }),
        json!({ "of": "{{namespace}}!" }),
        json!({ "of": format!("{{{{tenant.name}}}}{}", "x".repeat(61)) }),
        json!({ "of": format!("{{{{namespace}}}}{}", "x".repeat(63)) }),
        json!({ "{{unknown}}": "a" }),
    ] {
        assert_eq!(told(list(labels.clone())).len(), 1, "{labels}");
    }
    // Here nothing is filled in.
    let options = json!({ "additionalMetadata": { "labels": { "of": "{{tenant.name}}" } } });
    assert_refused(
        json!({ "namespaceOptions": options }),
        &["spec.namespaceOptions.additionalMetadata.labels[of]"],
    );
}

#[test]
fn node_selectors_and_required_keys_are_refused_if_nothing_can_have_them() {
    assert_refused(json!({ "nodeSelector": { "kubernetes.io/os": "linux", "pool": "" } }), &[]);
    assert_refused(
        json!({ "nodeSelector": { "a,b": "c", "pool": "x=y" } }),
        &["spec.nodeSelector[a,b]", "spec.nodeSelector[pool]"],
    );
    let required = json!({ "labels": { "a b": "", "c": "^d$" }, "annotations": { "e f": "" } });
    assert_refused(
        json!({ "namespaceOptions": { "requiredMetadata": required } }),
        &[
            "spec.namespaceOptions.requiredMetadata.labels[a b]",
            "spec.namespaceOptions.requiredMetadata.annotations[e f]",
        ],
    );
}

#[test]
fn roles_and_subjects_that_no_role_binding_can_have_are_refused() {
    let owner = |roles: Value| json!({ "owners": [{ "kind": "User", "name": "a", "clusterRoles": roles }] });
    assert_refused(owner(json!(["admin", "system:view"])), &[]);
    assert_refused(
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
        assert_refused(binding("view", subject), &[]);
    }
    assert_refused(
        binding("..", json!({ "kind": "User", "name": "" })),
        &[&format!("{at}.clusterRoleName"), &format!("{at}.subjects[0].name")],
    );
    for subject in [
        json!({ "kind": "ServiceAccount", "name": "a", "apiGroup": RBAC_GROUP }),
        json!({ "kind": "User", "name": "a", "apiGroup": "apps" }),
    ] {
        assert_refused(binding("view", subject), &[&format!("{at}.subjects[0].apiGroup")]);
    }
    let account = json!({ "kind": "ServiceAccount", "name": "system:serviceaccount:a:b" });
    assert_refused(binding("view", account), &[&format!("{at}.subjects[0].name")]);
}

#[test]
fn selectors_that_choose_nothing_are_refused() {
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
    let places = |selector: &Value| {
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
    for (spec, _) in places(&good) {
        assert_refused(spec, &[]);
    }
    for (spec, path) in places(&bad) {
        let paths: Vec<_> = ends.iter().map(|end| format!("{path}.{end}")).collect();
        assert_refused(spec, &paths.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_repeated_to_the_user_is_short_and_printable() {
    assert_eq!(shown("a\u{7}b"), "a\\u{7}b");
    assert_eq!(shown(&"x".repeat(100)).len(), MAX_SHOWN + 3);
}

#[test]
fn however_many_faults_there_are_few_are_kept_and_new_ones_are_noticed() {
    let with = |count: usize| {
        let labels: BTreeMap<_, _> =
            (0..count).map(|at| (format!("bad key {at:06}"), String::new())).collect();
        faults("oil", &TenantSpec { node_selector: labels, ..TenantSpec::default() })
    };
    let many = with(10_000);
    assert_eq!((many.spelled.len(), many.count), (MAX_SPELLED, 10_000));
    assert_eq!(with(1_000).since(&with(1_000)).message(), None);
    assert_eq!(with(999).since(&with(1_000)).message(), None);
    assert_eq!(with(1_001).since(&with(1_000)).message().unwrap(), "and 1 more faults");
    assert!(with(18).since(&Faults::default()).message().unwrap().ends_with("; and 2 more faults"));
}

/// The same cases are put to a real API server by the test `the_api_server_judges_copied_values_alike`.
#[test]
fn policies_that_the_api_server_refuses_are_refused() {
    let cases: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/copied-values.json")).unwrap();
    let cases = cases["specs"].as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let field = if case["kind"] == "LimitRange" { "limitRanges" } else { "networkPolicies" };
        let path = case["fault"].as_str().map(|fault| format!("spec.{field}.items[0].{fault}"));
        let paths: Vec<_> = path.iter().map(String::as_str).collect();
        assert_refused(json!({ field: { "items": [case["spec"]] } }), &paths);
    }
}

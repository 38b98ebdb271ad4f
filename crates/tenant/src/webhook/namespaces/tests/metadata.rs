//! Metadata that a Tenant sets on its namespaces.

use super::*;

const LEVEL: &str = "pod-security.kubernetes.io/enforce";

/// Returns a Tenant that sets a Pod Security level on all namespaces, and a label on those with
/// `env: dev`.
fn restricted() -> Arc<Tenant> {
    let options = json!({
        "additionalMetadata": { "labels": { LEVEL: "restricted" }, "annotations": { "note": "x" } },
        "additionalMetadataList": [
            { "namespaceSelector": { "matchLabels": { "env": "dev" } }, "labels": { "of": "{{namespace}}" } },
        ],
    });
    tenant("oil", json!({ "namespaceOptions": options }))
}

/// Returns a namespace of the Tenant with additional labels.
fn labelled(labels: Value) -> Namespace {
    let mut one = member("dev", "oil");
    let more: BTreeMap<String, String> = serde_json::from_value(labels).unwrap();
    one.metadata.labels.as_mut().unwrap().extend(more);
    one.metadata.annotations = Some([("note".to_owned(), "x".to_owned())].into());
    one
}

#[test]
fn only_administrators_change_metadata_of_the_tenant() {
    let old = || labelled(json!({ LEVEL: "restricted", "env": "dev", "of": "dev" }));
    let changes = [
        (
            labelled(json!({ LEVEL: "privileged", "env": "dev", "of": "dev" })),
            "the label pod-security.kubernetes.io/enforce",
        ),
        (labelled(json!({ "env": "dev", "of": "dev" })), "the label pod-security.kubernetes.io/enforce"),
        (labelled(json!({ LEVEL: "restricted", "env": "dev" })), "the label of"),
        (
            labelled(
                json!({ LEVEL: "restricted", "env": "dev", "of": "dev", "pod-security.kubernetes.io/enforce-version": "v1.0" }),
            ),
            "the label pod-security.kubernetes.io/enforce-version",
        ),
        (
            {
                let mut bare = old();
                bare.metadata.annotations = None;
                bare
            },
            "the annotation note",
        ),
    ];
    for (new, what) in changes {
        for role in [Role::CapsuleUser, Role::Other] {
            let message = denial(Some(old()), Some(new.clone()), &context(role, &[restricted()], &[]));
            assert!(message.contains(&format!("{what} is managed by Tenant oil")), "{role:?}: {message}");
        }
        for role in [Role::Administrator, Role::Manager] {
            assert_eq!(denial(Some(old()), Some(new.clone()), &context(role, &[restricted()], &[])), "");
        }
    }
    for role in [Role::CapsuleUser, Role::Other] {
        let context = context(role, &[restricted()], &[]);
        let free = labelled(
            json!({ LEVEL: "restricted", "env": "test", "pod-security.kubernetes.io/warn-version": "v1.0" }),
        );
        assert_eq!(
            denial(Some(old()), Some(free), &context),
            "",
            "{role:?}: keys that selectors match can be changed"
        );
        let worse = labelled(json!({ LEVEL: "baseline" }));
        assert_eq!(denial(Some(worse.clone()), Some(worse.clone()), &context), "", "{role:?}: no change");
        assert_eq!(denial(Some(worse), Some(labelled(json!({ LEVEL: "restricted" }))), &context), "");
    }
}

#[test]
fn ignores_labels_of_the_controller_when_matching_selectors() {
    let entry = json!({
        "namespaceSelector": { "matchExpressions": [{ "key": LEVEL, "operator": "DoesNotExist" }] },
        "labels": { LEVEL: "baseline" },
    });
    let spec = json!({ "namespaceOptions": { "additionalMetadataList": [entry] } });
    let mut oil = Tenant::clone(&tenant("oil", spec));
    let space = json!({ "name": "dev", "uid": "u", "metadata": { "labels": { LEVEL: "baseline" } } });
    oil.status = serde_json::from_value(json!({ "spaces": [space] })).unwrap();
    let of = |level: &str| {
        let mut one = labelled(json!({ LEVEL: level }));
        one.metadata.uid = Some("u".to_owned());
        one
    };
    let alice = context(Role::CapsuleUser, &[Arc::new(oil)], &[]);
    let message = denial(Some(of("baseline")), Some(of("privileged")), &alice);
    assert!(message.contains("is managed by Tenant oil"), "{message}");
    // Users may change labels that they set themselves.
    let mut theirs = of("privileged");
    theirs.metadata.uid = Some("another".to_owned());
    assert_eq!(
        denial(
            Some(theirs.clone()),
            Some({
                theirs.metadata.labels.as_mut().unwrap().insert(LEVEL.to_owned(), "baseline".to_owned());
                theirs
            }),
            &alice
        ),
        ""
    );
}

#[test]
fn denies_new_namespace_without_metadata_of_the_tenant() {
    let alice = context(Role::CapsuleUser, &[restricted()], &[]);
    let requested = namespace("dev", json!({ "labels": { LEVEL: "privileged" } }));
    let namespace = created(requested, &alice).unwrap().unwrap();
    assert_eq!(namespace.metadata.labels.as_ref().unwrap()[LEVEL], "restricted");
    assert_eq!(denial(None, Some(namespace), &alice), "");
    // The mutating webhook was skipped.
    for (new, key) in [
        (labelled(json!({})), LEVEL),
        (labelled(json!({ LEVEL: "privileged" })), LEVEL),
        (member("dev", "oil"), LEVEL),
    ] {
        let message = denial(None, Some(new), &alice);
        assert!(message.contains(key), "{message}");
    }
    let message = denial(None, Some(labelled(json!({}))), &alice);
    assert!(message.contains("did not answer in time; try again"), "{message}");
}

#[test]
fn sets_name_independent_metadata_on_namespace_with_generated_name() {
    let alice = context(Role::CapsuleUser, &[restricted()], &[]);
    let mut new = namespace("", json!({ "generateName": "oil-", "labels": { "env": "dev" } }));
    new.metadata.name = None;
    let mut namespace = created(new, &alice).unwrap().unwrap();
    let labels = namespace.metadata.labels.clone().unwrap();
    assert_eq!((labels.get(LEVEL).map(String::as_str), labels.get("of")), (Some("restricted"), None));
    namespace.metadata.name = Some("oil-x7k2p".to_owned());
    assert_eq!(denial(None, Some(namespace), &alice), "");
}

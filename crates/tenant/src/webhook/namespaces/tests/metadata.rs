//! What a Tenant gives its namespaces.

use super::*;

const LEVEL: &str = "pod-security.kubernetes.io/enforce";

/// A Tenant that gives all of its namespaces a level, and those with `env: dev` another label.
fn restricted() -> Arc<Tenant> {
    let options = json!({
        "additionalMetadata": { "labels": { LEVEL: "restricted" }, "annotations": { "note": "x" } },
        "additionalMetadataList": [
            { "namespaceSelector": { "matchLabels": { "env": "dev" } }, "labels": { "of": "{{namespace}}" } },
        ],
    });
    tenant("oil", json!({ "namespaceOptions": options }))
}

/// One of its namespaces.
fn labelled(labels: Value) -> Namespace {
    let mut one = member("dev", "oil");
    let more: BTreeMap<String, String> = serde_json::from_value(labels).unwrap();
    one.metadata.labels.as_mut().unwrap().extend(more);
    one.metadata.annotations = Some([("note".to_owned(), "x".to_owned())].into());
    one
}

#[test]
fn what_a_tenant_gives_is_changed_by_administrators_alone() {
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
            let refused = said(Some(old()), Some(new.clone()), &facts(role, &[restricted()], &[]));
            assert!(refused.contains(&format!("{what} is for Tenant oil to say")), "{role:?}: {refused}");
        }
        for role in [Role::Administrator, Role::Manager] {
            assert_eq!(said(Some(old()), Some(new.clone()), &facts(role, &[restricted()], &[])), "");
        }
    }
    for role in [Role::CapsuleUser, Role::Other] {
        let facts = facts(role, &[restricted()], &[]);
        let free = labelled(
            json!({ LEVEL: "restricted", "env": "test", "pod-security.kubernetes.io/warn-version": "v1.0" }),
        );
        assert_eq!(said(Some(old()), Some(free), &facts), "", "{role:?}: what selectors go by is theirs");
        let worse = labelled(json!({ LEVEL: "baseline" }));
        assert_eq!(
            said(Some(worse.clone()), Some(worse.clone()), &facts),
            "",
            "{role:?}: nothing is changed"
        );
        assert_eq!(said(Some(worse), Some(labelled(json!({ LEVEL: "restricted" }))), &facts), "");
    }
}

#[test]
fn what_the_controller_gave_does_not_choose_for_itself() {
    let entry = json!({
        "namespaceSelector": { "matchExpressions": [{ "key": LEVEL, "operator": "DoesNotExist" }] },
        "labels": { LEVEL: "baseline" },
    });
    let spec = json!({ "namespaceOptions": { "additionalMetadataList": [entry] } });
    let mut oil = Tenant::clone(&tenant("oil", spec));
    let given = json!({ "name": "dev", "uid": "u", "metadata": { "labels": { LEVEL: "baseline" } } });
    oil.status = serde_json::from_value(json!({ "spaces": [given] })).unwrap();
    let of = |level: &str| {
        let mut one = labelled(json!({ LEVEL: level }));
        one.metadata.uid = Some("u".to_owned());
        one
    };
    let alice = facts(Role::CapsuleUser, &[Arc::new(oil)], &[]);
    let refused = said(Some(of("baseline")), Some(of("privileged")), &alice);
    assert!(refused.contains("is for Tenant oil to say"), "{refused}");
    // What they chose themselves is theirs.
    let mut theirs = of("privileged");
    theirs.metadata.uid = Some("another".to_owned());
    assert_eq!(
        said(
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
fn a_new_namespace_has_the_level_that_its_tenant_gives_or_is_refused() {
    let alice = facts(Role::CapsuleUser, &[restricted()], &[]);
    let asked = namespace("dev", json!({ "labels": { LEVEL: "privileged" } }));
    let given = assigned(asked, &alice).unwrap().unwrap();
    assert_eq!(given.metadata.labels.as_ref().unwrap()[LEVEL], "restricted");
    assert_eq!(said(None, Some(given), &alice), "");
    // As if the manager had not been asked in time.
    for (new, key) in [
        (labelled(json!({})), LEVEL),
        (labelled(json!({ LEVEL: "privileged" })), LEVEL),
        (member("dev", "oil"), LEVEL),
    ] {
        let refused = said(None, Some(new), &alice);
        assert!(refused.contains(key), "{refused}");
    }
    let refused = said(None, Some(labelled(json!({}))), &alice);
    assert!(refused.contains("did not answer in time; try again"), "{refused}");
}

#[test]
fn a_namespace_whose_name_is_made_up_later_has_at_once_what_does_not_depend_on_it() {
    let alice = facts(Role::CapsuleUser, &[restricted()], &[]);
    let mut new = namespace("", json!({ "generateName": "oil-", "labels": { "env": "dev" } }));
    new.metadata.name = None;
    let mut given = assigned(new, &alice).unwrap().unwrap();
    let labels = given.metadata.labels.clone().unwrap();
    assert_eq!((labels.get(LEVEL).map(String::as_str), labels.get("of")), (Some("restricted"), None));
    given.metadata.name = Some("oil-x7k2p".to_owned());
    assert_eq!(said(None, Some(given), &alice), "");
}

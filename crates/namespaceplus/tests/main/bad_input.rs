//! The API server rejects invalid input with a clear message.

use crate::support::World;

async fn refused(world: &World, name: &str, spec: &str) -> String {
    let manifest = format!(
        "apiVersion: mygroup.my.domain/v1\nkind: NamespacePlus\nmetadata: {{name: {name}, namespace: {}}}\nspec: {spec}\n",
        world.home.name()
    );
    let error = world.harness.cluster.apply_yaml(&manifest).await.expect_err("it should be rejected");
    format!("{error:#}")
}

#[tokio::test]
async fn a_name_that_no_namespace_can_have_is_refused() {
    let world = World::new().await;
    for (name, says) in [
        ("a".repeat(64).as_str(), "at most 63 characters"),
        ("a.b", "no '.'"),
        ("default", "belong to the cluster"),
        ("kube-team", "belong to the cluster"),
    ] {
        let error = refused(&world, name, "{}").await;
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[tokio::test]
async fn malformed_quantities_are_refused() {
    let world = World::new().await;
    for spec in [
        "{quota: {cpu: lots}}",
        "{quota: {memory: 1Gb}}",
        "{quota: {pods: ''}}",
        "{limitRange: {limits: [{type: Container, max: {cpu: one}}]}}",
    ] {
        let error = refused(&world, &world.name, spec).await;
        assert!(
            error.contains("each amount is a number or a quantity: 2, 500m, 1.5, 2Gi"),
            "{spec}: {error}"
        );
    }
    let error = refused(&world, &world.name, "{quota: {cpu: '-1'}}").await;
    assert!(error.contains("not below zero"), "{error}");
}

#[tokio::test]
async fn unknown_fields_are_refused() {
    let world = World::new().await;
    let error = refused(&world, &world.name, "{quotas: {cpu: 1}}").await;
    assert!(error.contains("quotas") && error.contains("field not declared"), "{error}");
    let hook =
        "{name: a, on: [Ready], url: 'https://example.com', headersSecretRef: {name: b, namespace: c}}";
    let error = refused(&world, &world.name, &format!("{{hooks: [{hook}]}}")).await;
    assert!(error.contains("headersSecretRef.namespace"), "a reference to another namespace: {error}");
}

#[tokio::test]
async fn keys_that_belong_to_others_are_refused() {
    let world = World::new().await;
    for spec in [
        "{labels: {kubernetes.io/metadata.name: other}}",
        "{labels: {app.kubernetes.io/managed-by: me}}",
        "{annotations: {scheduler.alpha.kubernetes.io/node-selector: a=b}}",
        "{labels: {capsule.clastix.io/tenant: oil}}",
        "{annotations: {mygroup.my.domain/owner: me}}",
    ] {
        let error = refused(&world, &world.name, spec).await;
        assert!(error.contains("cannot be set here"), "{spec}: {error}");
    }
}

#[tokio::test]
async fn labels_that_kubernetes_would_not_take_are_refused() {
    let world = World::new().await;
    for (spec, says) in [
        ("{labels: {team: 'not a label'}}".to_owned(), "a label's value"),
        (format!("{{labels: {{team: {}}}}}", "x".repeat(64)), "63 bytes"),
        ("{labels: {'not a key': x}}".to_owned(), "a key is a name"),
        (format!("{{annotations: {{{}: x}}}}", "k".repeat(64)), "a key is a name"),
    ] {
        let error = refused(&world, &world.name, &spec).await;
        assert!(error.contains(says), "{spec}: {error}");
    }
}

#[tokio::test]
async fn parts_that_contradict_themselves_are_refused() {
    let world = World::new().await;
    let user = "subjects: [{kind: User, name: ada}]";
    for (spec, says) in [
        (format!("{{roleBindings: [{{name: a, {user}}}]}}"), "exactly one of role and clusterRole"),
        (
            format!("{{roleBindings: [{{name: a, role: b, clusterRole: c, {user}}}]}}"),
            "exactly one of role and clusterRole",
        ),
        ("{roleBindings: [{name: a, role: b, subjects: []}]}".to_owned(), "subjects"),
        (
            "{roleBindings: [{name: a, role: b, subjects: [{kind: ServiceAccount, name: c}]}]}".to_owned(),
            "needs its namespace",
        ),
        (format!("{{roleBindings: [{{name: A_b, role: b, {user}}}]}}"), "a name is made of"),
        ("{networkPolicies: [{name: a, spec: {}}, {name: a, spec: {}}]}".to_owned(), "networkPolicies"),
        (
            "{podDisruptionBudgets: [{name: a, spec: {minAvailable: 1, maxUnavailable: 1}}]}".to_owned(),
            "not both",
        ),
        ("{deletionPolicy: Burn}".to_owned(), "\"Retain\", \"Delete\""),
        (
            "{hooks: [{name: a, on: [Ready], url: 'ftp://example.com'}]}".to_owned(),
            "must begin with https://",
        ),
        (
            "{hooks: [{name: a, url: 'https://example.com'}]}".to_owned(),
            "on must list the events that trigger the hook: [Created, Ready, Deleted]",
        ),
        (
            "{hooks: [{name: a, on: [Ready], \"on\": [Created], url: 'https://example.com'}]}".to_owned(),
            "must be set exactly once",
        ),
        (
            "{hooks: [{name: a, on: [Gone], url: 'https://example.com'}]}".to_owned(),
            "\"Created\", \"Ready\", \"Deleted\"",
        ),
    ] {
        let error = refused(&world, &world.name, &spec).await;
        assert!(error.contains(says), "{spec}: {error}");
    }
}

//! The API server rejects invalid input with a clear message.

use crate::support::TestEnv;

async fn rejection(env: &TestEnv, name: &str, spec: &str) -> String {
    let manifest = format!(
        "apiVersion: mygroup.my.domain/v1\nkind: NamespacePlus\nmetadata: {{name: {name}, namespace: {}}}\nspec: {spec}\n",
        env.home.name()
    );
    let error = env.harness.cluster.apply_yaml(&manifest).await.expect_err("it should be rejected");
    format!("{error:#}")
}

#[tokio::test]
async fn rejects_invalid_namespace_names() {
    let env = TestEnv::new().await;
    for (name, expected) in [
        ("a".repeat(64).as_str(), "at most 63 characters"),
        ("a.b", "no '.'"),
        ("default", "belong to the cluster"),
        ("kube-team", "belong to the cluster"),
    ] {
        let error = rejection(&env, name, "{}").await;
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[tokio::test]
async fn rejects_malformed_quantities() {
    let env = TestEnv::new().await;
    for (spec, expected) in [
        ("{quota: {cpu: lots}}", "spec.quota.cpu in body should match"),
        ("{quota: {memory: 1Gb}}", "spec.quota.memory in body should match"),
        ("{quota: {pods: ''}}", "spec.quota.pods in body should match"),
        ("{quota: {cpu: '-1'}}", "spec.quota.cpu in body should match"),
        ("{quota: {cpu: -1}}", "spec.quota.cpu in body should be greater than or equal to 0"),
        (
            "{limitRange: {limits: [{type: Container, max: {cpu: one}}]}}",
            "spec.limitRange.limits[0].max.cpu in body should match",
        ),
    ] {
        let error = rejection(&env, &env.name, spec).await;
        assert!(error.contains(expected), "{spec}: {error}");
    }
}

#[tokio::test]
async fn rejects_unknown_fields() {
    let env = TestEnv::new().await;
    let error = rejection(&env, &env.name, "{quotas: {cpu: 1}}").await;
    assert!(error.contains("quotas") && error.contains("field not declared"), "{error}");
    let hook =
        "{name: a, on: [Ready], url: 'https://example.com', headersSecretRef: {name: b, namespace: c}}";
    let error = rejection(&env, &env.name, &format!("{{hooks: [{hook}]}}")).await;
    assert!(error.contains("headersSecretRef.namespace"), "a reference to another namespace: {error}");
}

#[tokio::test]
async fn rejects_reserved_keys() {
    let env = TestEnv::new().await;
    for spec in [
        "{labels: {kubernetes.io/metadata.name: other}}",
        "{labels: {app.kubernetes.io/managed-by: me}}",
        "{annotations: {scheduler.alpha.kubernetes.io/node-selector: a=b}}",
        "{labels: {capsule.clastix.io/tenant: oil}}",
        "{annotations: {mygroup.my.domain/owner: me}}",
    ] {
        let error = rejection(&env, &env.name, spec).await;
        assert!(error.contains("cannot be set here"), "{spec}: {error}");
    }
}

#[tokio::test]
async fn rejects_invalid_labels() {
    let env = TestEnv::new().await;
    for (spec, expected) in [
        ("{labels: {team: 'not a label'}}".to_owned(), "a label's value"),
        (format!("{{labels: {{team: {}}}}}", "x".repeat(64)), "63 bytes"),
        ("{labels: {'not a key': x}}".to_owned(), "a key is a name"),
        (format!("{{annotations: {{{}: x}}}}", "k".repeat(64)), "a key is a name"),
    ] {
        let error = rejection(&env, &env.name, &spec).await;
        assert!(error.contains(expected), "{spec}: {error}");
    }
}

#[tokio::test]
async fn rejects_contradictory_fields() {
    let env = TestEnv::new().await;
    let user = "subjects: [{kind: User, name: ada}]";
    for (spec, expected) in [
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
        let error = rejection(&env, &env.name, &spec).await;
        assert!(error.contains(expected), "{spec}: {error}");
    }
}

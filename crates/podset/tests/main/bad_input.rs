//! Invalid PodSets are rejected by the API server.

use crate::support::TestEnv;

/// Creates an invalid PodSet. Returns the error of the API server.
async fn create_invalid(env: &TestEnv, name: &str, spec: &str) -> String {
    let error = env.write_manifest(name, spec).await.expect_err("the PodSet is valid");
    format!("{error:#}")
}

#[tokio::test]
async fn rejects_invalid_replicas() {
    let env = TestEnv::new().await;
    for (replicas, says) in [
        ("0", "should be greater than or equal to 1"),
        ("-1", "should be greater than or equal to 1"),
        ("11", "should be less than or equal to 10"),
        ("three", "must be of type integer: \"string\""),
    ] {
        let error = create_invalid(&env, "web", &format!("{{replicas: {replicas}}}")).await;
        assert!(error.contains("spec.replicas") && error.contains(says), "{replicas}: {error}");
    }
}

#[tokio::test]
async fn rejects_invalid_min_ready_seconds() {
    let env = TestEnv::new().await;
    for (seconds, says) in [
        ("-1", "should be greater than or equal to 0"),
        ("2147483648", "must be of type integer"),
        ("1m", "must be of type integer: \"string\""),
    ] {
        let error = create_invalid(&env, "web", &format!("{{minReadySeconds: {seconds}}}")).await;
        assert!(error.contains("spec.minReadySeconds") && error.contains(says), "{seconds}: {error}");
    }
}

#[tokio::test]
async fn rejects_unknown_fields_and_malformed_quantities() {
    let env = TestEnv::new().await;
    let error = create_invalid(&env, "web", "{replica: 1}").await;
    assert!(error.contains("replica") && error.contains("unknown field"), "{error}");
    let error = create_invalid(
        &env,
        "web",
        "{template: {spec: {containers: [{name: a, image: b, resources: {limits: {cpu: one}}}]}}}",
    )
    .await;
    assert!(error.contains("limits"), "{error}");
}

#[tokio::test]
async fn rejects_templates_that_a_replica_set_rejects() {
    let env = TestEnv::new().await;
    let container = "containers: [{name: a, image: b}]";
    for (template, says) in [
        (
            format!("{{spec: {{{container}, restartPolicy: Never}}}}"),
            "restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            format!("{{spec: {{{container}, restartPolicy: OnFailure}}}}"),
            "restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
        ),
        (
            format!("{{spec: {{{container}, activeDeadlineSeconds: 60}}}}"),
            "activeDeadlineSeconds: Forbidden: the Pods of a PodSet run until they are deleted",
        ),
        (
            format!("{{spec: {{{container}, ephemeralContainers: [{{name: c, image: d}}]}}}}"),
            "ephemeralContainers: Forbidden: a template has no ephemeralContainers",
        ),
        ("{spec: {containers: []}}".to_owned(), "should have at least 1 items"),
        ("{spec: {containers: [{name: a}]}}".to_owned(), "containers[0].image: Required value"),
        ("{spec: {containers: [{name: a, image: \"\"}]}}".to_owned(), "should be at least 1 chars long"),
        (
            format!("{{spec: {{{container}, initContainers: [{{name: i}}]}}}}"),
            "initContainers[0].image: Required value",
        ),
        ("{}".to_owned(), "template.spec: Required value"),
    ] {
        let error = create_invalid(&env, "web", &format!("{{template: {template}}}")).await;
        assert!(error.contains(says), "{template}: {error}");
        let labelled = template.replacen('{', "{metadata: {labels: {app: web}}, ", 1);
        let replica_set = format!("{{selector: {{matchLabels: {{app: web}}}}, template: {labelled}}}");
        let replica_set = env.write("apps/v1", "ReplicaSet", "web", &replica_set).await;
        assert!(replica_set.is_err(), "a ReplicaSet accepts {template}");
    }
    let valid =
        format!("{{template: {{spec: {{{container}, restartPolicy: Always, ephemeralContainers: []}}}}}}");
    env.write_manifest("web", &valid).await.unwrap();
    env.until_ready("web", 1).await;
}

#[tokio::test]
async fn rejects_names_longer_than_56_characters() {
    let env = TestEnv::new().await;
    let error = create_invalid(&env, &"a".repeat(57), "{}").await;
    assert!(error.contains("at most 56 characters"), "{error}");
    env.create(&"a".repeat(56), serde_json::json!({})).await;
    env.until_ready(&"a".repeat(56), 1).await;
}

//! What is wrong is refused by the API server, with a sentence.

use crate::support::World;

async fn refused(world: &World, name: &str, spec: &str) -> String {
    let error = world.write_manifest(name, spec).await.expect_err("it should have been refused");
    format!("{error:#}")
}

#[tokio::test]
async fn numbers_of_pods_that_make_no_sense_are_refused() {
    let world = World::new().await;
    for (replicas, says) in [
        ("0", "should be greater than or equal to 1"),
        ("-1", "should be greater than or equal to 1"),
        ("11", "should be less than or equal to 10"),
        ("three", "must be of type integer: \"string\""),
    ] {
        let error = refused(&world, "web", &format!("{{replicas: {replicas}}}")).await;
        assert!(error.contains("spec.replicas") && error.contains(says), "{replicas}: {error}");
    }
}

#[tokio::test]
async fn times_that_make_no_sense_are_refused() {
    let world = World::new().await;
    for (seconds, says) in [
        ("-1", "should be greater than or equal to 0"),
        ("2147483648", "must be of type integer"),
        ("1m", "must be of type integer: \"string\""),
    ] {
        let error = refused(&world, "web", &format!("{{minReadySeconds: {seconds}}}")).await;
        assert!(error.contains("spec.minReadySeconds") && error.contains(says), "{seconds}: {error}");
    }
}

#[tokio::test]
async fn unknown_fields_and_malformed_quantities_are_refused() {
    let world = World::new().await;
    let error = refused(&world, "web", "{replica: 1}").await;
    assert!(error.contains("replica") && error.contains("unknown field"), "{error}");
    let error = refused(
        &world,
        "web",
        "{template: {spec: {containers: [{name: a, image: b, resources: {limits: {cpu: one}}}]}}}",
    )
    .await;
    assert!(error.contains("limits"), "{error}");
}

#[tokio::test]
async fn a_template_is_refused_where_a_replica_set_refuses_it() {
    let world = World::new().await;
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
            "activeDeadlineSeconds: Forbidden: the pods of a PodSet run until they are deleted",
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
        let error = refused(&world, "web", &format!("{{template: {template}}}")).await;
        assert!(error.contains(says), "{template}: {error}");
        let labelled = template.replacen('{', "{metadata: {labels: {app: web}}, ", 1);
        let replica_set = format!("{{selector: {{matchLabels: {{app: web}}}}, template: {labelled}}}");
        let replica_set = world.write("apps/v1", "ReplicaSet", "web", &replica_set).await;
        assert!(replica_set.is_err(), "a ReplicaSet takes {template}");
    }
    let fine =
        format!("{{template: {{spec: {{{container}, restartPolicy: Always, ephemeralContainers: []}}}}}}");
    world.write_manifest("web", &fine).await.unwrap();
    world.until_ready("web", 1).await;
}

#[tokio::test]
async fn a_name_that_leaves_no_room_for_its_pods_is_refused() {
    let world = World::new().await;
    let error = refused(&world, &"a".repeat(57), "{}").await;
    assert!(error.contains("at most 56 characters"), "{error}");
    world.create(&"a".repeat(56), serde_json::json!({})).await;
    world.until_ready(&"a".repeat(56), 1).await;
}

//! Admission: what a person sees who writes objects.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    handlers::STAMP,
    stage::{PATIENCE, Stage, config_map, with_label},
};

async fn create(stage: &Stage, object: &ConfigMap) -> Result<ConfigMap, String> {
    let created = stage.config_maps().create(&PostParams::default(), object).await;
    created.map_err(|error| operator_core::error::chain(&error))
}

#[tokio::test]
async fn a_denial_says_who_denies_and_why() {
    let stage = Stage::asked().await;
    let refused = create(&stage, &config_map("a", &[("deny", "too loud")])).await.unwrap_err();
    assert_eq!(
        refused,
        "admission webhook \"guard.webhooks.ensemble\" denied the request: data.deny: too loud; take it out"
    );
    create(&stage, &config_map("a", &[("quiet", "yes")])).await.unwrap();
    // Of an update it is the new object that counts.
    let loud = Patch::Merge(json!({ "data": { "deny": "too loud" } }));
    assert!(stage.config_maps().patch("a", &PatchParams::default(), &loud).await.is_err());
    stage.forget().await;
}

#[tokio::test]
async fn a_delete_is_judged_by_the_object_as_it_is() {
    let stage = Stage::asked().await;
    create(&stage, &config_map("kept", &[("keep", "for ever")])).await.unwrap();
    let error = stage.config_maps().delete("kept", &DeleteParams::default()).await.unwrap_err();
    assert!(error.to_string().contains("it is kept: for ever"), "{error}");
    let let_go = Patch::Merge(json!({ "data": { "keep": null } }));
    stage.config_maps().patch("kept", &PatchParams::default(), &let_go).await.unwrap();
    stage.config_maps().delete("kept", &DeleteParams::default()).await.unwrap();
    stage.forget().await;
}

#[tokio::test]
async fn a_handler_answers_from_the_caches_of_the_process() {
    let stage = Stage::asked().await;
    let second = config_map("second", &[("after", "first")]);
    let refused = create(&stage, &second).await.unwrap_err();
    assert!(refused.contains("there is no such ConfigMap yet"), "{refused}");
    create(&stage, &config_map("first", &[])).await.unwrap();
    eventually("the cache to know the first", PATIENCE, async || Ok(create(&stage, &second).await))
        .await
        .unwrap();
    stage.forget().await;
}

#[tokio::test]
async fn warnings_are_shown_by_kubectl() {
    let stage = Stage::asked().await;
    let script = format!(
        "'{}' --kubeconfig '{}' --namespace {} create configmap warned --from-literal=warn=mind-the-gap 2>&1",
        stage.cluster.record().kubectl().display(),
        stage.cluster.kubeconfig().display(),
        &*stage.namespace,
    );
    let run = move || std::process::Command::new("sh").args(["-c", &script]).output();
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("Warning: mind-the-gap"), "{shown}");
    stage.forget().await;
}

#[tokio::test]
async fn a_mutating_webhook_changes_what_its_selector_picks_in_a_dry_run_too() {
    let stage = Stage::asked().await;
    let wanted = with_label(config_map("wanted", &[("key", "value")]), STAMP, "wanted");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let shown = stage.config_maps().create(&dry_run, &wanted).await.unwrap();
    assert_eq!(shown.labels()[STAMP], "configmaps");
    assert!(stage.config_maps().get_opt("wanted").await.unwrap().is_none(), "a dry run stores nothing");
    let created = create(&stage, &wanted).await.unwrap();
    assert_eq!(created.labels()[STAMP], "configmaps");
    assert_eq!(created.data, wanted.data);
    let other = create(&stage, &with_label(config_map("other", &[]), "another", "label")).await.unwrap();
    assert!(!other.labels().contains_key(STAMP));
    stage.forget().await;
}

#[tokio::test]
async fn match_conditions_keep_the_webhook_from_being_asked() {
    let stage = Stage::asked().await;
    let exempt = with_label(config_map("exempt", &[("deny", "anything")]), "tests/exempt", "yes");
    create(&stage, &exempt).await.unwrap();
    stage.forget().await;
}

#[tokio::test]
async fn a_subresource_is_reviewed_as_the_object_that_it_is_of() {
    let stage = Stage::asked().await;
    let pods = Api::<Pod>::namespaced(stage.client.clone(), &stage.namespace);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web" }, "spec": { "containers": [{ "name": "web", "image": "web" }] },
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let debug = async |name: &str| {
        let containers = json!([{ "name": name, "image": "debugger" }]);
        let patch = Patch::Strategic(json!({ "spec": { "ephemeralContainers": containers } }));
        pods.patch_ephemeral_containers("web", &PatchParams::default(), &patch).await
    };
    let error = debug("evil").await.unwrap_err();
    assert!(error.to_string().contains("evil is not let in"), "{error}");
    debug("good").await.unwrap();
    stage.forget().await;
}

#[tokio::test]
async fn without_an_answer_the_failure_policy_decides() {
    let mut stage = Stage::asked().await;
    stage.end_server().await;
    let refused = stage.try_create(&[]).await.unwrap_err();
    assert!(refused.contains("failed calling webhook \"guard.webhooks.ensemble\""), "{refused}");
    // The mutating webhook is left out, the validating one is not.
    stage.forget().await;
    stage.configure(Some("Ignore")).await;
    eventually("the API server to go on without an answer", PATIENCE, async || {
        Ok(stage.try_create(&[("deny", "nobody says so")]).await)
    })
    .await
    .unwrap();
    stage.forget().await;
}

#[tokio::test]
async fn every_resource_of_a_rule_is_one_that_the_api_server_has() {
    let stage = Stage::quiet().await;
    let declared = (super::handlers::REGISTRATION.webhooks)();
    for target in declared.iter().flat_map(|webhook| &webhook.targets).filter(|target| !target.is_any()) {
        let resources = match target.group.as_str() {
            "" => stage.client.list_core_api_resources(&target.version).await.unwrap(),
            group => {
                let version = format!("{group}/{}", target.version);
                stage.client.list_api_group_resources(&version).await.unwrap()
            }
        };
        let name = target.resource_name();
        let found = resources.resources.iter().find(|resource| resource.name == name);
        let found = found.unwrap_or_else(|| panic!("there is no {name}"));
        assert_eq!(found.namespaced, target.namespaced, "{name}");
        if let Some(kind) = &target.kind {
            assert_eq!(&found.kind, kind, "{name}");
        }
    }
}

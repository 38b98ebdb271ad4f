//! Tests of admission webhooks, as a client of the API server sees them.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    handlers::STAMP,
    support::{TIMEOUT, TestEnv, config_map, with_label},
};

async fn create(env: &TestEnv, object: &ConfigMap) -> Result<ConfigMap, String> {
    let created = env.config_maps().create(&PostParams::default(), object).await;
    created.map_err(|error| operator_core::error::chain(&error))
}

#[tokio::test]
async fn denial_names_webhook_and_reason() {
    let env = TestEnv::with_webhooks().await;
    let error = create(&env, &config_map("a", &[("deny", "too loud")])).await.unwrap_err();
    assert_eq!(
        error,
        "admission webhook \"guard.webhooks.ensemble\" denied the request: data.deny: too loud; remove it"
    );
    create(&env, &config_map("a", &[("quiet", "yes")])).await.unwrap();
    // The new object of an update is validated.
    let loud = Patch::Merge(json!({ "data": { "deny": "too loud" } }));
    assert!(env.config_maps().patch("a", &PatchParams::default(), &loud).await.is_err());
    env.delete_webhooks().await;
}

#[tokio::test]
async fn validates_delete_with_old_object() {
    let env = TestEnv::with_webhooks().await;
    create(&env, &config_map("kept", &[("keep", "protected")])).await.unwrap();
    let error = env.config_maps().delete("kept", &DeleteParams::default()).await.unwrap_err();
    assert!(error.to_string().contains("deletion is not allowed: protected"), "{error}");
    let remove_keep = Patch::Merge(json!({ "data": { "keep": null } }));
    env.config_maps().patch("kept", &PatchParams::default(), &remove_keep).await.unwrap();
    env.config_maps().delete("kept", &DeleteParams::default()).await.unwrap();
    env.delete_webhooks().await;
}

#[tokio::test]
async fn validator_reads_caches() {
    let env = TestEnv::with_webhooks().await;
    let second = config_map("second", &[("after", "first")]);
    let error = create(&env, &second).await.unwrap_err();
    assert!(error.contains("ConfigMap does not exist"), "{error}");
    create(&env, &config_map("first", &[])).await.unwrap();
    eventually("the cache to contain the first ConfigMap", TIMEOUT, async || Ok(create(&env, &second).await))
        .await
        .unwrap();
    env.delete_webhooks().await;
}

#[tokio::test]
async fn kubectl_prints_warnings() {
    let env = TestEnv::with_webhooks().await;
    let script = format!(
        "'{}' --kubeconfig '{}' --namespace {} create configmap warned --from-literal=warn=mind-the-gap 2>&1",
        env.cluster.record().kubectl().display(),
        env.cluster.kubeconfig().display(),
        &*env.namespace,
    );
    let run = move || std::process::Command::new("sh").args(["-c", &script]).output();
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("Warning: mind-the-gap"), "{shown}");
    env.delete_webhooks().await;
}

#[tokio::test]
async fn mutates_selected_objects_also_in_dry_run() {
    let env = TestEnv::with_webhooks().await;
    let wanted = with_label(config_map("wanted", &[("key", "value")]), STAMP, "wanted");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let result = env.config_maps().create(&dry_run, &wanted).await.unwrap();
    assert_eq!(result.labels()[STAMP], "configmaps");
    assert!(
        env.config_maps().get_opt("wanted").await.unwrap().is_none(),
        "a dry run must not store the object"
    );
    let created = create(&env, &wanted).await.unwrap();
    assert_eq!(created.labels()[STAMP], "configmaps");
    assert_eq!(created.data, wanted.data);
    let other = create(&env, &with_label(config_map("other", &[]), "another", "label")).await.unwrap();
    assert!(!other.labels().contains_key(STAMP));
    env.delete_webhooks().await;
}

#[tokio::test]
async fn match_conditions_exclude_objects() {
    let env = TestEnv::with_webhooks().await;
    let exempt = with_label(config_map("exempt", &[("deny", "anything")]), "tests/exempt", "yes");
    create(&env, &exempt).await.unwrap();
    env.delete_webhooks().await;
}

#[tokio::test]
async fn reviews_subresource_with_its_parent_object() {
    let env = TestEnv::with_webhooks().await;
    let pods = Api::<Pod>::namespaced(env.client.clone(), &env.namespace);
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
    assert!(error.to_string().contains("evil is not allowed"), "{error}");
    debug("good").await.unwrap();
    env.delete_webhooks().await;
}

#[tokio::test]
async fn failure_policy_applies_without_server() {
    let mut env = TestEnv::with_webhooks().await;
    env.stop_server().await;
    let error = env.try_create(&[]).await.unwrap_err();
    assert!(error.contains("failed calling webhook \"guard.webhooks.ensemble\""), "{error}");
    // The failure of the mutating webhook was ignored. Now ignore the failure of both.
    env.delete_webhooks().await;
    env.configure(Some("Ignore")).await;
    eventually("the API server to ignore the failed webhook", TIMEOUT, async || {
        Ok(env.try_create(&[("deny", "not called")]).await)
    })
    .await
    .unwrap();
    env.delete_webhooks().await;
}

#[tokio::test]
async fn api_server_has_every_resource_of_rules() {
    let env = TestEnv::new().await;
    let declared = (super::handlers::REGISTRATION.webhooks)();
    for target in declared.iter().flat_map(|webhook| &webhook.targets).filter(|target| !target.is_any()) {
        let resources = match target.group.as_str() {
            "" => env.client.list_core_api_resources(&target.version).await.unwrap(),
            group => {
                let version = format!("{group}/{}", target.version);
                env.client.list_api_group_resources(&version).await.unwrap()
            }
        };
        let name = target.resource_name();
        let found = resources.resources.iter().find(|resource| resource.name == name);
        let found = found.unwrap_or_else(|| panic!("the API server has no resource {name}"));
        assert_eq!(found.namespaced, target.namespaced, "{name}");
        if let Some(kind) = &target.kind {
            assert_eq!(&found.kind, kind, "{name}");
        }
    }
}

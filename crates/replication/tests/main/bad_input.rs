//! Invalid and very large specs.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::{TestEnv, config_map, generator, raw, ready};

#[tokio::test]
async fn an_endless_template_fails_in_time() {
    let env = TestEnv::new(&[]).await;
    let endless = "{{ range 50000 }}{{ range 50000 }}{{ end }}{{ end }}";
    env.tenant_resource("r", generator(endless)).await;
    let failed = env.until_failed(&env.tenant_resources(), "r", "cannot render the template").await;
    assert!(ready(&failed).2.contains("spec.resources[0].generators[0].template"));
    // Others are not affected.
    env.tenant_resource("fine", raw(vec![config_map("x", json!({}))])).await;
    env.until_ready(&env.tenant_resources(), "fine", 1).await;
}

#[tokio::test]
async fn errors_name_their_place_and_no_values() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.secret("home", "s", json!({})).await;
    let mut spec =
        generator("apiVersion: v1\nkind: ConfigMap\nmetadata: [{{ (index .s 0).data.key | b64dec }}\n");
    spec["resources"][0]["context"] =
        json!({ "resources": [{ "index": "s", "kind": "Secret", "name": "s" }] });
    env.tenant_resource("yaml", spec).await;
    let failed = env.until_failed(&resources, "yaml", "not valid YAML").await;
    assert!(!ready(&failed).2.contains("hunter2"));
    env.tenant_resource(
        "kind",
        raw(vec![json!({ "apiVersion": "v1", "kind": "Nothing", "metadata": { "name": "x" } })]),
    )
    .await;
    env.until_failed(&resources, "kind", "the kind Nothing of v1 does not exist").await;
    env.tenant_resource("name", raw(vec![json!({ "apiVersion": "v1", "kind": "ConfigMap" })])).await;
    env.until_failed(&resources, "name", "metadata.name is missing").await;
    let invalid = config_map("UPPER", json!({}));
    env.tenant_resource("invalid", raw(vec![invalid])).await;
    env.until_failed(&resources, "invalid", "applying of 1 resources failed").await;
    let bad_secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "b" }, "stringData": { "not valid": "hunter2" },
    });
    env.tenant_resource("secret", raw(vec![bad_secret])).await;
    let failed = env.until_failed(&resources, "secret", "applying of 1 resources failed").await;
    let text = serde_json::to_string(&failed.status).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn five_hundred_items_are_replicated_and_more_are_rejected() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let items = |count: usize| {
        (0..count).map(|number| config_map(&format!("x-{number}"), json!({}))).collect::<Vec<_>>()
    };
    env.tenant_resource("many", raw(items(500))).await;
    env.until_ready(&resources, "many", 500).await;
    let spec = json!({ "resources": [{ "rawItems": items(501) }] });
    let object = serde_json::from_value(json!({ "metadata": { "name": "more" }, "spec": spec })).unwrap();
    let error = resources.create(&PostParams::default(), &object).await.unwrap_err().to_string();
    assert!(error.contains("500 items"), "{error}");
    env.delete(&resources, "many").await;
    env.until_gone(&resources, "many").await;
    let maps = env.api::<ConfigMap>("home").list_metadata(&kube::api::ListParams::default()).await.unwrap();
    let left: Vec<_> = maps.items.iter().filter_map(|one| one.metadata.name.clone()).collect();
    assert!(left.iter().all(|name| !name.starts_with("x-")), "{left:?}");
}

#[tokio::test]
async fn an_object_of_nearly_the_largest_size_is_replicated() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.existing_config_map("home", "source", json!({ "big": "x".repeat(1_000_000) })).await;
    env.join("a").await;
    let copy = json!({ "kind": "ConfigMap", "name": "source" });
    env.tenant_resource("r", json!({ "resources": [{ "namespacedItems": [copy] }] })).await;
    env.until_ready(&resources, "r", 1).await;
    let a = env.api::<ConfigMap>("a").get("source").await.unwrap();
    assert_eq!(a.data.unwrap()["big"].len(), 1_000_000);
    let too_large = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: big }\ndata:\n{{ range $i := (list 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }}  k{{ $i }}: '{{ printf \"%060000d\" 7 }}{{ printf \"%060000d\" 7 }}'\n{{ end }}";
    env.tenant_resource("large", generator(too_large)).await;
    env.until_failed(&resources, "large", "").await;
}

#[tokio::test]
async fn the_schema_rejects_invalid_values() {
    let env = TestEnv::new(&[]).await;
    let rejected = async |spec: Value, text: &str| {
        let file = std::env::temp_dir().join(format!("{}-{text}.json", env.name).replace('/', "-"));
        let manifest = json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "TenantResource",
            "metadata": { "name": "bad", "namespace": env.home() }, "spec": spec,
        });
        std::fs::write(&file, manifest.to_string()).unwrap();
        let error = env.kubectl(&["create", "-f", file.to_str().unwrap()]).await.expect_err(text);
        let _ = std::fs::remove_file(file);
        assert!(format!("{error:#}").contains(text), "{error:#}");
    };
    rejected(json!({}), "spec.resources").await;
    rejected(json!({ "resources": [], "resyncPeriod": "often" }), "spec.resyncPeriod").await;
    rejected(json!({ "resources": [], "serviceAccount": { "name": "A b" } }), "spec.serviceAccount.name")
        .await;
    let generator = json!({ "template": "", "missingKey": "maybe" });
    rejected(json!({ "resources": [{ "generators": [generator] }] }), "missingKey").await;
}

//! Protection of replicated objects, and validation of templates, by the webhooks of the manager.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::support::{
    Forwarder, GLOBAL_TENANT_RESOURCE, NAMESPACE, TENANT_RESOURCE, TestEnv, example, path, webhooks_env,
};

const MEMBER: &str = "copies-dev";
const OWNER: &str = "--as=clara";
const ACCOUNT: &str = "--as=system:serviceaccount:copies-dev:replicator";

/// Creates the Tenant copies with a namespace, in which clara and the account of replications may do
/// everything.
async fn setup(env: &TestEnv) {
    env.create_tenant("copies", MEMBER, json!({})).await;
    env.kubectl(&["create", "serviceaccount", "replicator", "--namespace", MEMBER]).await.unwrap();
    for (name, subject) in
        [("clara", "--user=clara"), ("replicator", "--serviceaccount=copies-dev:replicator")]
    {
        env.kubectl(&["create", "clusterrolebinding", name, "--clusterrole=cluster-admin", subject])
            .await
            .unwrap();
    }
}

/// Runs kubectl and returns the error, or an empty string.
async fn error(env: &TestEnv, args: &[&str]) -> String {
    env.kubectl(args).await.err().map_or_else(String::new, |error| format!("{error:#}"))
}

fn spec(item: Value) -> Value {
    json!({ "serviceAccount": { "name": "replicator" }, "resources": [{ "rawItems": [item] }] })
}

#[tokio::test]
async fn only_the_account_changes_created_objects() {
    let env = webhooks_env().await;
    setup(env).await;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } });
    env.create(&TENANT_RESOURCE, MEMBER, "r", spec(map)).await;
    env.until_ready(&TENANT_RESOURCE, MEMBER, "r").await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "copies-role" },
    });
    let mut global = spec(role);
    global["serviceAccount"]["namespace"] = MEMBER.into();
    env.create(&GLOBAL_TENANT_RESOURCE, "", "g", global).await;
    env.until_ready(&GLOBAL_TENANT_RESOURCE, "", "g").await;

    let within = format!("--namespace={MEMBER}");
    let annotate = |value: &'static str| ["annotate", "configmap", "x", value, "--overwrite"];
    let unlabel = ["label", "configmap", "x", "projectcapsule.dev/created-by-"];
    let delete = ["delete", "configmap", "x"];
    for args in [annotate("a=b").as_slice(), &unlabel, &delete] {
        let denied = error(env, &[args, &[&within, OWNER]].concat()).await;
        assert!(
            denied.contains("managed by a tenant capsule replication copies-dev/r"),
            "{args:?}: {denied}"
        );
    }
    for args in [
        ["annotate", "clusterrole", "copies-role", "a=b"].as_slice(),
        &["delete", "clusterrole", "copies-role"],
    ] {
        let denied = error(env, &[args, &[OWNER]].concat()).await;
        assert!(denied.contains("managed by a global capsule replication g"), "{args:?}: {denied}");
    }
    assert_eq!(error(env, &[&annotate("a=c")[..], &[&within, ACCOUNT]].concat()).await, "");
    // The test itself is an administrator.
    assert_eq!(error(env, &[&annotate("a=d")[..], &[&within]].concat()).await, "");

    // Neither the garbage collector nor the deletion of the namespace waits.
    env.kubectl(&["delete", "globaltenantresource", "g"]).await.unwrap();
    env.kubectl(&["delete", "namespace", MEMBER, "--timeout=60s", OWNER]).await.unwrap();
}

#[tokio::test]
async fn templates_are_compiled_at_admission() {
    let env = webhooks_env().await;
    let namespace = "templates-dev";
    env.create_tenant("templates", namespace, json!({})).await;
    let manifest = |template: &str| {
        let spec =
            json!({ "resources": [{ "generators": [{ "template": "a: 1" }, { "template": template }] }] });
        json!({
            "apiVersion": TENANT_RESOURCE.api_version(), "kind": "TenantResource",
            "metadata": { "name": "r", "namespace": namespace }, "spec": spec,
        })
    };
    for (template, text) in
        [("{{ env \"HOME\" }}", "the function env is unknown"), ("{{ if .x }}", "do not match")]
    {
        let error = env.cluster.apply_yaml(&manifest(template).to_string()).await.unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("spec.resources[0].generators[1].template") && error.contains(text),
            "{error}"
        );
    }
    env.cluster.apply_yaml(&manifest("{{ .tenant.metadata.name | upper }}").to_string()).await.unwrap();
}

/// Waits until the resource r fails with this text.
async fn until_failed(env: &TestEnv, text: &str) {
    let fails = |object: &DynamicObject| {
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default();
        ready["status"] == "False" && ready["message"].as_str().is_some_and(|message| message.contains(text))
    };
    env.until(&TENANT_RESOURCE, MEMBER, "r", &format!("to fail: {text}"), fails).await;
}

#[tokio::test]
async fn requests_of_accounts_go_to_the_endpoint_of_the_configuration() {
    let (env, _manager) = TestEnv::with_webhooks().await;
    setup(&env).await;
    let impersonate = async |settings: Value| {
        let patch = json!({ "spec": { "impersonation": settings } }).to_string();
        let args = ["patch", "capsuleconfiguration", "default", "--type=merge", "--patch", &patch];
        error(&env, &args).await
    };
    let map = |value: &str| {
        spec(
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": { "a": value } }),
        )
    };
    let denied = impersonate(json!({ "endpoint": "http://127.0.0.1" })).await;
    assert!(denied.contains("must be an address that begins with https://"), "{denied}");

    let forwarder = Forwarder::new(&env).await;
    let example = example("docs/tenants/replication.md", "impersonation:");
    let endpoint = format!("https://{}", forwarder.address());
    env.cluster.apply_yaml(&example.replace("https://proxy.audit.svc:9001", &endpoint)).await.unwrap();
    env.create(&TENANT_RESOURCE, MEMBER, "r", map("1")).await;
    until_failed(&env, "cannot read Secret ensemble-system/proxy-authority").await;
    env.kubectl(&["apply", "-f", &path("deploy/rbac/optional/replication.yaml")]).await.unwrap();
    let secret = |data: &str| {
        let metadata = json!({ "name": "proxy-authority", "namespace": NAMESPACE });
        env.store(
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": { "ca.crt": data } }),
        )
    };
    secret("bm90aGluZw==").await;
    until_failed(&env, "key ca.crt of Secret ensemble-system/proxy-authority").await;
    let authority = "jsonpath={.clusters[0].cluster.certificate-authority-data}";
    secret(&env.kubectl(&["config", "view", "--raw", "-o", authority]).await.unwrap()).await;
    env.until_ready(&TENANT_RESOURCE, MEMBER, "r").await;

    // Nobody answers at the endpoint, and the requests of accounts go nowhere else.
    drop(forwarder);
    env.change(&TENANT_RESOURCE, MEMBER, "r", map("2")).await;
    until_failed(&env, "applying of 1 resources failed").await;
    let value =
        async || env.read(&["get", "configmap", "x", "--namespace", MEMBER]).await["data"]["a"].clone();
    assert_eq!(value().await, "1");
    let other = Forwarder::new(&env).await;
    let trusting = json!({ "endpoint": other.address(), "skipTlsVerify": true });
    assert_eq!(impersonate(trusting).await, "");
    env.until_ready(&TENANT_RESOURCE, MEMBER, "r").await;
    assert_eq!(value().await, "2");
    drop(other);
    assert_eq!(impersonate(Value::Null).await, "");
    env.change(&TENANT_RESOURCE, MEMBER, "r", map("3")).await;
    env.until_ready(&TENANT_RESOURCE, MEMBER, "r").await;
    assert_eq!(value().await, "3");
}

//! Webhooks of a running manager with its deployed rights.

use std::time::Duration;

use cluster::{Component, wait::eventually};
use serde_json::json;

use crate::support::{DEVICES, Manager, PATIENCE, TENANT, TestEnv, Webhooks, tutorial};

#[tokio::test]
async fn validates_and_labels_tenants_until_stopped() {
    let (env, manager) = TestEnv::with_webhooks().await;

    // RE2 supports quotations, so the schema accepts them. The manager's patterns do not.
    let quoted = json!({ "containerRegistries": { "allowedRegex": "\\Qa.b\\E" } });
    let refused = env.try_tenant("oil", quoted).await.unwrap_err();
    let expected = "admission webhook \"tenants.tenant.ensemble\" denied the request: \
                spec.containerRegistries.allowedRegex: invalid pattern";
    assert!(refused.contains(expected), "{refused}");
    manager.until_logged("denied request path=\"/tenant/tenants\" uid=").await;
    let log = manager.log();
    let line = log.lines().find(|line| line.contains("denied request")).unwrap();
    assert!(
        line.contains("code=422") && line.contains("CREATE of tenants of capsule.clastix.io/v1beta2"),
        "{line}"
    );

    env.create(&TENANT, "", "oil", json!({ "preventDeletion": true })).await;
    env.until_ready(&TENANT, "", "oil").await;
    assert_label_is_restored(&env).await;
    let refused = format!("{:#}", env.kubectl(&["delete", "tenant", "oil"]).await.unwrap_err());
    assert!(refused.contains("set spec.preventDeletion to false"), "{refused}");
    env.change(&TENANT, "", "oil", json!({ "preventDeletion": false })).await;
    env.kubectl(&["delete", "tenant", "oil"]).await.unwrap();

    env.assert_no_forbidden_requests();
    assert_reviews_are_answered_while_stopping(&env, manager).await;
}

/// Waits until the Tenant has the label with its name, initially and after the label is removed or
/// changed.
async fn assert_label_is_restored(env: &TestEnv) {
    let select = ["get", "tenants", "--selector=kubernetes.io/metadata.name=oil", "--output=name"];
    assert_eq!(env.kubectl(&select).await.unwrap().trim(), "tenant.capsule.clastix.io/oil");
    for change in ["kubernetes.io/metadata.name-", "kubernetes.io/metadata.name=gas"] {
        env.kubectl(&["label", "tenant", "oil", "--overwrite", change]).await.unwrap();
        assert_eq!(env.kubectl(&select).await.unwrap().trim(), "tenant.capsule.clastix.io/oil", "{change}");
    }
}

async fn assert_reviews_are_answered_while_stopping(env: &TestEnv, manager: Manager) {
    let stopping = manager.stop();
    let reviews = async {
        // The API server calls the webhook for another moment, for less than a second.
        tokio::time::sleep(Duration::from_millis(500)).await;
        env.try_tenant("gas", json!({})).await
    };
    let (log, reviews) = tokio::join!(stopping, reviews);
    reviews.unwrap();
    assert!(log.contains("the manager has stopped"), "{log}");
    let refused = env.try_tenant("gas", json!({})).await.unwrap_err();
    assert!(refused.contains("failed calling webhook"), "{refused}");
}

#[tokio::test]
async fn cluster_recovers_without_manager() {
    let (env, webhooks) = (TestEnv::complete().await, Webhooks::new());
    let manager = env.start_with_webhooks("manager", webhooks, &[]);
    env.configure(webhooks).await;
    env.until_tenants_reviewed().await;
    env.create(&TENANT, "", "oil", json!({})).await;
    env.join("oil", "oil-wells").await;
    env.until_tenant_ready("oil", 1).await;
    manager.kill();

    let off = [
        Component::KubeScheduler,
        Component::KubeControllerManager,
        Component::Kwok,
        Component::KubeApiserver,
        Component::Etcd,
    ];
    for component in off {
        env.cluster.stop_component(component).unwrap();
    }
    for component in [Component::Etcd, Component::KubeApiserver] {
        env.cluster.start_component(component).unwrap();
    }
    // The other components exit without an API server and are not restarted here.
    env.cluster.ready(PATIENCE).await.unwrap();
    for component in [Component::KubeControllerManager, Component::KubeScheduler, Component::Kwok] {
        env.cluster.start_component(component).unwrap();
    }

    // Node heartbeats, Tenants' workloads, and namespace changes continue.
    let create = ["create", "deployment", "web", "--image=web", "--replicas=3", "--namespace=oil-wells"];
    eventually("a Deployment to be accepted", PATIENCE, async || env.kubectl(&create).await.map(|_| true))
        .await
        .unwrap();
    env.kubectl(&["rollout", "status", "deployment/web", "--namespace=oil-wells", "--timeout=180s"])
        .await
        .unwrap();
    env.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=180s"]).await.unwrap();
    env.kubectl(&["create", "namespace", "visitor"]).await.unwrap();
    env.kubectl(&["delete", "namespace", "visitor", "--timeout=60s"]).await.unwrap();
    // Only the objects under review are rejected, and the error names the webhook.
    let refused = env.try_tenant("gas", json!({})).await.unwrap_err();
    assert!(refused.contains("failed calling webhook \"tenants.tenant.ensemble\""), "{refused}");

    let manager = env.start_with_webhooks("manager-again", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    env.until_tenants_reviewed().await;
    env.try_tenant("gas", json!({})).await.unwrap();
    env.kubectl(&["delete", "tenant", "oil", "--timeout=60s"]).await.unwrap();
    manager.stop().await;
}

/// A rule for a resource that does not exist, for example a singular, never matches and causes no
/// error.
#[tokio::test]
async fn every_resource_of_a_rule_exists_with_its_scope() {
    let env = tutorial().await;
    env.install_gateway_api().await;
    let serves_device_classes = env.serves_device_classes().await;
    let mut count = 0;
    for configuration in env.deployed_configurations().await {
        let policy = configuration["spec"]["matchConstraints"]["resourceRules"].as_array().into_iter();
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        let rules = webhooks.filter_map(|webhook| webhook["rules"].as_array()).chain(policy);
        for rules in rules {
            for rule in rules {
                let (group, version) = (&rule["apiGroups"][0], &rule["apiVersions"][0]);
                let path = match group.as_str().unwrap() {
                    "*" => continue,
                    DEVICES if !serves_device_classes => continue,
                    "" => format!("/api/{}", version.as_str().unwrap()),
                    group => format!("/apis/{group}/{}", version.as_str().unwrap()),
                };
                let known = env.kubectl(&["get", "--raw", &path]).await.unwrap();
                let known: serde_json::Value = serde_json::from_str(&known).unwrap();
                for resource in rule["resources"].as_array().unwrap() {
                    let mut all = known["resources"].as_array().unwrap().iter();
                    let found = all.find(|one| one["name"] == *resource);
                    let found = found.unwrap_or_else(|| panic!("{path} has no {resource}"));
                    let scope = if found["namespaced"] == true { "Namespaced" } else { "Cluster" };
                    assert_eq!(rule["scope"], scope, "{resource}");
                    count += 1;
                }
            }
        }
    }
    assert!(count > 10, "{count}");
}

//! The webhooks of a running manager, under the rights that it has where it is deployed.

use std::time::Duration;

use cluster::{Component, wait::eventually};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Stage, TENANT, Webhooks};

#[tokio::test]
async fn a_tenant_is_judged_by_the_manager_that_runs() {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;
    stage.until_asked().await;

    // RE2 knows quotations, so the schema lets them pass; this manager's patterns do not.
    let quoted = json!({ "containerRegistries": { "allowedRegex": "\\Qa.b\\E" } });
    let refused = stage.try_tenant("oil", quoted).await.unwrap_err();
    let says = "admission webhook \"tenants.tenant.ensemble\" denied the request: \
                spec.containerRegistries.allowedRegex: the pattern";
    assert!(refused.contains(says), "{refused}");
    manager.until_logged("denied path=\"/tenant/tenants\" uid=").await;
    let log = manager.log();
    let line = log.lines().find(|line| line.contains("denied path")).unwrap();
    assert!(
        line.contains("code=422") && line.contains("CREATE of tenants of capsule.clastix.io/v1beta2"),
        "{line}"
    );

    stage.create(&TENANT, "", "oil", json!({ "preventDeletion": true })).await;
    stage.until_settled(&TENANT, "", "oil").await;
    is_labelled(&stage).await;
    let kept = format!("{:#}", stage.kubectl(&["delete", "tenant", "oil"]).await.unwrap_err());
    assert!(kept.contains("set spec.preventDeletion to false"), "{kept}");
    stage.change(&TENANT, "", "oil", json!({ "preventDeletion": false })).await;
    stage.kubectl(&["delete", "tenant", "oil"]).await.unwrap();

    stage.assert_nothing_was_forbidden();
    let log = manager.ask_to_end().await;
    assert!(log.contains("the manager has stopped"), "{log}");
}

/// The Tenant has the label with its name, also after somebody has removed or changed it.
async fn is_labelled(stage: &Stage) {
    let select = ["get", "tenants", "--selector=kubernetes.io/metadata.name=oil", "--output=name"];
    assert_eq!(stage.kubectl(&select).await.unwrap().trim(), "tenant.capsule.clastix.io/oil");
    for change in ["kubernetes.io/metadata.name-", "kubernetes.io/metadata.name=gas"] {
        stage.kubectl(&["label", "tenant", "oil", "--overwrite", change]).await.unwrap();
        assert_eq!(stage.kubectl(&select).await.unwrap().trim(), "tenant.capsule.clastix.io/oil", "{change}");
    }
}

/// A rule about a resource that does not exist, a singular for example, guards nothing and says nothing.
#[tokio::test]
async fn every_resource_that_admission_is_about_exists() {
    let stage = Stage::complete().await;
    let mut asked = 0;
    for configuration in stage.deployed_configurations().await {
        let of_webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        let rules = of_webhooks.flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten());
        let of_policy = configuration["spec"]["matchConstraints"]["resourceRules"].as_array();
        for rule in rules.chain(of_policy.into_iter().flatten()) {
            let [group, version] = ["apiGroups", "apiVersions"].map(|field| rule[field][0].as_str().unwrap());
            let path =
                if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
            let known: Value =
                serde_json::from_str(&stage.kubectl(&["get", "--raw", &path]).await.unwrap()).unwrap();
            let known: Vec<_> =
                known["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
            for resource in rule["resources"].as_array().unwrap() {
                assert!(known.contains(&resource), "{path} has no {resource}: {known:?}");
                asked += 1;
            }
        }
    }
    assert!(asked > 10, "{asked}");
}

#[tokio::test]
async fn a_cluster_comes_back_by_itself_while_nobody_answers() {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    stage.configure(webhooks).await;
    stage.until_asked().await;
    stage.create(&TENANT, "", "oil", json!({})).await;
    stage.join("oil", "oil-wells").await;
    stage.until_joined("oil", 1).await;
    manager.kill();

    let off = [
        Component::KubeScheduler,
        Component::KubeControllerManager,
        Component::Kwok,
        Component::KubeApiserver,
        Component::Etcd,
    ];
    for component in off {
        stage.cluster.stop_component(component).unwrap();
    }
    for component in [Component::Etcd, Component::KubeApiserver] {
        stage.cluster.start_component(component).unwrap();
    }
    // The others end where there is no API server, and nobody is here who starts them again.
    stage.cluster.ready(PATIENCE).await.unwrap();
    for component in [Component::KubeControllerManager, Component::KubeScheduler, Component::Kwok] {
        stage.cluster.start_component(component).unwrap();
    }

    // Nodes tell that they live, workloads of tenants start, namespaces come and go.
    let create = ["create", "deployment", "web", "--image=web", "--replicas=3", "--namespace=oil-wells"];
    eventually("a Deployment to be accepted", PATIENCE, async || stage.kubectl(&create).await.map(|_| true))
        .await
        .unwrap();
    stage
        .kubectl(&["rollout", "status", "deployment/web", "--namespace=oil-wells", "--timeout=180s"])
        .await
        .unwrap();
    stage.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=180s"]).await.unwrap();
    stage.kubectl(&["create", "namespace", "visitor"]).await.unwrap();
    stage.kubectl(&["delete", "namespace", "visitor", "--timeout=60s"]).await.unwrap();
    // Only what has to be judged is refused, and it is said by whom it is not.
    let refused = stage.try_tenant("gas", json!({})).await.unwrap_err();
    assert!(refused.contains("failed calling webhook \"tenants.tenant.ensemble\""), "{refused}");

    let manager = stage.start_with_webhooks("manager-again", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.until_asked().await;
    stage.try_tenant("gas", json!({})).await.unwrap();
    stage.kubectl(&["delete", "tenant", "oil", "--timeout=60s"]).await.unwrap();
    manager.ask_to_end().await;
}

#[tokio::test]
async fn a_manager_that_is_stopped_answers_until_nobody_asks_it_any_more() {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    stage.configure(webhooks).await;
    stage.until_asked().await;
    let ended = manager.ask_to_end();
    let asked = async {
        // The API server goes on asking for a moment; a second is well within it.
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.try_tenant("oil", json!({})).await
    };
    let (_, asked) = tokio::join!(ended, asked);
    asked.unwrap();
    let refused = stage.try_tenant("oil", json!({})).await.unwrap_err();
    assert!(refused.contains("failed calling webhook"), "{refused}");
}

#[tokio::test]
async fn every_resource_of_a_rule_is_one_that_the_api_server_has() {
    let stage = Stage::complete().await;
    let mut count = 0;
    for configuration in stage.deployed_configurations().await {
        let policy = configuration["spec"]["matchConstraints"]["resourceRules"].as_array().into_iter();
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        let rules = webhooks.filter_map(|webhook| webhook["rules"].as_array()).chain(policy);
        for rules in rules {
            for rule in rules {
                let (group, version) = (&rule["apiGroups"][0], &rule["apiVersions"][0]);
                let path = match group.as_str().unwrap() {
                    "*" => continue,
                    "" => format!("/api/{}", version.as_str().unwrap()),
                    group => format!("/apis/{group}/{}", version.as_str().unwrap()),
                };
                let known = stage.kubectl(&["get", "--raw", &path]).await.unwrap();
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
    assert!(count > 0);
}

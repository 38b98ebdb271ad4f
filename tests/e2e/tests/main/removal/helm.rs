//! What Helm installed, removed in the orders that make a difference.
//!
//! Helm deletes the manager with its rights and then lets go of the cluster itself, by a Job. So what counts is what is being deleted when it begins: nothing, the
//! definitions, or the namespace, in which no Job can be made then.

use serde_json::{Value, json};

use super::{
    LET_GO, collect_garbage_of_new_kinds,
    installation::{Installation, KINDS},
    jane_makes_a_namespace,
    kubelet::{self, PLATFORM},
    snapshot::Snapshot,
};
use crate::{
    deploy::{Deployed, Helm, RELEASE, create_namespace},
    support::{MEMCACHED, Manager, TestEnv, Webhooks, run_to_exit},
};

const WITHIN: &str = "--namespace=platform";
const OURS: &str = "--selector=app.kubernetes.io/part-of=ensemble";

#[tokio::test]
async fn what_helm_uninstalls_lets_go_of_the_cluster() {
    let (stage, before) = begin().await;
    within_a_namespace(&stage).await;
    release_first(&stage).await;
    definitions_then_release(&stage).await;
    remove_the_rest(&stage, &before).await;
}

#[tokio::test]
async fn a_namespace_that_goes_before_its_release_leaves_nothing_that_cannot_be_removed() {
    let (stage, before) = begin().await;
    namespace_then_release(&stage).await;
    remove_the_rest(&stage, &before).await;
}

async fn begin() -> (TestEnv, Snapshot) {
    let stage = TestEnv::bare().await;
    let rights = ["create", "clusterrole", "jane", "--verb=create,delete", "--resource=namespaces"];
    stage.kubectl(&rights).await.unwrap();
    let binding = ["create", "clusterrolebinding", "jane", "--clusterrole=jane", "--user=jane"];
    stage.kubectl(&binding).await.unwrap();
    let before = Snapshot::of(&stage.cluster).await.unwrap();
    create_namespace(&stage, PLATFORM).await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    stage.kubectl(&["label", "namespace", PLATFORM, restricted]).await.unwrap();
    (stage, before)
}

/// Installs the chart.
fn install(stage: &TestEnv, set: &[&str]) {
    Helm::with(stage.cluster.kubeconfig()).apply("install", RELEASE, PLATFORM, set).unwrap();
    collect_garbage_of_new_kinds(stage);
}

/// Starts what a Deployment of the chart has in its pods.
async fn run(stage: &TestEnv, deployment: &str, webhooks: Webhooks) -> Manager {
    Deployed::read(stage, PLATFORM, deployment).await.run(stage, webhooks).await
}

/// Installs all of it, with objects of every kind.
async fn install_all<'s>(stage: &'s TestEnv, set: &[&str], name: &str) -> Installation<'s> {
    let webhooks = Webhooks::new();
    install(stage, set);
    let manager = run(stage, "ensemble-manager", webhooks).await;
    answer_by_url(stage, webhooks).await;
    let installation = Installation { stage, manager };
    installation.populate(&[name]).await;
    installation
}

/// Has the API server call the manager on this machine. What else stands in the configurations is Helm's.
async fn answer_by_url(stage: &TestEnv, webhooks: Webhooks) {
    stage.convert(webhooks).await;
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let there = stage.read(&["get", kinds, OURS]).await["items"].as_array().unwrap().clone();
    assert!(!there.is_empty(), "there are webhooks");
    for configuration in webhooks.configurations(&there) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (kind, name) = (text(&configuration["kind"]), text(&configuration["metadata"]["name"]));
        let patch = json!({ "webhooks": configuration["webhooks"] }).to_string();
        stage.kubectl(&["patch", &kind, &name, "--type=merge", "--patch", &patch]).await.unwrap();
        stage.until_ca_bundle(&kind, &name).await;
    }
    stage.until_tenants_reviewed().await;
}

/// With Roles instead of rights on the cluster, and a Deployment for each controller.
async fn within_a_namespace(stage: &TestEnv) {
    create_namespace(stage, "shop").await;
    let controllers = "controllers={memcached,podset}";
    install(stage, &[controllers, "perController=true", "watchNamespaces={shop}", "metrics.enabled=false"]);
    let memcached = run(stage, "ensemble-memcached", Webhooks::new()).await;
    let podset = run(stage, "ensemble-podset", Webhooks::new()).await;
    stage.create(&MEMCACHED, "shop", "sold", json!({ "size": 1 })).await;
    stage.until_ready(&MEMCACHED, "shop", "sold").await;
    let log = kubelet::uninstall(stage, [memcached, podset]).await;
    assert!(log.contains("object=shop/sold finalizer=cache.example.com/finalizer"), "{log}");
    nothing_holds(stage).await;
    stage.kubectl(&["delete", "namespace", "shop", "--wait=false"]).await.unwrap();
}

async fn release_first(stage: &TestEnv) {
    let Installation { manager, .. } = install_all(stage, &[], "kept").await;
    let log = kubelet::uninstall(stage, [manager]).await;
    assert!(log.contains(LET_GO), "{log}");
    assert!(log.contains("deleted kind=ClusterRoleBinding object=capsule-namespace-provisioner"), "{log}");
    nothing_holds(stage).await;
    assert!(stage.names(&["memcacheds"]).await.contains(&"kept".to_owned()), "objects stay");
    Installation::delete_all_objects(stage).await;
    for kind in KINDS {
        stage.until_empty(&[kind.singular(), "--all-namespaces"]).await;
    }
    Installation::delete_definitions(stage).await;
    stage.until_empty(&["customresourcedefinitions"]).await;
}

async fn definitions_then_release(stage: &TestEnv) {
    let Installation { manager, .. } = install_all(stage, &["crds.keep=false"], "gone").await;
    Installation::delete_definitions(stage).await;
    let log = kubelet::uninstall(stage, [manager]).await;
    assert!(log.contains(LET_GO), "{log}");
    stage.until_empty(&["customresourcedefinitions"]).await;
    nothing_holds(stage).await;
}

/// Nothing can be made in a namespace that goes, so Helm's last step fails and says so. It has taken the manager's rights by then.
async fn namespace_then_release(stage: &TestEnv) {
    let Installation { manager, .. } = install_all(stage, &[], "held").await;
    kubelet::hold_pods(stage).await;
    stage.kubectl(&["delete", "namespace", PLATFORM, "--wait=false"]).await.unwrap();
    let refused = kubelet::ask_helm(stage).until_exit().await.unwrap_err();
    assert!(refused.contains("because it is being terminated"), "{refused}");
    kubelet::end(manager).await;
    kubelet::let_pods_go(stage).await;
    let administrator = stage.cluster.kubeconfig().display().to_string();
    let done = run_to_exit(&["release"], &[("KUBECONFIG", &administrator), ("POD_NAMESPACE", PLATFORM)]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains(LET_GO), "{done:?}");
    jane_makes_a_namespace(stage).await.unwrap();
    let again = kubelet::ask_helm(stage).until_exit().await.unwrap_err();
    assert!(again.contains("not found"), "{again}");
}

/// Objects that are there have no finalizer, nobody asks a manager, and nothing of Helm's last step is left.
async fn nothing_holds(stage: &TestEnv) {
    let definitions = stage.names(&["customresourcedefinitions"]).await;
    for kind in KINDS.into_iter().filter(|kind| definitions.contains(&kind.definition())) {
        let objects = stage.read(&["get", kind.singular(), "--all-namespaces"]).await;
        for object in objects["items"].as_array().unwrap() {
            assert_eq!(object["metadata"]["finalizers"], Value::Null, "{object}");
        }
    }
    let kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings";
    stage.until_empty(&[kinds, OURS]).await;
    let namespaced = "serviceaccounts,roles,rolebindings,jobs,pods,deployments";
    stage.until_empty(&[namespaced, OURS, WITHIN]).await;
    jane_makes_a_namespace(stage).await.unwrap();
}

async fn remove_the_rest(stage: &TestEnv, before: &Snapshot) {
    let definitions = stage.names(&["customresourcedefinitions"]).await;
    for definition in definitions {
        stage.kubectl(&["delete", "customresourcedefinition", &definition, "--wait=false"]).await.unwrap();
    }
    stage.kubectl(&["delete", "namespace", PLATFORM, "--wait=false", "--ignore-not-found"]).await.unwrap();
    let made = |name: &String| ["plus-", "member-of-"].iter().any(|prefix| name.starts_with(prefix));
    for name in stage.names(&["namespaces"]).await.into_iter().filter(made) {
        stage.kubectl(&["delete", "namespace", &name, "--wait=false"]).await.unwrap();
    }
    before.until_again(&stage.cluster, &[]).await;
}

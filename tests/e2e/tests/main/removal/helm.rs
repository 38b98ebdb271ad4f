//! `helm uninstall` in the orders that make a difference.
//!
//! Helm deletes the manager and its permissions, and then runs the cleanup in a Job. The outcome
//! depends on what is being deleted when Helm starts: nothing, the CustomResourceDefinitions, or
//! the namespace, in which Helm cannot create the Job.

use serde_json::{Value, json};

use super::{
    COMPLETE, create_namespace_as_jane, discover_new_kinds,
    installation::{Installation, KINDS},
    kubelet::{self, PLATFORM},
    snapshot::Snapshot,
};
use crate::{
    deploy::{Deployed, Helm, RELEASE, create_namespace},
    support::{MEMCACHED, Manager, TestEnv, Webhooks, run_to_exit},
};

const WITHIN: &str = "--namespace=platform";
const SELECTOR: &str = "--selector=app.kubernetes.io/part-of=ensemble";

#[tokio::test]
async fn helm_uninstall_removes_finalizers_and_permissions() {
    let (stage, before) = begin().await;
    namespaced_release(&stage).await;
    release_only(&stage).await;
    crds_then_release(&stage).await;
    remove_the_rest(&stage, &before).await;
}

#[tokio::test]
async fn cleanup_succeeds_after_helm_uninstall_in_terminating_namespace() {
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
    discover_new_kinds(stage);
}

/// Runs a manager as the Pods of a Deployment of the chart do.
async fn run(stage: &TestEnv, deployment: &str, webhooks: Webhooks) -> Manager {
    Deployed::read(stage, PLATFORM, deployment).await.run(stage, webhooks).await
}

/// Installs the chart and creates an object of every kind.
async fn install_all<'s>(stage: &'s TestEnv, set: &[&str], name: &str) -> Installation<'s> {
    let webhooks = Webhooks::new();
    install(stage, set);
    let manager = run(stage, "ensemble-manager", webhooks).await;
    serve_webhooks_by_url(stage, webhooks).await;
    let installation = Installation { stage, manager };
    installation.populate(&[name]).await;
    installation
}

/// Points the webhook configurations of the chart to the manager on this machine.
async fn serve_webhooks_by_url(stage: &TestEnv, webhooks: Webhooks) {
    stage.convert(webhooks).await;
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let deployed = stage.read(&["get", kinds, SELECTOR]).await["items"].as_array().unwrap().clone();
    assert!(!deployed.is_empty(), "the chart has webhooks");
    for configuration in webhooks.configurations(&deployed) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (kind, name) = (text(&configuration["kind"]), text(&configuration["metadata"]["name"]));
        let patch = json!({ "webhooks": configuration["webhooks"] }).to_string();
        stage.kubectl(&["patch", &kind, &name, "--type=merge", "--patch", &patch]).await.unwrap();
    }
    stage.until_ca_bundles(deployed.iter()).await;
    stage.until_tenants_reviewed().await;
}

/// Installs with Roles instead of ClusterRoles, and with a Deployment for each controller.
async fn namespaced_release(stage: &TestEnv) {
    create_namespace(stage, "shop").await;
    let controllers = "controllers={memcached,podset}";
    install(stage, &[controllers, "perController=true", "watchNamespaces={shop}", "metrics.enabled=false"]);
    let memcached = run(stage, "ensemble-memcached", Webhooks::new()).await;
    let podset = run(stage, "ensemble-podset", Webhooks::new()).await;
    stage.create(&MEMCACHED, "shop", "sold", json!({ "size": 1 })).await;
    stage.until_ready(&MEMCACHED, "shop", "sold").await;
    let log = kubelet::uninstall(stage, [memcached, podset]).await;
    assert!(log.contains("object=shop/sold finalizer=cache.example.com/finalizer"), "{log}");
    assert_clean(stage).await;
    stage.kubectl(&["delete", "namespace", "shop", "--wait=false"]).await.unwrap();
}

async fn release_only(stage: &TestEnv) {
    let Installation { manager, .. } = install_all(stage, &[], "kept").await;
    let log = kubelet::uninstall(stage, [manager]).await;
    assert!(log.contains(COMPLETE), "{log}");
    assert!(
        log.contains("deleted object kind=ClusterRoleBinding object=capsule-namespace-provisioner"),
        "{log}"
    );
    assert_clean(stage).await;
    assert!(stage.names(&["memcacheds"]).await.contains(&"kept".to_owned()), "the objects must stay");
    Installation::delete_all_objects(stage).await;
    for kind in KINDS {
        stage.until_empty(&[kind.singular(), "--all-namespaces"]).await;
    }
    Installation::delete_crds(stage).await;
    stage.until_empty(&["customresourcedefinitions"]).await;
}

async fn crds_then_release(stage: &TestEnv) {
    let Installation { manager, .. } = install_all(stage, &["crds.keep=false"], "gone").await;
    Installation::delete_crds(stage).await;
    let log = kubelet::uninstall(stage, [manager]).await;
    assert!(log.contains(COMPLETE), "{log}");
    stage.until_empty(&["customresourcedefinitions"]).await;
    assert_clean(stage).await;
}

/// Helm cannot create the Job in a terminating namespace and reports an error. At that time it has
/// already deleted the permissions of the manager.
async fn namespace_then_release(stage: &TestEnv) {
    let Installation { manager, .. } = install_all(stage, &[], "terminating").await;
    kubelet::keep_pods(stage).await;
    stage.kubectl(&["delete", "namespace", PLATFORM, "--wait=false"]).await.unwrap();
    let error = kubelet::start_uninstall(stage).wait().await.unwrap_err();
    assert!(error.contains("because it is being terminated"), "{error}");
    kubelet::stop(manager).await;
    kubelet::finalize_pods(stage).await;
    let administrator = stage.cluster.kubeconfig().display().to_string();
    let done = run_to_exit(&["cleanup"], &[("KUBECONFIG", &administrator), ("POD_NAMESPACE", PLATFORM)]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains(COMPLETE), "{done:?}");
    create_namespace_as_jane(stage).await.unwrap();
    let again = kubelet::start_uninstall(stage).wait().await.unwrap_err();
    assert!(again.contains("not found"), "{again}");
}

/// Asserts that no object has a finalizer, that no webhook is registered, and that the objects of
/// the cleanup Job are gone.
async fn assert_clean(stage: &TestEnv) {
    let definitions = stage.names(&["customresourcedefinitions"]).await;
    for kind in KINDS.into_iter().filter(|kind| definitions.contains(&kind.definition())) {
        let objects = stage.read(&["get", kind.singular(), "--all-namespaces"]).await;
        for object in objects["items"].as_array().unwrap() {
            assert_eq!(object["metadata"]["finalizers"], Value::Null, "{object}");
        }
    }
    let kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings";
    stage.until_empty(&[kinds, SELECTOR]).await;
    let namespaced = "serviceaccounts,roles,rolebindings,jobs,pods,deployments";
    stage.until_empty(&[namespaced, SELECTOR, WITHIN]).await;
    create_namespace_as_jane(stage).await.unwrap();
}

async fn remove_the_rest(stage: &TestEnv, before: &Snapshot) {
    let definitions = stage.names(&["customresourcedefinitions"]).await;
    for definition in definitions {
        stage.kubectl(&["delete", "customresourcedefinition", &definition, "--wait=false"]).await.unwrap();
    }
    stage.kubectl(&["delete", "namespace", PLATFORM, "--wait=false", "--ignore-not-found"]).await.unwrap();
    Installation::delete_volumes(stage).await;
    let is_created = |name: &String| ["plus-", "member-of-"].iter().any(|prefix| name.starts_with(prefix));
    for name in stage.names(&["namespaces"]).await.into_iter().filter(is_created) {
        stage.kubectl(&["delete", "namespace", &name, "--wait=false"]).await.unwrap();
    }
    before.wait_until_equal(&stage.cluster, &[]).await;
}

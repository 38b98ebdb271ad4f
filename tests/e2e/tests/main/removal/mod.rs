//! Uninstalling in any order leaves nothing behind.
//!
//! There are four steps: stop the manager (delete its Deployment), delete its namespace, delete the
//! CustomResourceDefinitions, and delete the objects. Many of the 24 orders are equivalent:
//!
//! - Deleting the namespace stops the manager that runs in it. To stop the manager after that has
//!   no effect.
//! - Deleting the CustomResourceDefinitions deletes their objects. To delete the objects after that
//!   has no effect.
//! - Once no manager runs, the order of the remaining steps has no effect.
//!
//! Two questions are left: how does the manager stop, and what is being deleted at that time? The
//! six combinations are tested, two at a time if they concern different objects. A step does not
//! wait for its deletions, so the next step starts while they are in progress.
//!
//! | manager stops by | nothing before | objects before | CustomResourceDefinitions before |
//! |---|---|---|---|
//! | its namespace | [`namespace_first`] | [`namespace_first`] | [`crds_then_namespace`] |
//! | its Deployment | [`manager_first`] | [`manager_first`] | [`crds_then_manager`] |
//!
//! [`helm`] uninstalls the Helm chart, in its own orders.

mod crd_deletion;
mod helm;
mod installation;
mod kubelet;
mod snapshot;

use cluster::{Component, wait::eventually};
use installation::Installation;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::json;
use snapshot::Snapshot;

use crate::support::{Account, MEMCACHED, NAMESPACE, PATIENCE, TestEnv, path, run_to_exit};

/// Log message of a complete cleanup.
const COMPLETE: &str = "cleanup is complete";
/// Finalizer of the Memcached controller.
const MEMCACHED_FINALIZER: &str = "cache.example.com/finalizer";
/// Finalizer of another controller.
const FOREIGN_FINALIZER: &str = "example.com/foreign";

#[tokio::test]
async fn deleting_namespace_of_manager_leaves_nothing() {
    let (mut stage, before) = begin().await;
    namespace_first(&mut stage, &before).await;
    crds_then_namespace(&mut stage, &before).await;
}

#[tokio::test]
async fn cleanup_after_stopped_manager_leaves_nothing() {
    let (mut stage, before) = begin().await;
    manager_first(&mut stage, &before).await;
    let manager = crd_deletion::recreate_while_manager_runs(&mut stage).await;
    crds_then_manager(manager, &before).await;
}

/// Creates a cluster with the CustomResourceDefinitions. Returns it with a snapshot of its state
/// before.
async fn begin() -> (TestEnv, Snapshot) {
    let cluster = cluster::isolated().await.unwrap();
    let rights = ["create", "clusterrole", "jane", "--verb=create,delete", "--resource=namespaces"];
    cluster.kubectl(&rights).await.unwrap();
    cluster
        .kubectl(&["create", "clusterrolebinding", "jane", "--clusterrole=jane", "--user=jane"])
        .await
        .unwrap();
    let before = Snapshot::of(&cluster).await.unwrap();
    let stage = TestEnv::bare_on(cluster).await;
    install_crds(&stage).await;
    (stage, before)
}

/// Installs the CustomResourceDefinitions.
async fn install_crds(stage: &TestEnv) {
    stage.install_crds().await;
    discover_new_kinds(stage);
}

/// Restarts the garbage collector, which otherwise discovers new kinds only every 30 s.
fn discover_new_kinds(stage: &TestEnv) {
    stage.cluster.stop_component(Component::KubeControllerManager).unwrap();
    stage.cluster.start_component(Component::KubeControllerManager).unwrap();
}

async fn namespace_first(stage: &mut TestEnv, before: &Snapshot) {
    let manager = Installation::begin(stage, "first").await;
    let stage = manager.stage;
    manager.populate(&["early", "late"]).await;
    manager.delete_objects("early").await;
    let log = manager.delete_namespace_and_wait().await;
    assert!(log.contains(COMPLETE), "{log}");
    Installation::delete_all_objects(stage).await;
    create_namespace_as_jane(stage).await.unwrap();
    Installation::delete_the_rest(stage).await;
    before.wait_until_equal(&stage.cluster, &snapshot::CRD_KINDS).await;
}

async fn crds_then_namespace(stage: &mut TestEnv, before: &Snapshot) {
    let manager = Installation::begin(stage, "second").await;
    let stage = manager.stage;
    manager.populate(&["late"]).await;
    Installation::delete_crds(stage).await;
    let log = manager.delete_namespace_and_wait().await;
    assert!(log.contains(COMPLETE), "{log}");
    create_namespace_as_jane(stage).await.unwrap();
    Installation::delete_the_rest(stage).await;
    before.wait_until_equal(&stage.cluster, &[]).await;
}

async fn manager_first(stage: &mut TestEnv, before: &Snapshot) {
    let manager = Installation::begin(stage, "first").await;
    let stage = manager.stage;
    manager.populate(&["early", "late"]).await;
    add_foreign_finalizer(stage).await;
    manager.delete_objects("early").await;
    let log = manager.stop().await;
    assert!(!log.contains(COMPLETE), "stopping the manager must not clean up: {log}");
    Installation::delete_all_objects(stage).await;

    // The stopped manager leaves webhooks without a server, and finalizers.
    let refused = create_namespace_as_jane(stage).await.unwrap_err();
    assert!(format!("{refused:#}").contains("failed calling webhook"), "{refused:#}");
    let memcached = stage.api(&MEMCACHED, "default").await.get("late").await.unwrap();
    assert!(memcached.finalizers().iter().any(|finalizer| finalizer == MEMCACHED_FINALIZER), "{memcached:?}");
    assert!(memcached.metadata.deletion_timestamp.is_some(), "{memcached:?}");

    let cleaner = stage.account("cleaner").await;
    let refused = run_to_exit(&["cleanup"], &[("KUBECONFIG", kubeconfig(&cleaner))]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("apply deploy/rbac/optional/cleanup.yaml"), "{refused:?}");
    let file = path("deploy/rbac/optional/cleanup.yaml");
    stage.kubectl(&["apply", "--server-side", "-f", &file]).await.unwrap();
    stage.grant_controller_rights(&cleaner, "cleanup").await;
    let subject = format!("--serviceaccount={NAMESPACE}:cleaner");
    let within = format!("--namespace={NAMESPACE}");
    let binding = ["create", "rolebinding", "cleaner-cleanup", "--role=ensemble-cleanup", &subject, &within];
    stage.kubectl(&binding).await.unwrap();
    let done = run_to_exit(&["cleanup"], &[("KUBECONFIG", kubeconfig(&cleaner))]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for line in [
        "deleted object kind=ValidatingWebhookConfiguration object=ensemble-tenant",
        "deleted object kind=ClusterRoleBinding object=capsule-namespace-provisioner",
        "removed finalizer kind=Memcached object=default/late finalizer=cache.example.com/finalizer",
    ] {
        assert!(done.stderr.contains(line), "{line}: {}", done.stderr);
    }
    let again = run_to_exit(&["cleanup"], &[("KUBECONFIG", kubeconfig(&cleaner))]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stderr.contains(&format!("{COMPLETE} count=0")), "{again:?}");

    create_namespace_as_jane(stage).await.unwrap();
    remove_foreign_finalizer(stage).await;
    Installation::delete_namespace(stage).await;
    Installation::delete_the_rest(stage).await;
    stage.kubectl(&["delete", "clusterrolebinding", "cleaner-cleanup"]).await.unwrap();
    before.wait_until_equal(&stage.cluster, &snapshot::CRD_KINDS).await;
}

async fn crds_then_manager(manager: Installation<'_>, before: &Snapshot) {
    let stage = manager.stage;
    Installation::delete_crds(stage).await;
    manager.stop().await;
    Installation::delete_namespace(stage).await;
    let administrator = stage.cluster.kubeconfig().display().to_string();
    let done = run_to_exit(&["cleanup"], &[("KUBECONFIG", &administrator)]);
    assert_eq!(done.code, Some(0), "{done:?}");
    create_namespace_as_jane(stage).await.unwrap();
    Installation::delete_the_rest(stage).await;
    before.wait_until_equal(&stage.cluster, &[]).await;
}

/// Creates and deletes a namespace as a user who is not a Tenant owner.
async fn create_namespace_as_jane(stage: &TestEnv) -> anyhow::Result<()> {
    stage.kubectl(&["create", "namespace", "janes", "--as=jane"]).await?;
    stage.kubectl(&["delete", "namespace", "janes", "--as=jane", "--wait=false"]).await?;
    Ok(())
}

fn kubeconfig(account: &Account) -> &str {
    account.kubeconfig().to_str().unwrap()
}

/// Adds the finalizer of another controller to a Memcached.
async fn add_foreign_finalizer(stage: &TestEnv) {
    let patch =
        json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": FOREIGN_FINALIZER }]).to_string();
    stage.kubectl(&["patch", "memcached", "late", "--type=json", "-p", &patch]).await.unwrap();
}

/// Waits until the finalizer of another controller is the only one, and removes it.
async fn remove_foreign_finalizer(stage: &TestEnv) {
    let is_last = |object: &DynamicObject| object.finalizers() == [FOREIGN_FINALIZER];
    stage.until(&MEMCACHED, "default", "late", "to have only the foreign finalizer", is_last).await;
    let patch = json!({ "metadata": { "finalizers": null } }).to_string();
    stage.kubectl(&["patch", "memcached", "late", "--type=merge", "-p", &patch]).await.unwrap();
    eventually("the last object to be gone", PATIENCE, async || {
        Ok(stage.names(&["memcacheds", "--all-namespaces"]).await.is_empty())
    })
    .await
    .unwrap();
}

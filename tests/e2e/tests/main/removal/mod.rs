//! Removed without a scar: in whatever order people take things away, nothing of ours is left.
//!
//! Four things can be taken away: the manager (its Deployment, which asks it to end), its namespace, the definitions and
//! the objects. Of the 24 orders many are one:
//!
//! - A namespace that is deleted ends the manager that runs in it. So an order in which the manager is stopped after its
//!   namespace is the order without that stop.
//! - Objects go with their definitions. So an order in which they are deleted after those is the order without that.
//! - Once no manager runs, nobody of ours acts: what is deleted from then on is deleted in whatever order.
//!
//! What counts is how the manager ends, and what is being deleted when it does: nothing, the objects, or the definitions.
//! These are six, and each is tried, two at a time where they are about different objects. Deletions are asked for and
//! not waited for, so that the next step meets them under way.
//!
//! | the manager ends by | nothing before | objects before | definitions before |
//! |---|---|---|---|
//! | its namespace | [`namespace_first`] | [`namespace_first`] | [`definitions_then_namespace`] |
//! | its Deployment | [`manager_first`] | [`manager_first`] | [`definitions_then_manager`] |
//!
//! What Helm installed is removed by [`helm`], which has orders of its own.

mod definitions;
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

/// What a manager says that has let go of everything.
const LET_GO: &str = "nothing holds the cluster any more";
/// The finalizer of the Memcached controller.
const OURS: &str = "cache.example.com/finalizer";
/// The finalizer of somebody else.
const FOREIGN: &str = "example.com/foreign";

#[tokio::test]
async fn a_manager_whose_namespace_is_deleted_leaves_nothing() {
    let (mut stage, before) = begin().await;
    namespace_first(&mut stage, &before).await;
    definitions_then_namespace(&mut stage, &before).await;
}

#[tokio::test]
async fn a_manager_that_was_stopped_leaves_nothing_that_release_does_not_let_go_of() {
    let (mut stage, before) = begin().await;
    manager_first(&mut stage, &before).await;
    let manager = definitions::come_back_under_a_manager(&mut stage).await;
    definitions_then_manager(manager, &before).await;
}

/// A cluster that knows the kinds, and how it was before.
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
    define(&stage).await;
    (stage, before)
}

/// Installs the definitions. The garbage collector looks for new kinds at its start and every 30 s, and what it does not know
/// it leaves alone.
async fn define(stage: &TestEnv) {
    stage.install_crds().await;
    collect_garbage_of_new_kinds(stage);
}

fn collect_garbage_of_new_kinds(stage: &TestEnv) {
    stage.cluster.stop_component(Component::KubeControllerManager).unwrap();
    stage.cluster.start_component(Component::KubeControllerManager).unwrap();
}

async fn namespace_first(stage: &mut TestEnv, before: &Snapshot) {
    let manager = Installation::begin(stage, "first").await;
    let stage = manager.stage;
    manager.populate(&["early", "late"]).await;
    manager.delete_objects("early").await;
    let log = manager.end_with_its_namespace().await;
    assert!(log.contains(LET_GO), "{log}");
    Installation::delete_all_objects(stage).await;
    jane_makes_a_namespace(stage).await.unwrap();
    Installation::delete_the_rest(stage).await;
    before.until_again(&stage.cluster, &snapshot::DEFINITIONS).await;
}

async fn definitions_then_namespace(stage: &mut TestEnv, before: &Snapshot) {
    let manager = Installation::begin(stage, "second").await;
    let stage = manager.stage;
    manager.populate(&["late"]).await;
    Installation::delete_definitions(stage).await;
    let log = manager.end_with_its_namespace().await;
    assert!(log.contains(LET_GO), "{log}");
    jane_makes_a_namespace(stage).await.unwrap();
    Installation::delete_the_rest(stage).await;
    before.until_again(&stage.cluster, &[]).await;
}

async fn manager_first(stage: &mut TestEnv, before: &Snapshot) {
    let manager = Installation::begin(stage, "first").await;
    let stage = manager.stage;
    manager.populate(&["early", "late"]).await;
    hold_by_somebody_else(stage).await;
    manager.delete_objects("early").await;
    let log = manager.end().await;
    assert!(!log.contains(LET_GO), "a stop alone is not for good: {log}");
    Installation::delete_all_objects(stage).await;

    // What a manager that is gone left: webhooks that nobody answers, and finalizers.
    let refused = jane_makes_a_namespace(stage).await.unwrap_err();
    assert!(format!("{refused:#}").contains("failed calling webhook"), "{refused:#}");
    let held = stage.api(&MEMCACHED, "default").await.get("late").await.unwrap();
    assert!(held.finalizers().iter().any(|finalizer| finalizer == OURS), "{held:?}");
    assert!(held.metadata.deletion_timestamp.is_some(), "{held:?}");

    let releaser = stage.account("releaser").await;
    let refused = run_to_exit(&["release"], &[("KUBECONFIG", kubeconfig(&releaser))]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("apply deploy/rbac/optional/release.yaml"), "{refused:?}");
    let file = path("deploy/rbac/optional/release.yaml");
    stage.kubectl(&["apply", "--server-side", "-f", &file]).await.unwrap();
    stage.grant_controller_rights(&releaser, "release").await;
    let subject = format!("--serviceaccount={NAMESPACE}:releaser");
    let within = format!("--namespace={NAMESPACE}");
    let sees = ["create", "rolebinding", "releaser-release", "--role=ensemble-release", &subject, &within];
    stage.kubectl(&sees).await.unwrap();
    let done = run_to_exit(&["release"], &[("KUBECONFIG", kubeconfig(&releaser))]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for told in [
        "deleted kind=ValidatingWebhookConfiguration object=ensemble-tenant",
        "deleted kind=ClusterRoleBinding object=capsule-namespace-provisioner",
        "the finalizer is taken off kind=Memcached object=default/late finalizer=cache.example.com/finalizer",
    ] {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }
    let again = run_to_exit(&["release"], &[("KUBECONFIG", kubeconfig(&releaser))]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stderr.contains(&format!("{LET_GO} count=0")), "{again:?}");

    jane_makes_a_namespace(stage).await.unwrap();
    let_go_by_somebody_else(stage).await;
    Installation::delete_namespace(stage).await;
    Installation::delete_the_rest(stage).await;
    stage.kubectl(&["delete", "clusterrolebinding", "releaser-release"]).await.unwrap();
    before.until_again(&stage.cluster, &snapshot::DEFINITIONS).await;
}

async fn definitions_then_manager(manager: Installation<'_>, before: &Snapshot) {
    let stage = manager.stage;
    Installation::delete_definitions(stage).await;
    manager.end().await;
    Installation::delete_namespace(stage).await;
    let administrator = stage.cluster.kubeconfig().display().to_string();
    let done = run_to_exit(&["release"], &[("KUBECONFIG", &administrator)]);
    assert_eq!(done.code, Some(0), "{done:?}");
    jane_makes_a_namespace(stage).await.unwrap();
    Installation::delete_the_rest(stage).await;
    before.until_again(&stage.cluster, &[]).await;
}

/// Somebody who has nothing to do with Tenants makes a namespace, and deletes it.
async fn jane_makes_a_namespace(stage: &TestEnv) -> anyhow::Result<()> {
    stage.kubectl(&["create", "namespace", "janes", "--as=jane"]).await?;
    stage.kubectl(&["delete", "namespace", "janes", "--as=jane", "--wait=false"]).await?;
    Ok(())
}

fn kubeconfig(account: &Account) -> &str {
    account.kubeconfig().to_str().unwrap()
}

/// A finalizer that is not ours, on an object that is.
async fn hold_by_somebody_else(stage: &TestEnv) {
    let patch = json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": FOREIGN }]).to_string();
    stage.kubectl(&["patch", "memcached", "late", "--type=json", "-p", &patch]).await.unwrap();
}

/// Theirs is the only one that is left.
async fn let_go_by_somebody_else(stage: &TestEnv) {
    let is_alone = |object: &DynamicObject| object.finalizers() == [FOREIGN];
    stage.until(&MEMCACHED, "default", "late", "to be held by somebody else alone", is_alone).await;
    let patch = json!({ "metadata": { "finalizers": null } }).to_string();
    stage.kubectl(&["patch", "memcached", "late", "--type=merge", "-p", &patch]).await.unwrap();
    eventually("the last object to be gone", PATIENCE, async || {
        Ok(stage.names(&["memcacheds", "--all-namespaces"]).await.is_empty())
    })
    .await
    .unwrap();
}

//! Published vulnerabilities of similar projects.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    Subject, TENANT_LABEL,
    namespace_takeover::{Attempt, Change, Endpoint, Write, assert_refused, subjects_of},
    shared_env,
};

/// A ServiceAccount of a Tenant that is no owner removes its namespace from the Tenant.
#[tokio::test]
async fn cve_2022_46167_service_account_cannot_remove_namespace_from_tenant() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "c22").await;
    subjects[0].create(env, "c22-dev").await.unwrap();
    let inside =
        [Subject::account("c22-dev", "default"), Subject::account("c22-dev", "default").tenant_user()];
    let changes = [Change::references([]), Change::label(Value::Null), Change::label("c22-rival")];
    assert_refused(env, &inside, &["c22-dev"], &changes, &[Endpoint::Itself, Endpoint::Status]).await;
    // Changes of enforced metadata are rejected too.
    let relaxed = Change {
        labels: vec![("pod-security.kubernetes.io/enforce", json!("privileged"))],
        ..Change::default()
    };
    assert_refused(env, &inside, &["c22-dev"], &[relaxed], &[Endpoint::Itself]).await;
}

/// ServiceAccounts with the same name in different namespaces are confused.
#[tokio::test]
async fn cve_2023_46254_service_accounts_are_distinguished_by_namespace() {
    let env = shared_env().await;
    let accounts =
        ["solar", "wind"].map(|namespace| Subject::account(namespace, "tenant-owner").tenant_user());
    for (tenant, owner) in ["solar", "wind"].iter().zip(&accounts) {
        env.tenant(tenant, &[owner], json!({})).await;
        owner.create(env, &format!("{tenant}-farm")).await.unwrap();
        assert_eq!(env.tenant_of(&format!("{tenant}-farm")).await, *tenant);
    }
    let [solar, wind] = &accounts;
    assert!(solar.delete(env, "wind-farm").await.is_err());
    assert!(wind.delete(env, "solar-farm").await.is_err());
    let labelled = json!({ "labels": { TENANT_LABEL: "wind" } });
    assert!(solar.create_with(env, "wind-park", labelled).await.is_err());
    for name in ["tenant-owner", "solar-tenant-owner", "solar:tenant-owner"] {
        let refused = Subject::user(name).create(env, "solar-park").await.unwrap_err();
        assert!(refused.contains("you own no Tenant"), "{refused}");
    }
}

/// An owner adds an owner reference of their Tenant to a namespace without a Tenant.
#[tokio::test]
async fn cve_2024_39690_owner_cannot_take_unassigned_namespace() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "c24").await;
    let own = env.reference("c24").await;
    let annotated = Change {
        annotations: vec![("capsule.clastix.io/storage-classes", json!("fast"))],
        ..Change::default()
    };
    let changes = [Change::references([&own]), Change::label("c24")];
    let namespaces = ["kube-system", "default", "ensemble-system", "kube-public"];
    assert_refused(env, &subjects[..5], &namespaces, &changes, &[Endpoint::Itself]).await;
    assert_refused(env, &subjects[..5], &["kube-system", "default"], &[annotated], &[Endpoint::Itself]).await;
}

/// An owner sets labels on a namespace without a Tenant.
#[tokio::test]
async fn cve_2025_55205_owner_cannot_label_unassigned_namespace() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "c25").await;
    env.kubectl(&["create", "namespace", "c25-unassigned"]).await.unwrap();
    let labelled = Change { labels: vec![("environment", json!("prod"))], ..Change::default() };
    let endpoint = [Endpoint::Itself, Endpoint::Status, Endpoint::Finalize];
    let namespaces = ["kube-system", "c25-unassigned"];
    assert_refused(env, &subjects[..5], &namespaces, &[labelled], &endpoint).await;
}

/// The subresource `status` can change metadata.
#[tokio::test]
async fn cve_2026_30963_namespace_status_is_validated() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "c30").await;
    subjects[0].create(env, "c30-dev").await.unwrap();
    let rival = env.reference("c30-rival").await;
    let changes = [Change::label("c30-rival"), Change::references([&rival]), Change::references([])];
    assert_refused(env, &subjects, &["c30-dev"], &changes, &[Endpoint::Status]).await;
    // An administrator can write metadata endpoint the subresource.
    let root = Subject::member("root", "system:masters");
    let namespaces = root.namespaces(env).await;
    let harmless = Patch::Merge(json!({ "metadata": { "labels": { "endpoint": "status" } } }));
    let patched = namespaces.patch_status("c30-dev", &PatchParams::default(), &harmless).await.unwrap();
    assert_eq!(patched.metadata.labels.unwrap()["endpoint"], "status");
}

/// A webhook rule with a misspelled subresource `finalize` never matches.
#[tokio::test]
async fn cve_2026_55636_namespace_finalize_is_validated() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "c55").await;
    subjects[0].create(env, "c55-dev").await.unwrap();
    let rival = env.reference("c55-rival").await;
    let changes = [Change::label("c55-rival"), Change::references([&rival]), Change::references([])];
    let count = assert_refused(env, &subjects, &["c55-dev"], &changes, &[Endpoint::Finalize]).await;
    assert_eq!(count, subjects.len() * changes.len(), "one write each: the subresource has no patch");
    // Without a webhook, other metadata can be changed.
    let change = Change { labels: vec![("endpoint", json!("finalize"))], ..Change::default() };
    let api = subjects[0].namespaces(env).await;
    let attempt = Attempt {
        subject: &subjects[0],
        api: &api,
        namespace: "c55-dev",
        change: &change,
        write: Write::Put,
        endpoint: Endpoint::Finalize,
    };
    attempt.send().await.unwrap();
    let labels = env.read(&["get", "namespace", "c55-dev"]).await["metadata"]["labels"].clone();
    assert_eq!(labels["endpoint"], "finalize");
}

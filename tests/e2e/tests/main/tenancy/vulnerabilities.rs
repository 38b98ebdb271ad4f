//! What went wrong elsewhere, each under the name that it was published by.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    Person, TENANT_LABEL,
    hijack::{Attempt, Change, Through, Way, assert_refused, six},
    town,
};

/// A ServiceAccount of a tenant, who owns nothing, takes its namespace out of the Tenant.
#[tokio::test]
async fn cve_2022_46167_a_service_account_does_not_take_its_namespace_out_of_the_tenant() {
    let stage = town().await;
    let people = six(stage, "c22").await;
    people[0].create(stage, "c22-dev").await.unwrap();
    let inside = [Person::account("c22-dev", "default"), Person::account("c22-dev", "default").who_may_own()];
    let changes = [Change::references([]), Change::label(Value::Null), Change::label("c22-rival")];
    assert_refused(stage, &inside, &["c22-dev"], &changes, &[Through::Itself, Through::Status]).await;
    // Neither does it change what would be enforced there.
    let relaxed = Change {
        labels: vec![("pod-security.kubernetes.io/enforce", json!("privileged"))],
        ..Change::default()
    };
    assert_refused(stage, &inside, &["c22-dev"], &[relaxed], &[Through::Itself]).await;
}

/// ServiceAccounts of one name in two namespaces are taken for each other.
#[tokio::test]
async fn cve_2023_46254_service_accounts_of_one_name_are_told_apart() {
    let stage = town().await;
    let accounts =
        ["solar", "wind"].map(|namespace| Person::account(namespace, "tenant-owner").who_may_own());
    for (tenant, owner) in ["solar", "wind"].iter().zip(&accounts) {
        stage.tenant(tenant, &[owner], json!({})).await;
        owner.create(stage, &format!("{tenant}-farm")).await.unwrap();
        assert_eq!(stage.tenant_of(&format!("{tenant}-farm")).await, *tenant);
    }
    let [solar, wind] = &accounts;
    assert!(solar.delete(stage, "wind-farm").await.is_err());
    assert!(wind.delete(stage, "solar-farm").await.is_err());
    let labelled = json!({ "labels": { TENANT_LABEL: "wind" } });
    assert!(solar.create_with(stage, "wind-park", labelled).await.is_err());
    for name in ["tenant-owner", "solar-tenant-owner", "solar:tenant-owner"] {
        let refused = Person::user(name).create(stage, "solar-park").await.unwrap_err();
        assert!(refused.contains("you own no Tenant"), "{refused}");
    }
}

/// An owner adds an owner reference to their Tenant to a namespace that has none.
#[tokio::test]
async fn cve_2024_39690_a_namespace_without_a_tenant_is_not_taken() {
    let stage = town().await;
    let people = six(stage, "c24").await;
    let own = stage.reference("c24").await;
    let annotated = Change {
        annotations: vec![("capsule.clastix.io/storage-classes", json!("fast"))],
        ..Change::default()
    };
    let changes = [Change::references([&own]), Change::label("c24")];
    let namespaces = ["kube-system", "default", "ensemble-system", "kube-public"];
    assert_refused(stage, &people[..5], &namespaces, &changes, &[Through::Itself]).await;
    assert_refused(stage, &people[..5], &["kube-system", "default"], &[annotated], &[Through::Itself]).await;
}

/// An owner puts any label at all on a namespace that has no Tenant.
#[tokio::test]
async fn cve_2025_55205_tenants_people_put_no_label_on_what_is_nobodys() {
    let stage = town().await;
    let people = six(stage, "c25").await;
    stage.kubectl(&["create", "namespace", "c25-nobodys"]).await.unwrap();
    let labelled = Change { labels: vec![("environment", json!("prod"))], ..Change::default() };
    let through = [Through::Itself, Through::Status, Through::Finalize];
    let namespaces = ["kube-system", "c25-nobodys"];
    assert_refused(stage, &people[..5], &namespaces, &[labelled], &through).await;
}

/// The subresource `status` writes metadata, too.
#[tokio::test]
async fn cve_2026_30963_the_status_of_a_namespace_is_guarded() {
    let stage = town().await;
    let people = six(stage, "c30").await;
    people[0].create(stage, "c30-dev").await.unwrap();
    let rival = stage.reference("c30-rival").await;
    let changes = [Change::label("c30-rival"), Change::references([&rival]), Change::references([])];
    assert_refused(stage, &people, &["c30-dev"], &changes, &[Through::Status]).await;
    // An administrator can write it so: the path is there.
    let root = Person::member("root", "system:masters");
    let namespaces = root.namespaces(stage).await;
    let harmless = Patch::Merge(json!({ "metadata": { "labels": { "through": "status" } } }));
    let patched = namespaces.patch_status("c30-dev", &PatchParams::default(), &harmless).await.unwrap();
    assert_eq!(patched.metadata.labels.unwrap()["through"], "status");
}

/// A rule that names the subresource `finalize` wrongly never matches.
#[tokio::test]
async fn cve_2026_55636_the_finalize_of_a_namespace_is_guarded() {
    let stage = town().await;
    let people = six(stage, "c55").await;
    people[0].create(stage, "c55-dev").await.unwrap();
    let rival = stage.reference("c55-rival").await;
    let changes = [Change::label("c55-rival"), Change::references([&rival]), Change::references([])];
    let count = assert_refused(stage, &people, &["c55-dev"], &changes, &[Through::Finalize]).await;
    assert_eq!(count, people.len() * changes.len(), "one way each: there is no patch");
    // Without a webhook it works: what an owner may change of the rest is stored.
    let change = Change { labels: vec![("through", json!("finalize"))], ..Change::default() };
    let api = people[0].namespaces(stage).await;
    let attempt = Attempt {
        who: &people[0],
        api: &api,
        namespace: "c55-dev",
        change: &change,
        way: Way::Put,
        through: Through::Finalize,
    };
    attempt.make().await.unwrap();
    let labels = stage.read(&["get", "namespace", "c55-dev"]).await["metadata"]["labels"].clone();
    assert_eq!(labels["through"], "finalize");
}

//! The controller and the members need each of their rights.

use std::collections::BTreeSet;

use k8s_openapi::api::{core::v1::Secret, rbac::v1::Role};
use kube::{
    Resource,
    api::{Patch, PatchParams, PostParams},
};
use operator_core::{Controller, labels, rbac::Rule};
use postgres::{PostgresCluster, PostgresClusterController, SWITCHOVER};
use postgres_processes::Member;
use serde_json::json;

use crate::{life::database, support::TestEnv, volumes::Provider};

/// Objects from which the label of managed objects is removed. The controller then reads and repairs
/// them.
const CHILDREN: [(&str, &str); 7] = [
    ("service", "db-rw"),
    ("serviceaccount", "db"),
    ("role", "db"),
    ("rolebinding", "db"),
    ("lease", "db"),
    ("poddisruptionbudget", "db"),
    ("networkpolicy", "db"),
];

impl TestEnv {
    /// Removes the label of managed objects, and waits until the controller has set it again.
    async fn remove_label(&mut self, kind: &str, name: &str) {
        self.kubectl(&["label", kind, name, &format!("{}-", labels::MANAGED_BY)]).await.unwrap();
        let namespace = self.namespace.name().to_owned();
        let cluster = self.harness.cluster;
        let selector = format!("--selector={}", labels::MANAGED_BY);
        let line = ["--namespace", &namespace, "get", kind, &selector, "--output=name"];
        self.eventually(&format!("{kind} {name} to be labelled again"), async || {
            let found = cluster.kubectl(&line).await?;
            let is_found = found.lines().any(|object| object.ends_with(&format!("/{name}")));
            Ok(if is_found { Ok(()) } else { Err(found) })
        })
        .await;
    }
}

/// Rights that the audit log of a request does not show.
///
/// Lists and watches are in the log only when they end. The API server checks finalizers when an owner
/// reference blocks a deletion. The update of a Lease is granted to the members, and nobody can grant
/// what he may not do.
///
/// PostgresBackups need an object store: the tests in `backups` use their rights.
const UNSEEN: [(&str, &str); 5] = [
    ("postgresclusters/finalizers", "update"),
    ("leases", "update"),
    ("postgresbackups", "create"),
    ("postgresbackups", "delete"),
    ("postgresbackups/status", "update"),
];

/// Returns the rights of the controller: a resource with its subresource, and a verb.
fn rights() -> Vec<(String, String)> {
    let rights_of = |rule: Rule| {
        let policy = rule.into_policy();
        let resources = policy.resources.unwrap_or_default();
        resources.into_iter().flat_map(move |resource| {
            let verbs = policy.verbs.clone();
            verbs.into_iter().map(move |verb| (resource.clone(), verb))
        })
    };
    let rights = PostgresClusterController::rules().into_iter().flat_map(rights_of);
    let is_seen = |(resource, verb): &(String, String)| {
        !["list", "watch"].contains(&verb.as_str()) && !UNSEEN.contains(&(resource.as_str(), verb.as_str()))
    };
    rights.filter(is_seen).collect()
}

/// Returns the Secret of the application as a user creates it who brings a password.
fn secret(owner: &PostgresCluster) -> Secret {
    let secret = json!({
        "metadata": {"name": "db-app", "ownerReferences": [owner.controller_owner_ref(&())]},
        "stringData": {"password": "of the user"},
    });
    serde_json::from_value(secret).unwrap()
}

#[tokio::test]
async fn every_right_is_used() {
    let mut env = TestEnv::new().await;
    let mut provider = Provider::new(&env, true).await;
    let spec = json!({
        "size": 2, "retention": {"whenScaled": "Delete"}, "paused": true,
        "storage": {"storageClassName": provider.class},
    });
    env.create("db", spec).await;
    let owner = env.api::<PostgresCluster>().get("db").await.unwrap();
    env.api::<Secret>().create(&PostParams::default(), &secret(&owner)).await.unwrap();
    env.change("db", json!({"paused": false})).await;
    env.until_ready("db", 2).await;
    for (kind, name) in CHILDREN {
        env.remove_label(kind, name).await;
    }
    env.kubectl(&["annotate", "postgrescluster", "db", &format!("{SWITCHOVER}=db-1")]).await.unwrap();
    provider.bind(&mut env, "db-1").await;
    let fewer = json!({"size": 1, "storage": {"size": "2Gi"}, "networkPolicy": {"enabled": false}});
    env.change("db", fewer).await;

    let (harness, clusters) = (env.harness.clone(), env.api::<PostgresCluster>());
    env.eventually("every right to be used", async || {
        // A status write that meets one of these changes fails, and the controller reads the cluster.
        for number in 0..20 {
            let patch = json!({"spec": {"failover": {"maxLagBytes": number}}});
            clusters.patch("db", &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        let requests = harness.requests()?.entries;
        let used = requests.iter().filter(|entry| entry.code < 400).map(|entry| {
            let subresource = if entry.subresource.is_empty() { "" } else { "/" };
            (format!("{}{subresource}{}", entry.resource, entry.subresource), entry.verb.clone())
        });
        let used: BTreeSet<_> = used.collect();
        let unused: Vec<_> = rights().into_iter().filter(|right| !used.contains(right)).collect();
        Ok(if unused.is_empty() { Ok(()) } else { Err(unused) })
    })
    .await;
    provider.delete().await;
}

/// The members keep to what their Role allows, and need all of it. A watch is in the audit log only when it
/// ends, which it does with its Pod.
#[tokio::test]
async fn members_use_each_of_their_rights_and_no_other() {
    let mut database = database().await.unwrap();
    database.primary().unwrap().kill().unwrap();
    database.until_failed_over().await.unwrap();
    let role = database.kubelet.api::<Role>().get("db").await.unwrap();
    let rights = role.rules.unwrap_or_default().into_iter().flat_map(|rule| {
        let resources = rule.resources.unwrap_or_default();
        resources.into_iter().flat_map(move |resource| {
            rule.verbs.clone().into_iter().map(move |verb| (resource.clone(), verb))
        })
    });
    let rights: BTreeSet<(String, String)> = rights.collect();
    let account = format!("system:serviceaccount:{}:db", database.kubelet.namespace.name());
    let harness = database.kubelet.harness.clone();
    let check = async |_: &[Member]| {
        let requests = harness.cluster.audit()?.by_user(&account).entries;
        let denied: Vec<_> = requests.iter().filter(|entry| entry.code == 403).collect();
        assert!(denied.is_empty(), "{denied:#?}");
        let used: BTreeSet<_> =
            requests.into_iter().map(|entry| (entry.resource + &entry.subresource, entry.verb)).collect();
        assert!(used.is_subset(&rights), "{used:?}");
        let unused: Vec<_> = rights.difference(&used).cloned().collect();
        Ok(if unused.is_empty() { Ok(()) } else { Err(unused) })
    };
    database.kubelet.until("every right of the members to be used", check).await.unwrap();
}

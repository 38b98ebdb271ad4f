//! Webhooks are registered, but no manager runs.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Subject, permit};
use crate::support::{PATIENCE, TestEnv, Webhooks};

#[tokio::test]
async fn cluster_works_without_manager_except_for_tenants() {
    let (env, webhooks) = (TestEnv::complete().await, Webhooks::new());
    let manager = env.start_with_webhooks("manager", webhooks, &[]);
    env.configure(webhooks).await;
    permit(&env).await;
    env.until_tenants_reviewed().await;
    let alice = Subject::user("alice");
    let spec = json!({
        "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
        "resourceQuotas": { "items": [{ "hard": { "pods": "5" } }] },
    });
    env.tenant("oil", &[&alice], spec).await;
    for name in ["oil-deleted", "oil-remains"] {
        cluster::wait::eventually("the namespace to be assigned", PATIENCE, async || {
            Ok(alice
                .create(&env, name)
                .await
                .map(drop)
                .or_else(|error| if error.contains("already exists") { Ok(()) } else { Err(error) }))
        })
        .await
        .unwrap();
    }
    env.until_tenant_ready("oil", 2).await;
    manager.kill();

    // The Tenant's owners cannot create namespaces.
    let refused = alice.create(&env, "oil-late").await.unwrap_err();
    assert!(refused.contains("failed calling webhook \"namespaces.tenant.ensemble\""), "{refused}");
    // A deleted namespace terminates with its managed objects.
    env.kubectl(&["delete", "namespace", "oil-deleted", "--timeout=60s"]).await.unwrap();
    // In other namespaces the quota still counts, and Pods are created.
    let create = ["create", "deployment", "web", "--image=web", "--namespace=oil-remains"];
    env.kubectl(&create).await.unwrap();
    // System components can write all namespaces, and administrators those without a Tenant.
    let system = [
        Subject::account("kube-system", "namespace-controller"),
        Subject::member("system:node:node-0", "system:nodes"),
        Subject::user("system:kube-controller-manager"),
    ];
    for subject in system {
        let namespaces = subject.namespaces(&env).await;
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "by": subject.name } } }));
        for name in ["kube-system", "default", "oil-remains"] {
            namespaces.patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
    }
    env.kubectl(&["label", "namespace", "kube-system", "checked=yes"]).await.unwrap();
    env.kubectl(&["create", "namespace", "visitor"]).await.unwrap();
    env.kubectl(&["delete", "namespace", "visitor", "--timeout=60s"]).await.unwrap();
    let node = env.names(&["nodes"]).await.remove(0);
    env.kubectl(&["label", "node", &node, "checked=yes"]).await.unwrap();
    // A policy still rejects the assignment of system namespaces.
    let label = ["label", "namespace", "kube-system", "capsule.clastix.io/tenant=oil"];
    let refused = format!("{:#}", env.kubectl(&label).await.unwrap_err());
    assert!(refused.contains("is part of the cluster and cannot belong to a Tenant"), "{refused}");

    let manager = env.start_with_webhooks("manager-again", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    env.until_tenant_ready("oil", 1).await;
    manager.stop().await;
}

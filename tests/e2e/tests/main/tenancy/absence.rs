//! A cluster without a manager, while the API server still asks for it.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Person, permit};
use crate::support::{PATIENCE, Stage, Webhooks};

#[tokio::test]
async fn what_is_not_the_tenants_goes_on_while_nobody_answers() {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    stage.configure(webhooks).await;
    permit(&stage).await;
    stage.until_asked().await;
    let alice = Person::user("alice");
    let spec = json!({
        "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
        "resourceQuotas": { "items": [{ "hard": { "pods": "5" } }] },
    });
    stage.tenant("oil", &[&alice], spec).await;
    for name in ["oil-ends", "oil-stays"] {
        cluster::wait::eventually("the namespace to be taken in", PATIENCE, async || {
            Ok(alice
                .create(&stage, name)
                .await
                .map(drop)
                .or_else(|error| if error.contains("already exists") { Ok(()) } else { Err(error) }))
        })
        .await
        .unwrap();
    }
    stage.until_joined("oil", 2).await;
    manager.kill();

    // The tenants themselves wait.
    let refused = alice.create(&stage, "oil-late").await.unwrap_err();
    assert!(refused.contains("failed calling webhook \"namespaces.tenant.ensemble\""), "{refused}");
    // A namespace that is deleted ends, with all that was kept in it.
    stage.kubectl(&["delete", "namespace", "oil-ends", "--timeout=60s"]).await.unwrap();
    // So does the quota of one that stays go on counting, and pods are made there.
    let create = ["create", "deployment", "web", "--image=web", "--namespace=oil-stays"];
    stage.kubectl(&create).await.unwrap();
    // The cluster's own programs write any namespace, and administrators those that are no Tenant's.
    let system = [
        Person::account("kube-system", "namespace-controller"),
        Person::member("system:node:node-0", "system:nodes"),
        Person::user("system:kube-controller-manager"),
    ];
    for who in system {
        let namespaces = who.namespaces(&stage).await;
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "by": who.name } } }));
        for name in ["kube-system", "default", "oil-stays"] {
            namespaces.patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
    }
    stage.kubectl(&["label", "namespace", "kube-system", "checked=yes"]).await.unwrap();
    stage.kubectl(&["create", "namespace", "visitor"]).await.unwrap();
    stage.kubectl(&["delete", "namespace", "visitor", "--timeout=60s"]).await.unwrap();
    let node = stage.names(&["nodes"]).await.remove(0);
    stage.kubectl(&["label", "node", &node, "checked=yes"]).await.unwrap();
    // What no Tenant may have is still refused to everybody.
    let label = ["label", "namespace", "kube-system", "capsule.clastix.io/tenant=oil"];
    let refused = format!("{:#}", stage.kubectl(&label).await.unwrap_err());
    assert!(refused.contains("is part of the cluster, and belongs to no Tenant"), "{refused}");

    let manager = stage.start_with_webhooks("manager-again", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.until_joined("oil", 1).await;
    manager.ask_to_end().await;
}

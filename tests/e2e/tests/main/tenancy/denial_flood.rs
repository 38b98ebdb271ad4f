//! Large numbers of denied reviews.

use std::time::Instant;

use cluster::wait::eventually;
use futures::future::join_all;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::{Subject, create_namespace, namespace, shared_env};
use crate::support::{PATIENCE, TestEnv};

/// Returns how often the managers have listed Tenants. A page counts as one list.
fn lists(env: &TestEnv) -> usize {
    let is_list = |entry: &cluster::audit::Entry| entry.verb == "list" && entry.resource == "tenants";
    env.requests(&env.account).filter(is_list).entries.len()
}

#[tokio::test]
async fn concurrent_denials_share_lists() {
    let env = shared_env().await;
    let (outsider, bob) = (Subject::user("outsider-of-flood"), Subject::user("bob-of-flood"));
    let namespaces = outsider.namespaces(env).await;
    let before = lists(env);
    let flood = join_all((0..150).map(async |at| {
        let new = namespace(&format!("flood-{at}"), json!({}));
        create_namespace(&namespaces, &new, &PostParams::default()).await
    }));
    // An owner whose Tenant was just created.
    let owner = async {
        env.tenant("flood-late", &[&bob], json!({})).await;
        bob.create(env, "flood-late-dev").await
    };
    let (refused, owner) = tokio::join!(flood, owner);
    assert_eq!(owner.unwrap(), "flood-late-dev");
    assert_eq!(env.tenant_of("flood-late-dev").await, "flood-late");
    for refused in refused {
        assert!(refused.unwrap_err().contains("you own no Tenant"));
    }
    // Other tests of this cluster cause denials too.
    let lists = lists(env) - before;
    assert!(lists < 50, "{lists} lists for 150 refusals");
}

#[tokio::test]
async fn many_denials_cause_few_events() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-flooded");
    env.tenant("flooded", &[&alice], json!({})).await;
    alice.create(env, "flooded-dev").await.unwrap();
    let began = Instant::now();
    let refused = join_all((0..60).map(async |at| {
        let outsider = Subject::user(&format!("outsider-{at}-of-flooded"));
        let namespaces = outsider.namespaces(env).await;
        namespaces.delete("flooded-dev", &DeleteParams::default()).await.map(drop)
    }));
    for refused in refused.await {
        assert!(refused.unwrap_err().to_string().contains("does not own"));
    }
    let about =
        "--field-selector=involvedObject.kind=Tenant,involvedObject.name=flooded,reason=NamespaceDenied";
    let events = async || env.names(&["events", "--namespace=default", about]).await.len();
    eventually("some Events", PATIENCE, async || Ok(events().await >= 5)).await.unwrap();
    let (count, most) = (events().await, 11 + began.elapsed().as_secs() / 6);
    assert!(count as u64 <= most, "{count} Events");
}

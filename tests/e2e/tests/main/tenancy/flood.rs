//! Refusals in masses, as whoever reaches the port of the webhooks can cause them.

use std::time::Instant;

use cluster::wait::eventually;
use futures::future::join_all;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::{Person, created, namespace, town};
use crate::support::{PATIENCE, Stage};

/// How often the managers have listed all Tenants, or a page of them.
fn lists(stage: &Stage) -> usize {
    let is_list = |entry: &cluster::audit::Entry| entry.verb == "list" && entry.resource == "tenants";
    stage.requests(&stage.account).filter(is_list).entries.len()
}

#[tokio::test]
async fn a_flood_of_refusals_shares_lists_and_refuses_no_owner() {
    let stage = town().await;
    let (stranger, bob) = (Person::user("stranger-of-flood"), Person::user("bob-of-flood"));
    let namespaces = stranger.namespaces(stage).await;
    let before = lists(stage);
    let flood = join_all((0..300).map(async |at| {
        let new = namespace(&format!("flood-{at}"), json!({}));
        created(&namespaces, &new, &PostParams::default()).await
    }));
    // An owner whose Tenant has just been made.
    let owner = async {
        stage.tenant("flood-late", &[&bob], json!({})).await;
        bob.create(stage, "flood-late-dev").await
    };
    let (refused, owner) = tokio::join!(flood, owner);
    assert_eq!(owner.unwrap(), "flood-late-dev");
    assert_eq!(stage.tenant_of("flood-late-dev").await, "flood-late");
    for refused in refused {
        assert!(refused.unwrap_err().contains("you own no Tenant"));
    }
    // Other tests of this cluster are refused something, too.
    let lists = lists(stage) - before;
    assert!(lists < 100, "{lists} lists for 300 refusals");
}

#[tokio::test]
async fn a_flood_of_refusals_becomes_few_events() {
    let stage = town().await;
    let alice = Person::user("alice-of-flooded");
    stage.tenant("flooded", &[&alice], json!({})).await;
    alice.create(stage, "flooded-dev").await.unwrap();
    let began = Instant::now();
    let refused = join_all((0..60).map(async |at| {
        let stranger = Person::user(&format!("stranger-{at}-of-flooded"));
        let namespaces = stranger.namespaces(stage).await;
        namespaces.delete("flooded-dev", &DeleteParams::default()).await.map(drop)
    }));
    for refused in refused.await {
        assert!(refused.unwrap_err().to_string().contains("does not own"));
    }
    let about =
        "--field-selector=involvedObject.kind=Tenant,involvedObject.name=flooded,reason=NamespaceDenied";
    let events = async || stage.names(&["events", "--namespace=default", about]).await.len();
    eventually("some to be told", PATIENCE, async || Ok(events().await >= 5)).await.unwrap();
    let (count, most) = (events().await, 11 + began.elapsed().as_secs() / 6);
    assert!(count as u64 <= most, "{count} Events");
}

//! Views of Tenants.

use cluster::wait::eventually;
use serde_json::Value;

use crate::support::{PATIENCE, header, shared};

#[tokio::test]
async fn owners_see_their_tenants() {
    let proxy = shared().await;
    let owner = proxy.owner(&["mine-a", "mine-b"]).await;
    proxy.tenant("not-mine", &[("User", "nobody")]).await;
    let names = async || owner.kubectl(&["get", "tenants", "--output=name"]).await;
    eventually("the Tenants of the account", PATIENCE, async || {
        Ok(names().await.is_ok_and(|names| names.lines().count() == 2))
    })
    .await
    .unwrap();
    assert_eq!(
        names().await.unwrap(),
        "tenant.capsule.clastix.io/mine-a\ntenant.capsule.clastix.io/mine-b\n"
    );
    let table = owner.kubectl(&["get", "tenants"]).await.unwrap();
    let admin = proxy.cluster.kubectl(&["get", "tenants", "mine-a", "mine-b"]).await.unwrap();
    // Without the age.
    let rows = |table: &str| {
        let words = |line: &str| line.split_whitespace().rev().skip(1).map(str::to_owned).collect::<Vec<_>>();
        table.lines().map(words).collect::<Vec<_>>()
    };
    assert_eq!(rows(&table), rows(&admin));
    assert_eq!(
        owner.kubectl(&["get", "tenant", "mine-a", "--output=name"]).await.unwrap(),
        "tenant.capsule.clastix.io/mine-a\n"
    );
    let refused = |error: anyhow::Error| format!("{error:#}");
    let other = refused(owner.kubectl(&["get", "tenant", "not-mine"]).await.unwrap_err());
    let missing = refused(owner.kubectl(&["get", "tenant", "missing"]).await.unwrap_err());
    assert!(other.contains("Forbidden"), "{other}");
    assert_eq!(other.replace("not-mine", "NAME"), missing.replace("missing", "NAME"));
}

#[tokio::test]
async fn list_of_tenants_has_no_pages_and_real_versions() {
    const PATH: &str = "/apis/capsule.clastix.io/v1beta2/tenants";
    let proxy = shared().await;
    let owner = proxy.owner(&["whole-a", "whole-b"]).await;
    eventually("the Tenants of the account", PATIENCE, async || {
        let list: Value = serde_json::from_slice(owner.get(PATH, &[]).await.body())?;
        Ok(list["items"].as_array().is_some_and(|items| items.len() == 2))
    })
    .await
    .unwrap();
    let response = owner
        .get(
            &format!("{PATH}?limit=1"),
            &[("Accept", "application/vnd.kubernetes.protobuf, application/json")],
        )
        .await;
    assert_eq!(header(response.headers(), "content-type"), "application/json");
    let list: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "a limit has no effect");
    assert!(list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    assert!(list["metadata"].get("continue").is_none());
    assert_eq!(owner.get(&format!("{PATH}?continue=abc"), &[]).await.status(), 410);
}

//! New managers in the place of old ones, one at a time, and back: nothing is written that is not needed.

use std::collections::BTreeMap;

use cluster::{audit::Mark, wait::eventually};
use serde_json::{Value, json};

use crate::support::{
    Account, CONFIGURATION, MEMCACHED, Manager, NAMESPACE_PLUS, PATIENCE, POD_SET, QUICK, Stage, TENANT,
    TENANT_OWNER,
};

const CONTROLLERS: [&str; 5] = ["capsuleconfiguration", "memcached", "namespaceplus", "podset", "tenant"];
/// What an upgrade must leave as it is: what people wrote, and what was made for it.
const KINDS: &str = "podsets,memcacheds,namespacepluses,tenants,tenantowners,capsuleconfigurations,deployments,services,\
    resourcequotas,limitranges,networkpolicies,rolebindings,poddisruptionbudgets,clusterroles,clusterrolebindings,\
    validatingwebhookconfigurations,mutatingwebhookconfigurations,customresourcedefinitions,secrets";

#[tokio::test]
async fn a_roll_of_all_replicas_and_back_writes_nothing_but_leases() {
    let stage = Stage::complete().await;
    let names = ["old-0", "old-1", "new-0", "new-1"];
    let mut accounts = Vec::new();
    for name in names {
        accounts.push(stage.replica(name, &CONTROLLERS).await);
    }
    let mut running = vec![start(&stage, &accounts[0], names[0]), start(&stage, &accounts[1], names[1])];
    for manager in &running {
        manager.until_readyz(200, "ok").await;
    }
    populate(&stage).await;
    let (before, mark) = at_rest(&stage, &accounts).await;

    // Old for new, and new for old.
    for to in [[2, 3], [0, 1]] {
        for number in to {
            let next = start(&stage, &accounts[number], names[number]);
            next.until_readyz(200, "ok").await;
            running.remove(0).ask_to_end().await;
            running.push(next);
        }
        all_are_led_by(&stage, &to.map(|number| names[number])).await;
    }
    assert_eq!(objects(&stage).await, before);
    assert_eq!(written(&stage, &accounts, mark), [] as [String; 0]);

    // They are not idle for want of life.
    stage.change(&POD_SET, "default", "web", json!({ "replicas": 3 })).await;
    stage.until_settled(&POD_SET, "default", "web").await;
}

fn start(stage: &Stage, account: &Account, name: &str) -> Manager {
    let instance = format!("--instance={name}");
    let args = [&["--leader-elect=true", instance.as_str()], QUICK.as_slice()].concat();
    stage.start_with_probes(name, account, &args)
}

/// An object of every kind.
async fn populate(stage: &Stage) {
    stage.create(&POD_SET, "default", "web", json!({ "replicas": 2 })).await;
    let cache = json!({ "size": 2, "networkPolicy": { "from": [{ "podSelector": {} }] } });
    stage.create(&MEMCACHED, "default", "cache", cache).await;
    let plus = json!({ "quota": { "pods": 1 }, "deletionPolicy": "Delete" });
    stage.create(&NAMESPACE_PLUS, "default", "upgrade-plus", plus).await;
    let quotas = json!({ "items": [{ "hard": { "pods": "10" } }] });
    let tenant = json!({ "owners": [{ "kind": "User", "name": "alice" }], "resourceQuotas": quotas });
    stage.create(&TENANT, "", "oil", tenant).await;
    stage.create(&TENANT_OWNER, "", "anna", json!({ "kind": "User", "name": "anna" })).await;
    stage.join("oil", "oil-upgrade").await;
    stage.until_settled(&POD_SET, "default", "web").await;
    stage.until_settled(&MEMCACHED, "default", "cache").await;
    stage.until_settled(&NAMESPACE_PLUS, "default", "upgrade-plus").await;
    stage.until_joined("oil", 1).await;
    stage.until_settled(&CONFIGURATION, "", "default").await;
}

/// Waits until two looks, and all between them, show no write. Returns what there is, and when it was.
async fn at_rest(stage: &Stage, accounts: &[Account]) -> (BTreeMap<String, Value>, Mark) {
    let mut seen = (objects(stage).await, stage.cluster.audit_mark().unwrap());
    eventually("everything to be written", PATIENCE, async || {
        let now = (objects(stage).await, stage.cluster.audit_mark()?);
        let wrote = written(stage, accounts, seen.1);
        let before = std::mem::replace(&mut seen, now);
        Ok(if wrote.is_empty() && before.0 == seen.0 { Ok(()) } else { Err(wrote) })
    })
    .await
    .unwrap();
    seen
}

/// The versions of all objects.
async fn objects(stage: &Stage) -> BTreeMap<String, Value> {
    let all = stage.read(&["get", KINDS, "--all-namespaces"]).await;
    let object = |object: &Value| {
        let metadata = &object["metadata"];
        let key = format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"]);
        (key, json!([metadata["uid"], metadata["resourceVersion"]]))
    };
    all["items"].as_array().unwrap().iter().map(object).collect()
}

/// What the managers have written since, apart from Leases.
fn written(stage: &Stage, accounts: &[Account], since: Mark) -> Vec<String> {
    let users: Vec<_> = accounts.iter().map(Account::user).collect();
    let writes = stage.cluster.audit_since(since).unwrap().writes();
    let by_us = writes.filter(|entry| users.contains(&entry.user) && entry.resource != "leases");
    by_us.entries.iter().map(|entry| format!("{} {}", entry.verb, entry.request_uri)).collect()
}

/// Waits until these replicas, and no others, lead all controllers.
async fn all_are_led_by(stage: &Stage, names: &[&str]) {
    eventually(&format!("all controllers to be led by {names:?}"), PATIENCE, async || {
        let holders = stage.holders().await;
        let is_so = holders.len() == CONTROLLERS.len()
            && holders.values().all(|holder| names.contains(&holder.as_str()));
        Ok(if is_so { Ok(()) } else { Err(holders) })
    })
    .await
    .unwrap();
}

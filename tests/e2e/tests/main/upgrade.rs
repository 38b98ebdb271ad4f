//! Rolling upgrade and rollback of managers: neither writes objects without need.

use std::collections::BTreeMap;

use cluster::{audit::Mark, wait::eventually};
use serde_json::{Value, json};

use crate::support::{
    Account, CONFIGURATION, CONTROLLERS, MEMCACHED, Manager, NAMESPACE_PLUS, PATIENCE, POD_SET,
    POSTGRES_CLUSTER, QUICK, TENANT, TENANT_OWNER, TestEnv,
};

/// Kinds that an upgrade must not change: users' objects and their children.
const KINDS: &str = "podsets,memcacheds,namespacepluses,postgresclusters,postgresbackups,tenants,tenantowners,capsuleconfigurations,proxysettings,globalproxysettings,deployments,services,\
    resourcequotas,limitranges,networkpolicies,rolebindings,poddisruptionbudgets,clusterroles,clusterrolebindings,\
    validatingwebhookconfigurations,mutatingwebhookconfigurations,customresourcedefinitions,secrets,\
    serviceaccounts,roles,persistentvolumeclaims";

#[tokio::test]
async fn upgrade_and_rollback_write_only_leases() {
    let env = TestEnv::complete().await;
    let names = ["old-0", "old-1", "new-0", "new-1"];
    let mut accounts = Vec::new();
    for name in names {
        accounts.push(env.replica(name, &CONTROLLERS).await);
    }
    let mut running = vec![start(&env, &accounts[0], names[0]), start(&env, &accounts[1], names[1])];
    for manager in &running {
        manager.until_readyz(200, "ok").await;
    }
    populate(&env).await;
    let (before, mark) = until_idle(&env, &accounts).await;

    // Replace old by new managers, and then new by old ones.
    for to in [[2, 3], [0, 1]] {
        for number in to {
            let next = start(&env, &accounts[number], names[number]);
            next.until_readyz(200, "ok").await;
            running.remove(0).stop().await;
            running.push(next);
        }
        until_led_by(&env, &to.map(|number| names[number])).await;
    }
    assert_eq!(objects(&env).await, before);
    assert_eq!(writes(&env, &accounts, mark), [] as [String; 0]);

    // The managers still work.
    env.change(&POD_SET, "default", "web", json!({ "replicas": 3 })).await;
    env.until_ready(&POD_SET, "default", "web").await;
}

fn start(env: &TestEnv, account: &Account, name: &str) -> Manager {
    let instance = format!("--instance={name}");
    let args = [&["--leader-elect=true", instance.as_str()], QUICK.as_slice()].concat();
    env.start_with_probes(name, account, &args)
}

/// Creates an object of every kind.
async fn populate(env: &TestEnv) {
    env.create(&POD_SET, "default", "web", json!({ "replicas": 2 })).await;
    let cache = json!({ "size": 2, "networkPolicy": { "from": [{ "podSelector": {} }] } });
    env.create(&MEMCACHED, "default", "cache", cache).await;
    let plus = json!({ "quota": { "pods": 1 }, "deletionPolicy": "Delete" });
    env.create(&NAMESPACE_PLUS, "default", "upgrade-plus", plus).await;
    let quotas = json!({ "items": [{ "hard": { "pods": "10" } }] });
    let tenant = json!({ "owners": [{ "kind": "User", "name": "alice" }], "resourceQuotas": quotas });
    env.create(&TENANT, "", "oil", tenant).await;
    env.create(&POSTGRES_CLUSTER, "default", "db", json!({ "size": 2 })).await;
    env.create(&TENANT_OWNER, "", "anna", json!({ "kind": "User", "name": "anna" })).await;
    env.join("oil", "oil-upgrade").await;
    env.until_ready(&POD_SET, "default", "web").await;
    env.until_ready(&MEMCACHED, "default", "cache").await;
    env.until_ready(&NAMESPACE_PLUS, "default", "upgrade-plus").await;
    env.until_count(&["pods", "--selector=lukeb0nd.com/cluster=db"], 1).await;
    env.until_tenant_ready("oil", 1).await;
    env.until_ready(&CONFIGURATION, "", "default").await;
}

/// Waits until nothing is written between two reads. Returns the resource versions and the position
/// in the audit log.
async fn until_idle(env: &TestEnv, accounts: &[Account]) -> (BTreeMap<String, Value>, Mark) {
    let mut seen = (objects(env).await, env.cluster.audit_mark().unwrap());
    eventually("everything to be written", PATIENCE, async || {
        let now = (objects(env).await, env.cluster.audit_mark()?);
        let wrote = writes(env, accounts, seen.1);
        let before = std::mem::replace(&mut seen, now);
        Ok(if wrote.is_empty() && before.0 == seen.0 { Ok(()) } else { Err(wrote) })
    })
    .await
    .unwrap();
    seen
}

/// Returns the resource versions of all objects.
async fn objects(env: &TestEnv) -> BTreeMap<String, Value> {
    let all = env.read(&["get", KINDS, "--all-namespaces"]).await;
    let object = |object: &Value| {
        let metadata = &object["metadata"];
        let key = format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"]);
        (key, json!([metadata["uid"], metadata["resourceVersion"]]))
    };
    all["items"].as_array().unwrap().iter().map(object).collect()
}

/// Returns the managers' writes since `since`, except of Leases.
fn writes(env: &TestEnv, accounts: &[Account], since: Mark) -> Vec<String> {
    let users: Vec<_> = accounts.iter().map(Account::user).collect();
    let writes = env.cluster.audit_since(since).unwrap().writes();
    let by_us = writes.filter(|entry| users.contains(&entry.user) && entry.resource != "leases");
    by_us.entries.iter().map(|entry| format!("{} {}", entry.verb, entry.request_uri)).collect()
}

/// Waits until exactly these replicas lead all controllers.
async fn until_led_by(env: &TestEnv, names: &[&str]) {
    eventually(&format!("all controllers to be led by {names:?}"), PATIENCE, async || {
        let holders = env.holders().await;
        let is_so = holders.len() == CONTROLLERS.len()
            && holders.values().all(|holder| names.contains(&holder.as_str()));
        Ok(if is_so { Ok(()) } else { Err(holders) })
    })
    .await
    .unwrap();
}

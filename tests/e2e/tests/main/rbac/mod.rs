//! Checks the rights in `deploy/rbac` against the audit log: all rights are used, and none is
//! missing.

mod controllers;
mod manager;
mod unaudited;
mod usage;
mod watch_namespaces;

use cluster::{Cluster, Options, wait::eventually};
use unaudited::is_unaudited;
use usage::{Right, Usage};

use crate::support::{DEVICES, PATIENCE, TestEnv, Webhooks, reserve_port};

#[tokio::test]
async fn every_right_is_used_and_none_is_missing() {
    // Without streaming lists, the manager also reads lists in pages.
    let api_server_args = vec!["--feature-gates=WatchList=false".to_owned()];
    let cluster = Cluster::start(Options { api_server_args, ..Options::default() }).await.unwrap();
    let env = TestEnv::bare_on(cluster).await;
    env.install_crds().await;
    env.install_gateway_api().await;
    env.grant_rights().await;
    let (webhooks, metrics) = (Webhooks::new(), reserve_port());
    let flags = ["--leader-elect=true", &format!("--metrics-bind-address=127.0.0.1:{metrics}")];
    let manager = env.start_with_webhooks("manager", webhooks, &flags);
    manager.until_readyz(200, "ok").await;
    env.configure(webhooks).await;

    tokio::join!(
        manager::election(&env),
        manager::certificates(&env),
        manager::metrics(&env, metrics),
        controllers::podset(&env),
        controllers::memcached(&env),
        controllers::namespaceplus(&env),
        controllers::tenant(&env),
        controllers::replication(&env),
        controllers::configuration(&env)
    );
    // Also covers the shutdown, which needs rights. A watch is logged when it ends.
    env.create_manager_pod().await;
    env.delete_manager_namespace(manager).await;
    let serves_device_classes = env.serves_device_classes().await;
    let is_served = |right: &&Right| serves_device_classes || right.group != DEVICES;
    eventually("the watches to be in the audit log", PATIENCE, async || {
        let table = Usage::of(&env, &env.account).await;
        let unused = table.unused().filter(|right| right.verb == "watch").filter(is_served).count();
        Ok(if unused == 0 { Ok(()) } else { Err(unused) })
    })
    .await
    .unwrap();
    let table = Usage::of(&env, &env.account).await;
    // The rights of the PostgresCluster controller need members with databases. `tests/postgres` uses them.
    let can_be_used = |right: &&Right| !is_unaudited(right) && right.role != "ensemble-postgres";
    let unused: Vec<_> = table.unused().filter(is_served).filter(can_be_used).collect();
    assert!(unused.is_empty(), "granted but not used: {unused:#?}\nuses of each right:\n{table}");
    env.assert_no_forbidden_requests();
}

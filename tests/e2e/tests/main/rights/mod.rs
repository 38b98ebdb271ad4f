//! The rights of `deploy/rbac`: each is needed, and there are enough of them. The API server's audit log says so.

mod exercise;
mod namespaced;
mod runtime;
mod table;
mod traceless;

use cluster::{Cluster, Options, wait::eventually};
use table::Table;
use traceless::is_traceless;

use crate::support::{PATIENCE, Stage, Webhooks, free_port};

#[tokio::test]
async fn every_right_is_used_and_none_is_missing() {
    // A server that does not stream lists, so that they are read in pages, too.
    let api_server_args = vec!["--feature-gates=WatchList=false".to_owned()];
    let cluster = Cluster::start(Options { api_server_args, ..Options::default() }).await.unwrap();
    let stage = Stage::bare_on(cluster).await;
    stage.define().await;
    stage.permit().await;
    let (webhooks, metrics) = (Webhooks::new(), free_port());
    let flags = ["--leader-elect=true", &format!("--metrics-bind-address=127.0.0.1:{metrics}")];
    let manager = stage.start_with_webhooks("manager", webhooks, &flags);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;

    tokio::join!(
        runtime::election(&stage),
        runtime::certificates(&stage),
        runtime::metrics(&stage, metrics),
        exercise::podset(&stage),
        exercise::memcached(&stage),
        exercise::namespaceplus(&stage),
        exercise::tenant(&stage),
        exercise::configuration(&stage)
    );
    // It ends for good: there are rights for that, too. The log has a watch when it ends.
    stage.stand_in().await;
    stage.end_with_namespace(manager).await;
    eventually("the watches to be in the audit log", PATIENCE, async || {
        let table = Table::of(&stage, &stage.account).await;
        let unused = table.unused().filter(|right| right.verb == "watch").count();
        Ok(if unused == 0 { Ok(()) } else { Err(unused) })
    })
    .await
    .unwrap();
    let table = Table::of(&stage, &stage.account).await;
    let unused: Vec<_> = table.unused().filter(|right| !is_traceless(right)).collect();
    assert!(unused.is_empty(), "granted and never used: {unused:#?}\nuses of each right:\n{table}");
    stage.assert_nothing_was_forbidden();
}

//! The manager with more PostgresClusters than this machine can run: their members are simulated.

use std::time::{Duration, Instant};

use anyhow::Result;
use cluster::{usage::peak, wait::eventually};
use faults::{members::Members, workload::HOME};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use operator_core::conditions::is_true;
use postgres::PostgresCluster;
use serde_json::json;

use super::{environment::TestEnv, many};
use crate::{
    figures,
    requests::{count_requests, manager_requests},
};

/// How long all clusters together may take to be ready, or to be gone.
const PATIENCE: Duration = Duration::from_mins(20);
/// Number of members of each.
const SIZE: i32 = 3;

/// Prints what this number of clusters costs the manager.
pub(crate) async fn measure(env: &TestEnv, clusters: usize, seconds: u64) -> Result<()> {
    if clusters == 0 || seconds == 0 {
        return Ok(());
    }
    let client = env.cluster.client().await?;
    env.cluster.kubectl(&["create", "namespace", HOME]).await?;
    let members = Members::start(env.cluster, &client).await?;
    let api = Api::<PostgresCluster>::namespaced(client, HOME);
    let began = Instant::now();
    for number in 1..=clusters {
        let cluster = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": format!("db-{number}")}, "spec": {"size": SIZE},
        });
        api.create(&PostParams::default(), &serde_json::from_value(cluster)?).await?;
    }
    until(&api, "the PostgresClusters to be ready", clusters).await?;
    figures::print(&format!("{clusters} simulated clusters ready"), began.elapsed().as_secs_f64(), "s");
    let mark = env.cluster.audit_mark()?;
    many::print(env, &format!("manager with {clusters} simulated clusters of three"), seconds).await?;
    figures::print("  memory, peak", peak(env.manager())?, "MiB");
    let requests = manager_requests(env.cluster, mark)?.in_namespace(HOME);
    println!("  requests of the manager about them: {:?}", count_requests(&requests));
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    eventually("the PostgresClusters to be gone", PATIENCE, async || {
        let left = api.list(&ListParams::default()).await?.items.len();
        Ok(if left == 0 { Ok(()) } else { Err(left) })
    })
    .await?;
    drop(members);
    Ok(())
}

/// Waits until this number of clusters is ready, with all members.
async fn until(api: &Api<PostgresCluster>, what: &str, clusters: usize) -> Result<()> {
    eventually(what, PATIENCE, async || {
        let all = api.list(&ListParams::default()).await?.items;
        let statuses = all.into_iter().filter_map(|cluster| cluster.status);
        let ready =
            statuses.filter(|it| it.ready_members == SIZE && is_true(&it.conditions, "Ready")).count();
        Ok(if ready == clusters { Ok(()) } else { Err(ready) })
    })
    .await
}

//! The database of the demo on real nodes: a primary that is deleted, and rows that stay.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, program::workspace, wait::eventually};
use local_manager::samples;

/// A Pod with psql, and with the Secret of the sample.
const APPLICATION: &str = "
apiVersion: v1
kind: Pod
metadata: {name: application, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: psql
      image: postgres:17
      command: [sleep, infinity]
      env:
        - name: DATABASE_URL
          valueFrom: {secretKeyRef: {name: shop-app, key: uri}}
";
const PRIMARY: [&str; 4] = ["get", "pgc", "shop", "--output=jsonpath={.status.primary.current}"];

/// Creates the sample, deletes its primary, and returns what happened to its rows.
pub(super) async fn show(cluster: &Cluster, timeout: Duration) -> Result<String> {
    let applied = Instant::now();
    let sample = samples::apply(cluster, &workspace().join("samples/postgres")).await?;
    samples::wait(cluster, sample, timeout).await.context("the sample of PostgreSQL is not ready")?;
    let ready = applied.elapsed();
    cluster.apply_yaml(APPLICATION).await?;
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/application", "--timeout=60s"]).await?;
    sql(cluster, "create table orders (item text)").await?;
    sql(cluster, "insert into orders values ('before')").await?;

    let primary = cluster.kubectl(&PRIMARY).await?;
    let deleted = Instant::now();
    cluster.kubectl(&["delete", "pod", &primary, "--wait=false"]).await?;
    eventually("writes to work again", timeout, async || {
        Ok(sql(cluster, "insert into orders values ('after')").await.map_err(|error| format!("{error:#}")))
    })
    .await?;
    let pause = deleted.elapsed();
    let rows = sql(cluster, "select string_agg(item, ', ') from orders").await?;
    ensure!(rows == "before, after", "the database lost a row: it has {rows:?}");
    let successor = cluster.kubectl(&PRIMARY).await?;
    Ok(format!(
        "database shop was ready after {:.1} s; {primary} was deleted, and {successor} took writes after {:.1} s; rows: \
         {rows}",
        ready.as_secs_f64(),
        pause.as_secs_f64()
    ))
}

/// Runs a statement through the Service of the primary.
async fn sql(cluster: &Cluster, statement: &str) -> Result<String> {
    let psql = format!(
        "PGCONNECT_TIMEOUT=2 psql \"$DATABASE_URL\" --no-psqlrc --tuples-only --no-align --quiet -c \"{statement}\""
    );
    Ok(cluster.kubectl(&["exec", "application", "--", "sh", "-c", &psql]).await?.trim().to_owned())
}

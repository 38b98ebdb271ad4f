//! Parameters of PostgreSQL.

use anyhow::Result;
use operator_core::conditions::find;
use postgres::PostgresClusterStatus;
use postgres_processes::Database;
use serde_json::json;

use crate::{
    ledger::{Ledger, connect},
    life::database,
    switchover::{check, pods, with_writes},
};

/// Returns the value of a parameter on each member.
async fn shown(database: &Database, parameter: &str) -> Result<Vec<String>> {
    let mut values = Vec::new();
    for member in &database.kubelet.members {
        let client = connect(member).await?;
        values.push(client.query_one(&format!("SHOW {parameter}"), &[]).await?.get(0));
    }
    Ok(values)
}

/// Waits until the condition `ConfigurationApplied` has this reason. Returns its message.
async fn until_applied(database: &mut Database, reason: &str) -> Result<String> {
    let condition =
        |status: &PostgresClusterStatus| find(&status.conditions, "ConfigurationApplied").cloned();
    let is_so = |status: &PostgresClusterStatus| condition(status).is_some_and(|it| it.reason == reason);
    // The members read a change at the same time as the controller does.
    database
        .until("the parameters to be read", |status| {
            condition(status).is_some_and(|it| it.reason == "Reconciling") || is_so(status)
        })
        .await?;
    database.until(reason, is_so).await?;
    Ok(condition(&database.status).map(|it| it.message).unwrap_or_default())
}

#[tokio::test]
async fn parameters_are_applied_or_refused_without_a_restart() {
    let mut database = database().await.unwrap();
    Ledger::create(&database.kubelet.members[0]).unwrap();
    let before = pods(&database.kubelet.api()).await.unwrap();
    database.change(json!({"parameters": {"work_mem": "7MB", "app.name": "it's"}})).await.unwrap();
    until_shown(&mut database, "work_mem", "7MB").await;
    until_applied(&mut database, "AsSpecified").await.unwrap();
    assert_eq!(shown(&database, "app.name").await.unwrap(), ["it's"; 3]);

    database.change(json!({"parameters": {"work_mem": "lots", "random_page_cost": "1.1"}})).await.unwrap();
    let message = until_applied(&mut database, "ParametersRefused").await.unwrap();
    assert!(
        message.starts_with("PostgreSQL of db-") && message.contains(r#"for parameter "work_mem": "lots""#),
        "{message}"
    );
    assert_eq!(shown(&database, "work_mem").await.unwrap(), ["7MB"; 3]);
    assert_eq!(shown(&database, "random_page_cost").await.unwrap(), ["4"; 3], "all or none");

    // The primary starts again with the parameters that it accepted.
    database.kubelet.members[0].kill().unwrap();
    database.until_failed_over().await.unwrap();
    database.kubelet.members[0].start().unwrap();
    database.change(json!({"parameters": {"work_mem": null}})).await.unwrap();
    until_shown(&mut database, "work_mem", "4MB").await;
    database.until_complete().await.unwrap();
    assert_eq!(pods(&database.kubelet.api()).await.unwrap(), before, "no Pod was replaced");
}

/// Waits until all members show a value of a parameter.
async fn until_shown(database: &mut Database, parameter: &str, value: &str) {
    let addresses: Vec<_> = database.kubelet.members.iter().map(|member| member.address).collect();
    database
        .kubelet
        .until(&format!("{parameter} = {value}"), async |members| {
            let mut values = Vec::new();
            for member in members {
                let client = connect(member).await.ok();
                let query = format!("SHOW {parameter}");
                let row = match client {
                    Some(client) => client.query_one(&query, &[]).await.ok(),
                    None => None,
                };
                values.push(row.map(|row| row.get::<_, String>(0)));
            }
            let is_so =
                values.len() == addresses.len() && values.iter().all(|it| it.as_deref() == Some(value));
            Ok(if is_so { Ok(()) } else { Err(values) })
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn parameter_that_needs_a_restart_restarts_all_members_and_loses_no_row() {
    let (mut database, application) = with_writes().await.unwrap();
    let before = pods(&database.kubelet.api()).await.unwrap();
    database.change(json!({"parameters": {"max_connections": "150"}})).await.unwrap();
    until_shown(&mut database, "max_connections", "150").await;
    until_applied(&mut database, "AsSpecified").await.unwrap();
    database.until_complete().await.unwrap();
    let after = pods(&database.kubelet.api()).await.unwrap();
    let kept = after.iter().filter(|(name, uid)| before.get(*name) == Some(*uid));
    let kept: Vec<_> = kept.map(|(name, _)| name.as_str()).collect();
    assert_eq!(kept, ["db-1"], "the switchover restarted PostgreSQL of the former primary");
    assert_eq!(database.status.primary.epoch, 2, "one switchover");
    check(&mut database, application, "a parameter with a restart").await.unwrap();
}

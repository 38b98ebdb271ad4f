//! Metrics that the members serve.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use postgres_model::metrics::METRICS;
use postgres_processes::{Database, Member, ObjectStore};

use crate::archive;

/// The values of the series of a member, by name and labels.
type Series = BTreeMap<String, f64>;

async fn scrape(member: &Member) -> anyhow::Result<Series> {
    let (head, body) = member.metrics("GET", "/metrics").await?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
    anyhow::ensure!(body.ends_with("# EOF\n"), "{body}");
    let mut series = Series::new();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert_eq!(series.insert(name.to_owned(), value.parse().unwrap()), None, "{line} occurs twice");
    }
    Ok(series)
}

fn names(series: &Series) -> BTreeSet<&str> {
    series.keys().map(|series| series.split('{').next().unwrap()).collect()
}

/// Returns the value of a series whose name has no prefix here.
fn value(series: &Series, name: &str) -> Option<f64> {
    series.get(&format!("ensemble_postgres_{name}")).copied()
}

#[tokio::test]
async fn members_serve_documented_metrics_and_bound_their_queries() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = archive::database(&store, 2, store.backup()).await.unwrap();
    database.primary().unwrap().sql("CREATE TABLE a (b int); INSERT INTO a VALUES (1)").unwrap();
    database.primary().unwrap().sql("SELECT pg_create_physical_replication_slot('spare', true)").unwrap();
    // The first scrape starts the query for the sizes of databases.
    let check = async |members: &[Member]| {
        let mut all = Vec::new();
        for member in members {
            all.push(scrape(member).await?);
        }
        let has_sizes = all.iter().all(|series| value(series, "database_bytes{database=\"app\"}").is_some());
        Ok(if has_sizes { Ok(all) } else { Err(all) })
    };
    let all = database.kubelet.until("sizes of the databases", check).await.unwrap();
    let [primary, standby] = &all[..] else { panic!("{all:?}") };

    for series in &all {
        assert_eq!(value(series, "up"), Some(1.0));
        assert_eq!((value(series, "epoch"), value(series, "timeline")), (Some(1.0), Some(1.0)));
        assert!(value(series, "xid_age").unwrap() > 0.0);
        assert!(value(series, "volume_bytes{volume=\"data\",kind=\"free\"}").unwrap() > 0.0);
        let expiry = value(series, "certificate_expiry_timestamp_seconds{certificate=\"server\"}").unwrap();
        assert!(expiry > 1.7e9, "{expiry}");
    }
    assert_eq!(value(primary, "role{role=\"Primary\"}"), Some(1.0));
    assert_eq!(value(standby, "role{role=\"Standby\"}"), Some(1.0));
    assert!(value(primary, "standby_lag_bytes{standby=\"db-2\"}").is_some(), "{primary:?}");
    assert!(value(primary, "slot_wal_bytes{slot=\"spare\"}").unwrap() >= 0.0);
    assert!((0.0..=15.0).contains(&value(primary, "lease_remaining_seconds").unwrap()));
    assert_eq!(value(standby, "lease_remaining_seconds"), Some(0.0));
    assert!(value(primary, "transactions_total{result=\"commit\"}").unwrap() > 0.0);
    assert!(value(standby, "replay_lag_seconds").is_some() && value(primary, "replay_lag_seconds").is_none());

    let served: BTreeSet<_> = all.iter().flat_map(names).collect();
    let documented: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(served, documented);
    assert!(!names(standby).iter().any(|name| name.contains("_archive_")), "{standby:?}");

    let member = database.primary().unwrap();
    for (method, path, status) in [("GET", "/", 404), ("GET", "/metrics/", 404), ("POST", "/metrics", 405)] {
        let (head, _) = member.metrics(method, path).await.unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {head}");
    }
    // A client whose connection is closed for others comes again.
    let scrapes = join_all((0..32).map(|_| scrape(member))).await;
    assert!(scrapes.iter().any(Result::is_ok), "{scrapes:?}");
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ensemble-instance'";
    member.sql(&format!("DO $$ BEGIN ASSERT ({sessions}) <= 3; END $$")).unwrap();
}

#[tokio::test]
async fn fence_is_counted_once() {
    let mut database = Database::new(2).await.unwrap();
    database.until_complete().await.unwrap();
    let member = database.primary().unwrap();
    assert_eq!(value(&scrape(member).await.unwrap(), "fences_total"), Some(0.0));
    let name = member.name.clone();
    member.api.cut();
    database.until_epoch(2).await.unwrap();
    let former = database.kubelet.member(&name).unwrap();
    let series = scrape(former).await.unwrap();
    assert_eq!((value(&series, "up"), value(&series, "fences_total")), (Some(0.0), Some(1.0)));
    assert_eq!(value(&series, "connections{state=\"active\"}"), None);
}

//! Metrics that the members serve.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use postgres_model::metrics::{METRICS, QUERY_SUCCESS};
use postgres_processes::{Database, Kubelet, Member, ObjectStore};
use serde_json::json;

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
    let own = METRICS.iter().filter(|metric| **metric != &QUERY_SUCCESS);
    let documented: BTreeSet<_> = own.map(|metric| metric.name).collect();
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

/// Name of the ConfigMap.
const QUERIES: &str = "queries";

/// Queries that succeed, and queries that must not. The slow one comes last.
const CUSTOM: &str = r#"
roles:
  query: SELECT current_database() AS database, count(*) AS count, true AS are_there FROM pg_roles;
  metrics:
    - database: {usage: LABEL}
    - count: {usage: GAUGE, description: Number of roles}
    - are_there: {usage: GAUGE}
everywhere:
  query: SELECT current_database() AS database, 7 AS seen_total
  target_databases: ["*"]
  metrics: [{database: {usage: LABEL}}, {seen_total: {usage: COUNTER}}]
primary:
  query: SELECT pg_is_in_recovery() AS recovers
  primary: true
  metrics: [{recovers: {usage: GAUGE}}]
skipped:
  query: SELECT 1 AS n
  predicate_query: SELECT false
  metrics: [{n: {usage: GAUGE}}]
another_version:
  query: SELECT 1 AS n
  runonserver: "<14.0.0"
  metrics: [{n: {usage: GAUGE}}]
orders:
  query: SELECT state, count(*) AS count FROM orders GROUP BY state
  cache_seconds: 3600
  target_databases: [postgres]
  metrics: [{state: {usage: LABEL}}, {count: {usage: GAUGE}}]
has_a_large_predicate:
  query: SELECT 1 AS n
  predicate_query: SELECT true, repeat('x', 1000) FROM generate_series(1, 1000000)
  metrics: [{n: {usage: GAUGE}}]
commits_in_its_predicate:
  query: SELECT 1 AS n
  predicate_query: COMMIT
  metrics: [{n: {usage: GAUGE}}]
has_large_texts:
  query: SELECT number AS a, repeat('x', 10000000) AS b, 1 AS n FROM generate_series(1, 3) AS number
  metrics: [{a: {usage: LABEL}}, {b: {usage: LABEL}}, {n: {usage: GAUGE}}]
reads_files:
  query: SELECT length(pg_read_file('/etc/passwd')) AS n
  metrics: [{n: {usage: GAUGE}}]
changes_its_role:
  query: SELECT length(set_config('role', 'postgres', false)) AS n
  metrics: [{n: {usage: GAUGE}}]
writes:
  query: SELECT lo_create(0) AS n
  metrics: [{n: {usage: GAUGE}}]
leaves_its_transaction:
  query: SELECT 1 AS n) AS part; COMMIT; CREATE TABLE public.t (); --
  metrics: [{n: {usage: GAUGE}}]
has_many_rows:
  query: SELECT number, 1 AS n FROM generate_series(1, 100000) AS number
  metrics: [{number: {usage: LABEL}}, {n: {usage: GAUGE}}]
has_rows_twice:
  query: SELECT 1 AS n FROM generate_series(1, 2)
  metrics: [{n: {usage: GAUGE}}]
is_malformed: {query: SELECT 1 AS n}
takes_long:
  query: SELECT 1 AS n FROM pg_sleep(600)
  metrics: [{n: {usage: GAUGE}}]
"#;

/// Names of the queries that must fail. Before version 16, PostgreSQL does not refuse to create a large object,
/// but the transaction is not committed.
const REFUSED: [&str; 8] = [
    "commits_in_its_predicate",
    "reads_files",
    "changes_its_role",
    "leaves_its_transaction",
    "has_many_rows",
    "has_rows_twice",
    "is_malformed",
    "takes_long",
];

async fn write_queries(kubelet: &Kubelet, queries: &str) -> anyhow::Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": QUERIES}, "data": {"custom.yaml": queries},
    });
    let params = PatchParams::apply("test").force();
    kubelet.api::<ConfigMap>().patch(QUERIES, &params, &Patch::Apply(&map)).await?;
    kubelet.remount().await
}

/// Returns whether a query succeeded, if it ran.
fn success(series: &Series, query: &str) -> Option<f64> {
    value(series, &format!("query_success{{query=\"{query}\"}}"))
}

/// Returns whether all queries have ended as they should.
fn has_all(series: &Series, is_primary: bool) -> bool {
    let custom = |name: &str| value(series, &format!("custom_{name}"));
    let in_all =
        ["app", "postgres"].map(|name| custom(&format!("everywhere_seen_total{{database=\"{name}\"}}")));
    REFUSED.iter().all(|query| success(series, query) == Some(0.0))
        && custom("roles_count{database=\"app\"}").is_some_and(|count| count > 2.0)
        && custom("roles_are_there{database=\"app\"}") == Some(1.0)
        && in_all == [Some(7.0); 2]
        && custom("primary_recovers") == is_primary.then_some(0.0)
        && (custom("skipped_n"), success(series, "skipped")) == (None, Some(1.0))
        && success(series, "another_version").is_none()
        && custom("has_a_large_predicate_n") == Some(1.0)
        && series.keys().any(|name| name.contains("custom_has_large_texts_n") && name.len() < 1000)
}

#[tokio::test]
async fn queries_of_users_are_metrics_and_cannot_do_more() {
    let kubelet = Kubelet::new().await.unwrap();
    write_queries(&kubelet, CUSTOM).await.unwrap();
    let spec = json!({"size": 2, "monitoring": {"queriesConfigMap": QUERIES}});
    let mut database = Database::on(kubelet, spec).await.unwrap();
    database.until_complete().await.unwrap();
    for member in &database.kubelet.members {
        // PostgreSQL gives up the slow query after ten seconds, and Prometheus waits for ten seconds.
        assert_eq!(success(&scrape(member).await.unwrap(), "takes_long"), None, "{}", member.name);
    }
    let check = async |members: &[Member]| {
        let mut all = Vec::new();
        for (member, is_primary) in members.iter().zip([true, false]) {
            let series = scrape(member).await?;
            for query in REFUSED {
                assert_ne!(success(&series, query), Some(1.0), "{query}: {series:?}");
                let prefix = format!("ensemble_postgres_custom_{query}");
                assert!(!names(&series).iter().any(|name| name.starts_with(&prefix)), "{series:?}");
            }
            // The log says why a query failed.
            let is_logged = member.log().contains("has more than 1000 rows");
            all.push((has_all(&series, is_primary) && is_logged, series));
        }
        Ok(if all.iter().all(|(has_all, _)| *has_all) { Ok(()) } else { Err(all) })
    };
    database.kubelet.until("the queries to end", check).await.unwrap();
    // A query that failed runs again before its cache ends.
    for statement in ["CREATE TABLE orders (state text)", "INSERT INTO orders VALUES ('new')"] {
        database.primary().unwrap().sql(statement).unwrap();
    }
    let member = database.primary().unwrap();
    member.sql("GRANT SELECT ON orders TO ensemble_monitor").unwrap();
    let check = async |members: &[Member]| {
        let all: Vec<_> =
            join_all(members.iter().map(scrape)).await.into_iter().collect::<anyhow::Result<_>>()?;
        let count = |series: &Series| value(series, "custom_orders_count{state=\"new\"}");
        let has_orders = all.iter().all(|series| count(series) == Some(1.0));
        Ok(if has_orders { Ok(()) } else { Err(all) })
    };
    database.kubelet.until("the orders", check).await.unwrap();

    let mut config = tokio_postgres::Config::new();
    let address = database.primary().unwrap().address;
    config.host(address.to_string()).user("ensemble_monitor").password("").dbname("app");
    let Err(error) = config.connect(tokio_postgres::NoTls).await else {
        panic!("logged in over the network")
    };
    let message = error.as_db_error().map(tokio_postgres::error::DbError::message).unwrap_or_default();
    assert!(message.contains("pg_hba.conf rejects connection"), "{error:?}");

    let made = "SELECT (SELECT count(*) FROM pg_largeobject_metadata) + (SELECT count(*) FROM pg_tables WHERE tablename = 't')";
    assert_eq!(database.primary().unwrap().query(made).unwrap(), "0");

    write_queries(&database.kubelet, "other: {query: SELECT 3 AS n, metrics: [{n: {usage: GAUGE}}]}")
        .await
        .unwrap();
    let check = async |members: &[Member]| {
        let series = scrape(&members[0]).await?;
        let is_new = value(&series, "custom_other_n") == Some(3.0) && success(&series, "roles").is_none();
        Ok(if is_new { Ok(()) } else { Err(series) })
    };
    database.kubelet.until("the other query", check).await.unwrap();
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

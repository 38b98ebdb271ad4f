//! Dashboard.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{query::check, read};

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/monitoring/dashboard.json")).unwrap()
}

/// Returns the panels that show data.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
}

fn queries(panel: &Value) -> impl Iterator<Item = &str> {
    panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap())
}

/// Replaces Grafana's variables by values.
fn substitute(query: &str) -> String {
    query.replace("$__rate_interval", "2m").replace("$controller", ".*").replace("$pod", ".*")
}

#[test]
fn every_query_uses_existing_metrics() {
    let dashboard = dashboard();
    for panel in panels(&dashboard) {
        assert!(queries(panel).count() > 0, "{} has no query", panel["title"]);
        for query in queries(panel) {
            let query = substitute(query);
            assert!(!query.contains('$'), "{query}: an unknown variable");
            check(&query);
        }
    }
}

#[test]
fn variables_use_existing_metrics() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "controller", "pod"]);
    for variable in &variables[1..] {
        let definition = variable["definition"].as_str().unwrap();
        let arguments = definition.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
        let (metric, label) = arguments.split_once(", ").unwrap();
        check(&format!("count by ({label}) ({metric})"));
    }
}

#[test]
fn rows_cover_all_areas_and_panels_do_not_overlap() {
    let dashboard = dashboard();
    let all = dashboard["panels"].as_array().unwrap();
    let rows: Vec<_> =
        all.iter().filter(|panel| panel["type"] == "row").map(|row| row["title"].as_str().unwrap()).collect();
    let parts = [
        "Reconciles",
        "Queue",
        "API server",
        "Admission",
        "Leadership",
        "Certificates",
        "Process",
        "PostgresClusters",
        "PostgreSQL",
    ];
    assert_eq!(rows, parts);
    let ids: BTreeSet<_> = all.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), all.len(), "each panel must have a unique ID");
    let places: BTreeSet<_> = all
        .iter()
        .map(|panel| (panel["gridPos"]["y"].as_u64().unwrap(), panel["gridPos"]["x"].as_u64().unwrap()))
        .collect();
    assert_eq!(places.len(), all.len());
}

#[test]
fn queries_aggregate_or_name_replicas() {
    let dashboard = dashboard();
    for query in panels(&dashboard).flat_map(queries) {
        let aggregates =
            ["sum", "max", "min", "count"].iter().any(|by| query.contains(&format!("{by} by (")));
        assert!(aggregates, "{query}: shows each replica's series without a name");
    }
}

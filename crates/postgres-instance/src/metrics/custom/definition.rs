//! Definitions of queries, in the format of `postgres_exporter` and CloudNativePG.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::version_range::VersionRange;

/// Longest name of a query or a column, as that of an identifier of PostgreSQL.
const NAME: usize = 63;
/// Most columns of a query, and most databases of its list.
const ENTRIES: usize = 64;
/// Longest description of a column. The rest is cut off.
const HELP: usize = 512;
/// Longest time for which the rows of a query are used.
const CACHE: Duration = Duration::from_hours(24);

/// A query, whose rows are samples.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    /// Name of its metrics, before the name of the column.
    pub(super) name: String,
    pub(super) sql: String,
    /// A query whose first column says whether this one runs.
    pub(super) predicate: Option<String>,
    /// Whether only a primary runs it.
    pub(super) only_on_primary: bool,
    /// How long its rows are used.
    pub(super) cache: Duration,
    /// Names and patterns of databases. Without one, it runs in that of the application.
    pub(super) databases: Vec<String>,
    /// Versions of PostgreSQL that run it. Without a range, all do.
    pub(super) versions: Option<VersionRange>,
    /// The columns that are used.
    pub(super) columns: Vec<Column>,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) usage: Usage,
    /// Help text, in one line.
    pub(super) help: String,
}

/// What a column contains.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Usage {
    Label,
    Gauge,
    Counter,
    /// Texts that stand for numbers. Other texts are left out.
    Mapped(BTreeMap<String, f64>),
}

/// An entry of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    query: String,
    name: Option<String>,
    predicate_query: Option<String>,
    runonserver: Option<String>,
    #[serde(default, alias = "master")]
    primary: bool,
    #[serde(default)]
    cache_seconds: u64,
    #[serde(default)]
    target_databases: Vec<String>,
    metrics: Vec<BTreeMap<String, ColumnDefinition>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnDefinition {
    usage: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    metric_mapping: BTreeMap<String, f64>,
}

/// Parses a file. An entry that is malformed has an error of its own.
///
/// # Errors
/// Returns an error if the file is no map in YAML.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, Result<Query>>> {
    let document: Option<BTreeMap<String, Value>> = serde_saphyr::from_str(text).map_err(|error| {
        // The other lines show where in the text.
        let message = error.to_string();
        anyhow!("the key is no map of queries: {}", message.lines().next().unwrap_or_default())
    })?;
    let entries = document.unwrap_or_default().into_iter();
    Ok(entries.map(|(name, value)| (name.clone(), query(&name, value))).collect())
}

fn query(name: &str, value: Value) -> Result<Query> {
    let definition: Definition = serde_json::from_value(value)?;
    let name = definition.name.unwrap_or_else(|| name.to_owned());
    check_name(&name)?;
    let columns = columns(definition.metrics)?;
    ensure!(columns.iter().any(|column| column.usage != Usage::Label), "no column is a GAUGE or a COUNTER");
    ensure!(!definition.query.trim().is_empty(), "query is empty");
    ensure!(definition.target_databases.len() <= ENTRIES, "target_databases has more than {ENTRIES} entries");
    let cache = Duration::from_secs(definition.cache_seconds);
    ensure!(cache <= CACHE, "cache_seconds is greater than {}", CACHE.as_secs());
    let versions = definition.runonserver.map(|range| range.parse().context("runonserver")).transpose()?;
    Ok(Query {
        name,
        sql: definition.query,
        predicate: definition.predicate_query,
        only_on_primary: definition.primary,
        cache,
        databases: definition.target_databases,
        versions,
        columns,
    })
}

fn columns(metrics: Vec<BTreeMap<String, ColumnDefinition>>) -> Result<Vec<Column>> {
    let (mut columns, mut names) = (Vec::new(), BTreeSet::new());
    for (name, definition) in metrics.into_iter().flatten() {
        check_name(&name)?;
        ensure!(names.insert(name.clone()), "the column {name} is listed twice");
        ensure!(names.len() <= ENTRIES, "metrics has more than {ENTRIES} columns");
        let usage = match definition.usage.to_ascii_uppercase().as_str() {
            "DISCARD" => continue,
            "LABEL" => Usage::Label,
            "GAUGE" => Usage::Gauge,
            "COUNTER" => Usage::Counter,
            "MAPPEDMETRIC" => Usage::Mapped(definition.metric_mapping),
            other => bail!(
                "the usage {other:?} of the column {name} is not supported; use LABEL, GAUGE, COUNTER, \
                 MAPPEDMETRIC, or DISCARD"
            ),
        };
        ensure!(
            usage != Usage::Label || !name.starts_with("__"),
            "the column {name} cannot be a label: Prometheus reserves names that begin with __"
        );
        columns.push(Column { name, usage, help: help(&definition.description) });
    }
    Ok(columns)
}

/// Checks that a text can be part of the name of a metric, and the name of a label.
fn check_name(name: &str) -> Result<()> {
    let is_valid = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    ensure!(
        is_valid && name.len() <= NAME,
        "the name {name:?} must begin with a letter or _, contain only letters, digits, and _, and have at \
         most {NAME} characters"
    );
    Ok(())
}

/// Returns a description in one line, without a full stop.
fn help(description: &str) -> String {
    let words = description.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").replace('\\', "/");
    line.trim_end_matches('.').chars().take(HELP).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: &str = "
orders:
  query: SELECT state, count(*) FROM orders GROUP BY 1
  primary: true
  cache_seconds: 30
  target_databases: [shop, 'tenant_*']
  predicate_query: SELECT to_regclass('orders') IS NOT NULL
  runonserver: '>=14.0.0'
  metrics:
    - state: {usage: LABEL, description: State of the orders.}
    - count: {usage: GAUGE, description: \"Number of\\norders.\"}
    - spare: {usage: DISCARD}
";

    fn error(text: &str) -> String {
        match parse(text) {
            Err(error) => format!("{error:#}"),
            Ok(queries) => {
                let mut errors = queries.into_values().filter_map(Result::err);
                errors.next().map(|error| format!("{error:#}")).unwrap_or_default()
            }
        }
    }

    #[test]
    fn format_of_cloudnativepg_is_understood() {
        let mut queries = parse(ORDERS).unwrap();
        let orders = queries.remove("orders").unwrap().unwrap();
        assert!(orders.only_on_primary && orders.cache == Duration::from_secs(30));
        assert_eq!(orders.databases, ["shop", "tenant_*"]);
        let columns: Vec<_> = orders.columns.iter().map(|it| (it.name.as_str(), it.help.as_str())).collect();
        assert_eq!(columns, [("state", "State of the orders"), ("count", "Number of orders")]);
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn hostile_files_are_refused() {
        let level = |level: i32| {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            format!("a{level}: &a{level} [{aliases}]\n")
        };
        let bomb = "a0: &a0 [x, x, x]\n".to_owned() + &(1..12).map(level).collect::<String>();
        for text in [bomb, "a: ".to_owned() + &"[".repeat(300_000), "- ".repeat(300_000)] {
            assert!(parse(&text).is_err());
        }
        let entry = "a: {query: SELECT 1, metrics: [{a: {usage: GAUGE}}], runonserver: '";
        assert!(error(&format!("{entry}{}'}}", ">".repeat(100_000))).contains("runonserver"));
    }

    #[test]
    fn malformed_entry_leaves_the_others() {
        let queries = parse(&format!("{ORDERS}\nother: {{query: SELECT 1}}")).unwrap();
        assert!(queries["orders"].is_ok() && queries["other"].is_err());
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let entry = |fields: &str| format!("a: {{query: SELECT 1, {fields}}}");
        for (text, expected) in [
            ("- a", "no map of queries: error: line 1 column 1"),
            ("a: {", "no map of queries"),
            ("a: {metrics: []}", "missing field `query`"),
            (&entry("metrics: []"), "no column is a GAUGE or a COUNTER"),
            (&entry("metrics: [{a: {usage: LABEL}}]"), "no column is a GAUGE or a COUNTER"),
            (&entry("metrics: [{a: {usage: HISTOGRAM}}]"), "\"HISTOGRAM\" of the column a is not supported"),
            (&entry("metrics: [{a: {usage: GAUGE}}, {a: {usage: GAUGE}}]"), "listed twice"),
            (&entry("metrics: [{a: {usage: GAUGE}}, {__a: {usage: LABEL}}]"), "reserves names"),
            (&entry("metrics: [{'a b': {usage: GAUGE}}]"), "must begin with a letter"),
            (&entry("metrics: [{a: {usage: GAUGE}}], name: 'x{'"), "must begin with a letter"),
            (&entry("metrics: [{a: {usage: GAUGE}}], runonserver: new"), "runonserver"),
            (&entry("metrics: [{a: {usage: GAUGE}}], cache_seconds: 90000"), "greater than 86400"),
            (&entry("metrics: [{a: {usage: GAUGE}}], cache: 1"), "unknown field `cache`"),
        ] {
            let error = error(text);
            assert!(!error.is_empty() && error.contains(expected), "{text}: {error}");
        }
    }
}

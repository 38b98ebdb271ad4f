//! Runs a query, and makes samples of its rows.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use postgres_model::metrics::{CUSTOM_PREFIX, Kind};
use postgres_protocol::escape::{escape_identifier, escape_literal};

use super::definition::{Column, Query, Usage};
use crate::{configuration::MAINTENANCE, session::Session};

const ACTION: &str = "query for metrics";
/// How long a query may take in one database.
const LIMIT: Duration = Duration::from_secs(10);
/// Most rows of a query in one database.
const ROWS: usize = 1000;
/// Most databases in which a query runs.
const DATABASES: usize = 64;
/// Most characters of a label.
const LABEL: usize = 256;

/// One value of a metric that a query defines.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::metrics) struct CustomSample {
    /// Name of the metric, without the end `_total`.
    pub(in crate::metrics) metric: String,
    pub(in crate::metrics) kind: Kind,
    pub(in crate::metrics) help: String,
    pub(in crate::metrics) labels: Vec<(String, String)>,
    pub(in crate::metrics) value: f64,
}

/// Runs a query in its databases.
///
/// # Errors
/// Returns an error if PostgreSQL refuses the query or does not answer in time, or if the rows are no samples.
pub(super) async fn samples(query: &Query, socket: &Path, application: &str) -> Result<Vec<CustomSample>> {
    let mut samples = Vec::new();
    for database in databases(query, socket, application).await? {
        let rows = rows(query, socket, &database).await;
        let found = rows.and_then(|rows| of_rows(query, &rows));
        samples.extend(found.with_context(|| format!("database {database}"))?);
    }
    Ok(samples)
}

/// Returns the names of the databases in which a query runs.
async fn databases(query: &Query, socket: &Path, application: &str) -> Result<Vec<String>> {
    if query.databases.is_empty() {
        return Ok(vec![application.to_owned()]);
    }
    let session = Session::connect_to_monitor(socket, MAINTENANCE, LIMIT).await?;
    let rows = session.rows("query for databases", LIMIT, &names(&query.databases)).await?;
    ensure!(rows.len() <= DATABASES, "target_databases match more than {DATABASES} databases");
    Ok(rows.iter().filter_map(|row| row.try_get(0).ok()).collect())
}

/// Returns the query for the databases with these names and patterns.
fn names(patterns: &[String]) -> String {
    let like = |pattern: &String| {
        let escaped = pattern.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        format!("datname LIKE {}", escape_literal(&escaped.replace('*', "%").replace('?', "_")))
    };
    let patterns: Vec<_> = patterns.iter().map(like).collect();
    format!(
        "SELECT datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate \
         AND has_database_privilege(oid, 'CONNECT') AND ({}) ORDER BY 1 LIMIT {}",
        patterns.join(" OR "),
        DATABASES + 1
    )
}

/// The texts of a row, one for each column.
type Texts = Vec<Option<String>>;

/// Returns the rows of a query. It runs in a session of its own, so that it cannot change the next one.
async fn rows(query: &Query, socket: &Path, database: &str) -> Result<Vec<Texts>> {
    let session = Session::connect_to_monitor(socket, database, LIMIT).await?;
    // A session can change what later transactions may do, but not what this one may.
    session.execute(ACTION, LIMIT, "BEGIN READ ONLY").await?;
    if let Some(predicate) = &query.predicate {
        let answer = session.rows("predicate_query", LIMIT, predicate).await?;
        let is_true = answer.first().map(|row| row.try_get::<_, bool>(0)).transpose();
        if !is_true.context("the first column of predicate_query is not boolean")?.unwrap_or_default() {
            return Ok(Vec::new());
        }
    }
    let rows = session.rows(ACTION, LIMIT, &statement(query)).await?;
    ensure!(rows.len() <= ROWS, "the query has more than {ROWS} rows");
    let texts = |row: &tokio_postgres::Row| (0..row.len()).map(|column| row.try_get(column)).collect();
    rows.iter().map(texts).collect::<Result<_, _>>().context("the rows have another form than expected")
}

/// Returns a statement that bounds the rows of a query, and the texts in them.
fn statement(query: &Query) -> String {
    let text = |column: &Column| format!("left({}::text, {LABEL})", escape_identifier(&column.name));
    let columns: Vec<_> = query.columns.iter().map(text).collect();
    let sql = query.sql.trim().trim_end_matches(';');
    // The last line of a query may be a comment.
    format!("SELECT {} FROM (\n{sql}\n) AS part LIMIT {}", columns.join(", "), ROWS + 1)
}

fn of_rows(query: &Query, rows: &[Texts]) -> Result<Vec<CustomSample>> {
    let mut samples = Vec::new();
    for row in rows {
        let cells = || query.columns.iter().zip(row);
        let labels = cells().filter(|(column, _)| column.usage == Usage::Label);
        let label = |(column, text): (&Column, &Option<String>)| {
            (column.name.clone(), text.clone().unwrap_or_default())
        };
        let labels: Vec<_> = labels.map(label).collect();
        for (column, text) in cells() {
            let Some(value) = text.as_deref().map(|text| value(column, text)).transpose()?.flatten() else {
                continue;
            };
            let name = format!("{CUSTOM_PREFIX}{}_{}", query.name, column.name);
            let (metric, kind) = match column.usage {
                Usage::Counter => (name.strip_suffix("_total").unwrap_or(&name).to_owned(), Kind::Counter),
                _ => (name, Kind::Gauge),
            };
            let (help, labels) = (column.help.clone(), labels.clone());
            samples.push(CustomSample { metric, kind, help, labels, value });
        }
    }
    Ok(samples)
}

/// Returns the value of a cell. A label has none, nor has a text that the mapping lacks.
fn value(column: &Column, text: &str) -> Result<Option<f64>> {
    Ok(match (&column.usage, text) {
        (Usage::Label, _) => None,
        (Usage::Mapped(mapping), text) => mapping.get(text).copied(),
        (_, "true") => Some(1.0),
        (_, "false") => Some(0.0),
        (_, text) => match text.parse() {
            Ok(value) => Some(value),
            Err(_) => bail!("the column {} contains {text:?}, which is no number", column.name),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn query() -> Query {
        let column = |name: &str, usage| Column { name: name.into(), usage, help: format!("Help of {name}") };
        Query {
            name: "orders".into(),
            sql: "SELECT * FROM orders; -- all;\n;".into(),
            predicate: None,
            only_on_primary: false,
            cache: Duration::ZERO,
            databases: Vec::new(),
            versions: None,
            columns: vec![
                column("state", Usage::Label),
                column("Rows", Usage::Gauge),
                column("seen_total", Usage::Counter),
                column("health", Usage::Mapped(BTreeMap::from([("good".into(), 1.0)]))),
            ],
        }
    }

    fn row(texts: [Option<&str>; 4]) -> Texts {
        texts.map(|text| text.map(str::to_owned)).into()
    }

    #[test]
    fn statement_bounds_rows_and_texts() {
        let expected = "SELECT left(\"state\"::text, 256), left(\"Rows\"::text, 256), left(\"seen_total\"::text, 256), \
                        left(\"health\"::text, 256) FROM (\nSELECT * FROM orders; -- all;\n\n) AS part LIMIT 1001";
        assert_eq!(statement(&query()), expected);
    }

    #[test]
    fn patterns_are_no_sql() {
        let sql = names(&["a_*".to_owned(), "b' OR true --".to_owned()]);
        assert!(sql.contains(r"datname LIKE  E'a\\_%' OR datname LIKE 'b'' OR true --'"), "{sql}");
    }

    #[test]
    fn rows_become_samples() {
        let rows = [
            row([Some("new"), Some("2.5"), Some("7"), Some("good")]),
            row([None, Some("true"), None, Some("bad")]),
        ];
        let samples = of_rows(&query(), &rows).unwrap();
        let found: Vec<_> =
            samples.iter().map(|it| (it.metric.as_str(), it.labels[0].1.as_str(), it.value)).collect();
        let expected = [
            ("ensemble_postgres_custom_orders_Rows", "new", 2.5),
            ("ensemble_postgres_custom_orders_seen", "new", 7.0),
            ("ensemble_postgres_custom_orders_health", "new", 1.0),
            ("ensemble_postgres_custom_orders_Rows", "", 1.0),
        ];
        assert_eq!(found, expected);
        assert_eq!((samples[1].kind, samples[0].kind), (Kind::Counter, Kind::Gauge));
        let error = of_rows(&query(), &[row([None, Some("many"), None, None])]).unwrap_err();
        assert_eq!(error.to_string(), "the column Rows contains \"many\", which is no number");
    }
}

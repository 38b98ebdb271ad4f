//! Runs a query, and makes samples of its rows.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use postgres_model::metrics::{CUSTOM_PREFIX, Kind};
use postgres_protocol::escape::{escape_identifier, escape_literal};
use tokio_postgres::Row;

use super::definition::{Column, Query, Usage};
use crate::{configuration::MAINTENANCE, session::Session};

const ACTION: &str = "query for metrics";
/// How long a query may take in one database.
const LIMIT: Duration = Duration::from_secs(10);
/// How long to wait for the answer. PostgreSQL gives up the query before.
const WAIT: Duration = Duration::from_secs(12);
/// Most rows of a query in one database.
const ROWS: usize = 1000;
/// Most databases in which a query runs.
const DATABASES: usize = 64;
/// Most bytes of the texts of all samples.
pub(super) const BYTES: usize = 2 << 20;
/// Most characters of a label.
const LABEL: usize = 256;

/// One value of a metric that a query defines.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::metrics) struct CustomSample {
    /// Name of the metric, with the end `_total` if it is a counter.
    pub(in crate::metrics) metric: String,
    pub(in crate::metrics) kind: Kind,
    pub(in crate::metrics) help: String,
    pub(in crate::metrics) labels: Vec<(String, String)>,
    pub(in crate::metrics) value: f64,
}

impl CustomSample {
    /// Returns the size of its texts.
    pub(super) fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.metric.len() + self.help.len() + labels
    }
}

/// Runs a query in its databases.
///
/// # Errors
/// Returns an error if PostgreSQL refuses the query or does not answer in time, or if the rows are no samples.
pub(super) async fn samples(query: &Query, socket: &Path, application: &str) -> Result<Vec<CustomSample>> {
    let mut samples = Samples::default();
    for database in databases(query, socket, application).await? {
        let ran = run(query, socket, &database, &mut samples).await;
        ran.with_context(|| format!("database {database}"))?;
    }
    Ok(samples.all)
}

/// The samples of a query, which are bounded while its rows arrive.
#[derive(Default)]
struct Samples {
    all: Vec<CustomSample>,
    bytes: usize,
}

/// Returns the names of the databases in which a query runs.
async fn databases(query: &Query, socket: &Path, application: &str) -> Result<Vec<String>> {
    if query.databases.is_empty() {
        return Ok(vec![application.to_owned()]);
    }
    let session = Session::connect_to_monitor(socket, MAINTENANCE, LIMIT).await?;
    let rows = session.rows("query for databases", WAIT, &names(&query.databases)).await?;
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

/// Runs a query in a session of its own, so that it cannot change the next one.
async fn run(query: &Query, socket: &Path, database: &str, samples: &mut Samples) -> Result<()> {
    let session = Session::connect_to_monitor(socket, database, LIMIT).await?;
    // A session can change what later transactions may do, but not what this one may.
    session.execute(ACTION, WAIT, "BEGIN READ ONLY").await?;
    if let Some(predicate) = &query.predicate
        && !holds(&session, predicate).await?
    {
        return Ok(());
    }
    let mut rows = 0;
    let take = |row: &Row| {
        rows += 1;
        ensure!(rows <= ROWS, "the query has more than {ROWS} rows");
        let texts = (0..row.len()).map(|column| row.try_get(column)).collect::<Result<Vec<_>, _>>();
        samples.add(query, &texts.context("a row has another form than expected")?)
    };
    session.each_row(ACTION, WAIT, &statement(query), take).await
}

/// Returns whether the first row of a predicate is true.
async fn holds(session: &Session, predicate: &str) -> Result<bool> {
    let rows = session
        .rows("predicate_query", WAIT, &bounded("left(first::text, 8)", predicate, "part(first)", 1))
        .await?;
    let answer: Option<String> = rows.first().and_then(|row| row.try_get(0).ok().flatten());
    match answer.as_deref() {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(_) => bail!("the first column of predicate_query is not boolean"),
    }
}

/// Returns a statement that bounds the rows of a query, and the texts in them.
fn statement(query: &Query) -> String {
    let text = |column: &Column| format!("left({}::text, {LABEL})", escape_identifier(&column.name));
    let columns: Vec<_> = query.columns.iter().map(text).collect();
    bounded(&columns.join(", "), &query.sql, "part", ROWS + 1)
}

/// Returns a statement with these columns of a statement of a user, which gets a name, and with at most so
/// many rows.
fn bounded(columns: &str, sql: &str, name: &str, rows: usize) -> String {
    let sql = sql.trim().trim_end_matches(';');
    // The last line may be a comment.
    format!("SELECT {columns} FROM (\n{sql}\n) AS {name} LIMIT {rows}")
}

impl Samples {
    /// Adds those of a row, which has a text for each column.
    fn add(&mut self, query: &Query, row: &[Option<String>]) -> Result<()> {
        let cells = || query.columns.iter().zip(row);
        let labels = cells().filter(|(column, _)| column.usage == Usage::Label);
        // Prometheus takes a label without a value for one that is not there, and ignores the order.
        let mut labels: Vec<_> = labels
            .filter_map(|(column, text)| {
                Some((column.name.clone(), text.clone().filter(|text| !text.is_empty())?))
            })
            .collect();
        labels.sort();
        for (column, text) in cells() {
            let Some(value) = text.as_deref().map(|text| value(column, text)).transpose()?.flatten() else {
                continue;
            };
            let name = format!("{CUSTOM_PREFIX}{}_{}", query.name, column.name);
            let (metric, kind) = match column.usage {
                Usage::Counter => (format!("{}_total", name.trim_end_matches("_total")), Kind::Counter),
                _ => (name, Kind::Gauge),
            };
            let sample =
                CustomSample { metric, kind, help: column.help.clone(), labels: labels.clone(), value };
            self.bytes += sample.bytes();
            ensure!(self.bytes <= BYTES, "the samples of the query have more than {BYTES} bytes");
            self.all.push(sample);
        }
        Ok(())
    }
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
            // The text itself may be secret.
            Err(_) => bail!("the column {} contains a text that is no number", column.name),
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

    fn samples(rows: &[[Option<&str>; 4]]) -> Result<Vec<CustomSample>> {
        let mut samples = Samples::default();
        for row in rows {
            samples.add(&query(), &row.map(|text| text.map(str::to_owned)))?;
        }
        Ok(samples.all)
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
        let rows =
            [[Some("new"), Some("2.5"), Some("7"), Some("good")], [None, Some("true"), None, Some("bad")]];
        let found = samples(&rows).unwrap();
        let values: Vec<_> = found.iter().map(|it| (it.metric.as_str(), it.labels.len(), it.value)).collect();
        let expected = [
            ("ensemble_postgres_custom_orders_Rows", 1, 2.5),
            ("ensemble_postgres_custom_orders_seen_total", 1, 7.0),
            ("ensemble_postgres_custom_orders_health", 1, 1.0),
            ("ensemble_postgres_custom_orders_Rows", 0, 1.0),
        ];
        assert_eq!(values, expected);
        assert_eq!(found[0].labels, [("state".to_owned(), "new".to_owned())]);
        assert_eq!((found[1].kind, found[0].kind), (Kind::Counter, Kind::Gauge));
        let error = samples(&[[None, Some("many"), None, None]]).unwrap_err();
        assert_eq!(error.to_string(), "the column Rows contains a text that is no number");
    }

    #[test]
    fn texts_of_all_rows_are_bounded() {
        let label = "l".repeat(1024);
        let rows: Vec<_> = (0..3000).map(|_| [Some(label.as_str()), Some("1"), None, None]).collect();
        let error = samples(&rows).unwrap_err();
        assert_eq!(error.to_string(), "the samples of the query have more than 2097152 bytes");
    }
}

//! Metrics by queries of users: those of the ConfigMap in `spec.monitoring.queriesConfigMap`, which the
//! Pod mounts.
//!
//! # Guarantees
//! - A query runs as a role that is no superuser, and in a transaction that only reads and is not
//!   committed.
//! - However many clients there are, one query runs at a time, and each at most every [`CACHE`].
//! - A scrape waits no longer than [`QUERY`] for them. Queries that take longer go on, and the next scrape
//!   has their rows.
//! - A query that fails, or whose rows Prometheus would refuse, has no samples. The others have.

mod definition;
mod rows;
mod version_range;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use parking_lot::Mutex;
use postgres_model::metrics::QUERY_SUCCESS;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};
use tracing::warn;

pub(super) use self::rows::CustomSample;
use self::{definition::Query, rows::BYTES};
use super::{FRESH, QUERY, Sample};

/// Shortest time for which the rows of a query are used.
const CACHE: Duration = Duration::from_secs(5);
/// Most bytes of a file. A ConfigMap is not larger.
const FILE: u64 = 1 << 20;
/// Most queries.
const QUERIES: usize = 64;
/// Most samples of all queries.
const SAMPLES: usize = 10_000;

/// The server that runs the queries.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) is_primary: bool,
    /// Its version, such as `17.6`.
    pub(super) version: String,
    /// Name of the application's database.
    pub(super) database: String,
}

/// The queries, and their last rows.
pub(super) struct CustomQueries {
    /// Where the ConfigMap is mounted, if there is one.
    folder: PathBuf,
    socket: PathBuf,
    /// When a scrape has read the definitions last. One scrape at a time runs queries.
    refreshed: Arc<tokio::sync::Mutex<Option<Instant>>>,
    outcomes: Mutex<BTreeMap<String, Outcome>>,
}

/// How a query ended.
struct Outcome {
    /// The query, unless its definition is malformed.
    query: Option<Query>,
    ended: Instant,
    result: Result<Vec<CustomSample>, String>,
}

impl CustomQueries {
    pub(super) fn new(folder: PathBuf, socket: PathBuf) -> Self {
        Self { folder, socket, refreshed: Arc::default(), outcomes: Mutex::default() }
    }

    /// Returns the samples, and whether each query succeeded.
    pub(super) async fn samples(self: &Arc<Self>, server: Server) -> (Vec<CustomSample>, Vec<Sample>) {
        // Queries that take longer go on.
        if let Ok(mut refreshed) = self.refreshed.clone().try_lock_owned() {
            if refreshed.is_none_or(|at| at.elapsed() >= FRESH) {
                let this = self.clone();
                let refresh = tokio::spawn(async move {
                    *refreshed = Some(Instant::now());
                    this.refresh(&server).await;
                });
                let _ = timeout(QUERY, refresh).await;
            }
        } else {
            let _ = timeout(QUERY, self.refreshed.lock()).await;
        }
        let outcomes = self.outcomes.lock();
        let samples = outcomes.values().filter_map(|outcome| outcome.result.as_ref().ok()).flatten();
        let success = outcomes.iter().map(|(name, outcome)| {
            Sample::labelled(&QUERY_SUCCESS, &[name], if outcome.result.is_ok() { 1.0 } else { 0.0 })
        });
        (samples.cloned().collect(), success.collect())
    }

    /// Runs the queries whose rows are old.
    async fn refresh(&self, server: &Server) {
        let folder = self.folder.clone();
        // Large files must not delay the main loop.
        let Ok(mut definitions) = spawn_blocking(move || read(&folder)).await else { return };
        definitions.retain(|_, query| query.as_ref().map_or(true, |query| applies(query, server)));
        self.outcomes.lock().retain(|name, _| definitions.contains_key(name));
        for (name, query) in definitions {
            match query {
                Err(error) => self.note(&name, None, Err(error)),
                Ok(query) if self.is_fresh(&name, &query) => {}
                Ok(query) => {
                    let samples = rows::samples(&query, &self.socket, &server.database).await;
                    self.note(&name, Some(query), samples);
                }
            }
        }
    }

    fn is_fresh(&self, name: &str, query: &Query) -> bool {
        let outcomes = self.outcomes.lock();
        let known = outcomes.get(name).filter(|outcome| outcome.query.as_ref() == Some(query));
        // What failed may work soon.
        let cache = |outcome: &Outcome| if outcome.result.is_ok() { query.cache.max(CACHE) } else { CACHE };
        known.is_some_and(|outcome| outcome.ended.elapsed() < cache(outcome))
    }

    /// Keeps the result of a query. Logs an error unless the last one was the same.
    fn note(&self, name: &str, query: Option<Query>, result: Result<Vec<CustomSample>>) {
        let mut outcomes = self.outcomes.lock();
        let last = outcomes.remove(name).and_then(|outcome| outcome.result.err());
        let others = outcomes.values().filter_map(|outcome| outcome.result.as_ref().ok()).flatten();
        let result = result.and_then(|samples| check(&samples, others).map(|()| samples));
        let result = result.map_err(|error| format!("{error:#}"));
        if let Err(error) = &result
            && last.as_ref() != Some(error)
        {
            warn!(query = name, error, "a query of spec.monitoring failed");
        }
        outcomes.insert(name.to_owned(), Outcome { query, ended: Instant::now(), result });
    }
}

fn applies(query: &Query, server: &Server) -> bool {
    let version = version_range::of_server(&server.version);
    (server.is_primary || !query.only_on_primary)
        && query.versions.as_ref().is_none_or(|versions| versions.contains(version))
}

/// Checks what Prometheus requires of all samples together.
fn check<'a>(samples: &[CustomSample], others: impl Iterator<Item = &'a CustomSample>) -> Result<()> {
    let (mut kinds, mut series) = (BTreeMap::new(), BTreeSet::new());
    let mut bytes: usize = samples.iter().map(CustomSample::bytes).sum();
    for other in others {
        bytes += other.bytes();
        kinds.insert(&other.metric, other.kind);
        series.insert((&other.metric, &other.labels));
    }
    ensure!(series.len() + samples.len() <= SAMPLES, "all queries have more than {SAMPLES} samples");
    ensure!(bytes <= BYTES, "the samples of all queries have more than {BYTES} bytes");
    for sample in samples {
        let kind = *kinds.entry(&sample.metric).or_insert(sample.kind);
        ensure!(kind == sample.kind, "{} is a gauge of one query and a counter of another", sample.metric);
        let is_new = series.insert((&sample.metric, &sample.labels));
        ensure!(is_new, "{} has two values with the labels {:?}", sample.metric, sample.labels);
    }
    Ok(())
}

/// Reads the files of a folder: the keys of a ConfigMap. A file that is no YAML has an error under its name.
fn read(folder: &Path) -> BTreeMap<String, Result<Query>> {
    let mut all = BTreeMap::new();
    for file in files(folder) {
        let queries = match read_file(&folder.join(&file)) {
            Ok(queries) => queries,
            Err(error) => BTreeMap::from([(file, Err(error))]),
        };
        for (name, query) in queries {
            let query = match query {
                _ if all.contains_key(&name) => {
                    Err(anyhow!("two keys of the ConfigMap have a query of this name"))
                }
                _ if all.len() >= QUERIES => Err(anyhow!("there are more than {QUERIES} queries")),
                query => query,
            };
            all.insert(name, query);
        }
    }
    all
}

/// Returns the names of the files in a folder, sorted. The kubelet's own begin with a dot.
fn files(folder: &Path) -> BTreeSet<String> {
    // Without a ConfigMap, there is no folder.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn read_file(path: &Path) -> Result<BTreeMap<String, Result<Query>>> {
    let size = fs::metadata(path).context("cannot read the key")?.len();
    ensure!(size <= FILE, "the key has more than {FILE} bytes");
    definition::parse(&fs::read_to_string(path).context("cannot read the key")?)
}

#[cfg(test)]
mod tests {
    use postgres_model::metrics::Kind;

    use super::*;

    fn sample(metric: &str, kind: Kind, label: &str) -> CustomSample {
        let labels = vec![("l".to_owned(), label.to_owned())];
        CustomSample { metric: metric.to_owned(), kind, help: String::new(), labels, value: 1.0 }
    }

    #[test]
    fn samples_that_prometheus_would_refuse_are_refused() {
        let others = [sample("a", Kind::Gauge, "1")];
        let error = |samples: &[CustomSample]| {
            check(samples, others.iter()).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(error(&[sample("a", Kind::Gauge, "2"), sample("b", Kind::Gauge, "1")]), "");
        assert!(error(&[sample("a", Kind::Gauge, "1")]).contains("two values"));
        assert!(
            error(&[sample("b", Kind::Gauge, "1"), sample("b", Kind::Gauge, "1")]).contains("two values")
        );
        assert!(error(&[sample("a", Kind::Counter, "2")]).contains("gauge of one query"));
        let many: Vec<_> = (0..SAMPLES).map(|number| sample("b", Kind::Gauge, &number.to_string())).collect();
        assert!(error(&many).contains("more than 10000 samples"));
    }

    #[test]
    fn all_keys_of_a_config_map_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let entry =
            |name: &str| format!("{name}: {{query: SELECT 1 AS n, metrics: [{{n: {{usage: GAUGE}}}}]}}\n");
        write("a.yaml", &(entry("one") + &entry("two")));
        write("b.yaml", &entry("two"));
        write("c.yaml", "[");
        write(".hidden", &entry("three"));
        fs::create_dir(folder.path().join("folder")).unwrap();
        let found = read(folder.path());
        let states: Vec<_> = found.iter().map(|(name, query)| (name.as_str(), query.is_ok())).collect();
        assert_eq!(states, [("c.yaml", false), ("folder", false), ("one", true), ("two", false)]);
        assert!(read(&folder.path().join("missing")).is_empty());

        write("d.yaml", &(0..70).map(|number| entry(&format!("q{number:02}"))).collect::<String>());
        let refused = read(folder.path()).into_values().filter_map(Result::err);
        assert_eq!(refused.filter(|error| error.to_string().contains("more than 64")).count(), 10);
    }

    #[test]
    fn primaries_and_versions_are_obeyed() {
        let query = |fields: &str| {
            let text = format!("a: {{query: SELECT 1, metrics: [{{n: {{usage: GAUGE}}}}], {fields}}}");
            definition::parse(&text).unwrap().remove("a").unwrap().unwrap()
        };
        let server = |is_primary| Server { is_primary, version: "17.6".into(), database: "app".into() };
        assert!(applies(&query("primary: false"), &server(false)));
        assert!(!applies(&query("primary: true"), &server(false)));
        assert!(applies(&query("primary: true"), &server(true)));
        assert!(!applies(&query("runonserver: '<17.0.0'"), &server(true)));
    }
}

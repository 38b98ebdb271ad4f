//! Logs each change of a PostgresCluster with its spec.

use std::collections::BTreeMap;

use kube::ResourceExt;
use operator_core::informer::Change;
use tracing::info;

use crate::api::PostgresCluster;

/// Logs one line for a change of the spec, for a new object, and for a deleted one.
/// `default_version` is the version of a spec without one.
pub(crate) fn log(change: &Change<PostgresCluster>, default_version: &str) {
    let event = match (&change.old, &change.new) {
        (None, Some(new)) => Some(("ADDED", new)),
        (Some(old), None) => Some(("DELETED", old)),
        (Some(old), Some(new)) => (old.spec != new.spec).then_some(("MODIFIED", new)),
        (None, None) => None,
    };
    let Some((event, cluster)) = event else { return };
    let spec = &cluster.spec;
    let version = spec.version.as_ref().map_or_else(|| default_version.to_owned(), ToString::to_string);
    info!(
        size = spec.size,
        %version,
        paused = spec.paused,
        nodeSelector = %braced(&spec.node_selector),
        antiAffinity = spec.anti_affinity,
        "Postgres cluster event: {event} {}/{}",
        cluster.namespace().unwrap_or_default(),
        cluster.name_any(),
    );
}

/// Returns the labels as `{name=value, ...}`.
fn braced(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{{{}}}", labels.join(", "))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use operator_core::ObjectKey;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::fixture;

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl Write for Output {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the log line of a change between two specs.
    fn line(old: Option<Value>, new: Option<Value>) -> String {
        let cluster = |spec: Value| Arc::new(fixture::cluster(&spec));
        let key = ObjectKey::namespaced("shop", "db");
        let change = Change { key, old: old.map(cluster), new: new.map(cluster) };
        let output = Output::default();
        let writer = output.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .with_level(false)
            .without_time()
            .finish();
        tracing::subscriber::with_default(subscriber, || log(&change, "18"));
        let text = output.0.lock().unwrap().clone();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_change_of_a_spec_is_one_line() {
        let three = json!({"size": 3, "version": "9.6.3"});
        let five = json!({"size": 5, "nodeSelector": {"disk": "ssd"}, "antiAffinity": true});
        for (old, new, expected) in [
            (
                None,
                Some(three.clone()),
                "Postgres cluster event: ADDED shop/db size=3 version=9.6.3 paused=false nodeSelector={} antiAffinity=false\n",
            ),
            (
                Some(three.clone()),
                Some(five.clone()),
                "Postgres cluster event: MODIFIED shop/db size=5 version=18 paused=false nodeSelector={disk=ssd} antiAffinity=true\n",
            ),
            (Some(five.clone()), Some(five.clone()), ""),
            (
                Some(five),
                None,
                "Postgres cluster event: DELETED shop/db size=5 version=18 paused=false nodeSelector={disk=ssd} antiAffinity=true\n",
            ),
        ] {
            assert_eq!(line(old, new), expected);
        }
    }
}

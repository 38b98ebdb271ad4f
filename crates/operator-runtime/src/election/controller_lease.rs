//! Leases of controllers: their names and labels.

use k8s_openapi::api::coordination::v1::Lease;
use lease::{Timing, Writer};
use operator_core::labels::{self, Labels};

/// Returns the name of a controller's Lease.
pub fn name(controller: &str) -> String {
    format!("ensemble-{controller}")
}

/// Returns a controller's Lease as it is deployed. It has never been held, so the first candidate
/// leads at once.
pub fn unused(controller: &str, namespace: &str) -> Lease {
    lease::unused(&name(controller), namespace, own_labels(controller))
}

/// Returns the writer of a candidate for a controller's Lease.
pub(super) fn writer(controller: &str, identity: &str, timing: Timing) -> Writer {
    Writer::new(identity, timing).with_labels(own_labels(controller))
}

fn own_labels(controller: &str) -> Labels {
    labels::recommended("ensemble", "ensemble", controller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restores_labels_that_the_watch_selects() {
        let mut lease = unused("podset", "ensemble-system");
        let deployed = lease.metadata.labels.replace([("team".to_owned(), "blue".to_owned())].into());
        let writer = writer("podset", "identity", Timing::default());
        let labels = writer.hold(lease, jiff::Timestamp::UNIX_EPOCH).metadata.labels.unwrap();
        assert_eq!(labels["team"], "blue");
        assert_eq!(labels[labels::MANAGED_BY], "ensemble");
        assert!(deployed.unwrap().iter().all(|(key, value)| labels.get(key) == Some(value)));
    }
}

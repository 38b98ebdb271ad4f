//! The Lease of the primary. The controller creates it, and only members hold it.

use std::mem::take;

use k8s_openapi::api::coordination::v1::Lease;
use lease::{Timing, Writer};
use operator_core::labels;

use super::object_labels;
use crate::api::PostgresCluster;

/// Sets the desired state. The holder and its times belong to the members.
///
/// The first Lease of a cluster has never been held, so the first member takes it at once. A Lease
/// that is missing later may have been deleted under a primary that is cut off. The new one has to
/// age before a member can take it.
pub(crate) fn mutate(cluster: &PostgresCluster, object: &mut Lease) {
    let is_new = object.metadata.uid.is_none();
    let had_lease = cluster.status.as_ref().is_some_and(|status| status.bootstrap.is_some());
    if is_new && had_lease {
        *object = Writer::new(String::new(), Timing::default()).unheld(take(object));
    }
    labels::add(&mut object.metadata.labels, object_labels(cluster));
}

#[cfg(test)]
mod tests {
    use lease::record;
    use serde_json::json;

    use super::*;
    use crate::api::{BootstrapStatus, fixture::cluster};

    #[test]
    fn only_the_first_lease_is_free() {
        let mut cluster = cluster(&json!({}));
        let mut first = Lease::default();
        mutate(&cluster, &mut first);
        assert!(record(&first).free);

        cluster.status.get_or_insert_default().bootstrap = Some(BootstrapStatus::default());
        let mut later = Lease::default();
        mutate(&cluster, &mut later);
        assert!(!record(&later).free);

        first.metadata.uid = Some("l-1".into());
        let before = first.clone();
        mutate(&cluster, &mut first);
        assert_eq!(first, before);
    }
}

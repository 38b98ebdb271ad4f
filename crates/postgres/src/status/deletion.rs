//! The status of a cluster that is deleted with its volumes.

use k8s_openapi::jiff::Timestamp;
use operator_core::conditions::{NewCondition, READY, set_condition};

use crate::{
    api::{PostgresCluster, PostgresClusterStatus},
    build::member_name,
    decide::deletion::Awaited,
    membership::Serial,
    reasons::TERMINATING,
};

/// Computes the status while a deletion waits for objects. All but Ready stays.
pub(crate) fn terminating(
    cluster: &PostgresCluster,
    awaited: &Awaited,
    now: Timestamp,
) -> PostgresClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let (kind, serials) = match awaited {
        Awaited::Pods(serials) => ("Pods", serials),
        Awaited::Volumes(serials) => ("PersistentVolumeClaims", serials),
    };
    let names: Vec<_> = serials.iter().map(|serial: &Serial| member_name(cluster, *serial)).collect();
    let message = format!("waiting until the {kind} {} are gone", names.join(", "));
    let ready = NewCondition::is_false(READY, TERMINATING, message);
    let generation = cluster.metadata.generation.unwrap_or_default();
    set_condition(&mut status.conditions, &ready, generation, now);
    TERMINATING.clone_into(&mut status.reason);
    status
}

#[cfg(test)]
mod tests {
    use operator_core::conditions::find;
    use serde_json::json;

    use super::*;
    use crate::{api::fixture::cluster, status::tests::status_of};

    #[test]
    fn what_a_deletion_waits_for_is_named() {
        let mut cluster = cluster(&json!({"size": 2}));
        cluster.status = Some(status_of(&cluster, &[1, 2]));
        let status = terminating(&cluster, &Awaited::Pods(vec![2]), Timestamp::UNIX_EPOCH);
        let ready = find(&status.conditions, READY).unwrap();
        assert_eq!(ready.message, "waiting until the Pods db-2 are gone");
        assert_eq!((ready.reason.as_str(), status.instances.len()), ("Terminating", 2));
    }
}

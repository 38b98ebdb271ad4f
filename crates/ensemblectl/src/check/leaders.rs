//! Who leads each controller, by its Lease.

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use operator_runtime::election::lease_name;

use super::Finding;
use crate::{age::age, connect::Cluster, installation::Installation};

/// How well the clocks of the API server and of a holder are known.
const GRACE: SignedDuration = SignedDuration::from_secs(2);

/// One finding for each controller.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let Some(namespace) = installation.lease_namespace() else {
        return vec![Finding::ok("leadership", "not shared: the manager runs with --leader-elect=false")];
    };
    let api = Api::<Lease>::namespaced(cluster.client.clone(), namespace);
    let mut findings = Vec::new();
    for controller in installation.controllers() {
        let name = lease_name(controller.name);
        let what = format!("leader of {}", controller.name);
        let lease =
            api.get_opt(&name).await.with_context(|| format!("cannot read the Lease {namespace}/{name}"));
        findings.push(match lease {
            Ok(lease) => judge(&what, &format!("{namespace}/{name}"), lease.as_ref(), cluster.now()),
            // The answer would be the same for the others.
            Err(error) => return vec![Finding::unknown("leadership", &error)],
        });
    }
    findings
}

fn judge(what: &str, name: &str, lease: Option<&Lease>, now: Timestamp) -> Finding {
    let start = "does a manager run, and may it hold Leases (deploy/rbac/leader-election.yaml)? Its log says why it does \
                 not lead";
    let Some(lease) = lease else {
        return Finding::error(what, format!("there is no Lease {name}: nobody leads"), start);
    };
    let LeaseSpec { renew_time, lease_duration_seconds, .. } = lease.spec.clone().unwrap_or_default();
    let (Some(holder), Some(renewed)) = (holder(lease), renew_time) else {
        return Finding::error(what, format!("nobody holds the Lease {name}"), start);
    };
    let renewed_ago = age(renewed.0, now);
    let lasts = SignedDuration::from_secs(lease_duration_seconds.unwrap_or_default().into());
    if now.duration_since(renewed.0) > lasts + GRACE {
        let message = format!(
            "{holder} has held the Lease {name} and gave its last sign of life {renewed_ago} ago: nobody leads"
        );
        return Finding::error(what, message, start);
    }
    Finding::ok(what, format!("{holder}, renewed {renewed_ago} ago"))
}

/// Who holds a Lease. What stands behind the name is new in each life of a process.
pub(crate) fn holder(lease: &Lease) -> Option<String> {
    let identity = lease.spec.as_ref()?.holder_identity.as_deref().filter(|identity| !identity.is_empty())?;
    Some(identity.rsplit_once('_').map_or(identity, |(name, _)| name).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::finding::State;

    fn judged(spec: Value) -> (State, String) {
        let lease: Lease =
            serde_json::from_value(json!({ "metadata": { "name": "ensemble-podset" }, "spec": spec }))
                .unwrap();
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let finding = judge("leader of podset", "a/ensemble-podset", Some(&lease), now);
        (finding.state, finding.message)
    }

    #[test]
    fn a_leader_is_one_who_has_renewed_in_time() {
        let held = |renewed: &str| {
            judged(json!({
                "holderIdentity": "manager-1_abc", "leaseDurationSeconds": 15, "renewTime": renewed,
            }))
        };
        assert_eq!(held("2026-01-01T00:00:57.000000Z"), (State::Ok, "manager-1, renewed 3s ago".to_owned()));
        let (state, says) = held("2026-01-01T00:00:30.000000Z");
        assert!(state == State::Error && says.contains("last sign of life 30s ago"), "{says}");
    }

    #[test]
    fn a_lease_that_nobody_holds_or_that_is_not_there_has_no_leader() {
        assert_eq!(
            judged(json!({ "holderIdentity": "", "renewTime": "2026-01-01T00:00:57.000000Z" })).0,
            State::Error
        );
        assert_eq!(judged(Value::Null).0, State::Error);
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert!(judge("x", "a/b", None, now).message.contains("there is no Lease a/b"));
    }
}

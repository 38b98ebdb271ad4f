//! Check of leader election: whether each controller has a leader, by its Lease.

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use operator_runtime::election::lease_name;

use super::Finding;
use crate::{age::age, cluster::Cluster, installation::Installation};

/// Tolerance for the difference between the clocks of the API server and the holder.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// Checks the Lease of each controller.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let Some(namespace) = installation.lease_namespace() else {
        return vec![Finding::ok("leader election", "disabled: the manager runs with --leader-elect=false")];
    };
    let api = Api::<Lease>::namespaced(cluster.client.clone(), namespace);
    let mut findings = Vec::new();
    for controller in installation.controllers() {
        let name = lease_name(controller.name);
        let what = format!("leader of {}", controller.name);
        let lease =
            api.get_opt(&name).await.with_context(|| format!("cannot read the Lease {namespace}/{name}"));
        findings.push(match lease {
            Ok(lease) => evaluate(&what, &format!("{namespace}/{name}"), lease.as_ref(), cluster.now()),
            // The other Leases would fail in the same way.
            Err(error) => return vec![Finding::unknown("leader election", &error)],
        });
    }
    findings
}

fn evaluate(what: &str, name: &str, lease: Option<&Lease>, now: Timestamp) -> Finding {
    let advice =
        "check that a manager runs with the permissions in deploy/rbac/leader-election.yaml, and see its log";
    let Some(lease) = lease else {
        return Finding::error(what, format!("the Lease {name} does not exist: no leader"), advice);
    };
    let LeaseSpec { renew_time, lease_duration_seconds, .. } = lease.spec.clone().unwrap_or_default();
    let (Some(holder), Some(renewed)) = (holder(lease), renew_time) else {
        return Finding::error(what, format!("the Lease {name} has no holder: no leader"), advice);
    };
    let renewed_ago = age(renewed.0, now);
    let lasts = SignedDuration::from_secs(lease_duration_seconds.unwrap_or_default().into());
    if now.duration_since(renewed.0) > lasts + CLOCK_TOLERANCE {
        let message = format!(
            "the Lease {name} has expired: its holder {holder} renewed it {renewed_ago} ago: no leader"
        );
        return Finding::error(what, message, advice);
    }
    Finding::ok(what, format!("{holder}, renewed {renewed_ago} ago"))
}

/// Returns the holder of a Lease, without the suffix that is unique to each process.
pub(crate) fn holder(lease: &Lease) -> Option<String> {
    let identity = lease.spec.as_ref()?.holder_identity.as_deref().filter(|identity| !identity.is_empty())?;
    Some(identity.rsplit_once('_').map_or(identity, |(name, _)| name).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::finding::State;

    fn finding(spec: Value) -> (State, String) {
        let lease: Lease =
            serde_json::from_value(json!({ "metadata": { "name": "ensemble-podset" }, "spec": spec }))
                .unwrap();
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let finding = evaluate("leader of podset", "a/ensemble-podset", Some(&lease), now);
        (finding.state, finding.message)
    }

    #[test]
    fn leader_must_have_renewed_its_lease() {
        let held = |renewed: &str| {
            finding(json!({
                "holderIdentity": "manager-1_abc", "leaseDurationSeconds": 15, "renewTime": renewed,
            }))
        };
        assert_eq!(held("2026-01-01T00:00:57.000000Z"), (State::Ok, "manager-1, renewed 3s ago".to_owned()));
        let (state, message) = held("2026-01-01T00:00:30.000000Z");
        assert!(state == State::Error && message.contains("renewed it 30s ago"), "{message}");
    }

    #[test]
    fn lease_without_holder_has_no_leader() {
        assert_eq!(
            finding(json!({ "holderIdentity": "", "renewTime": "2026-01-01T00:00:57.000000Z" })).0,
            State::Error
        );
        assert_eq!(finding(Value::Null).0, State::Error);
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert!(evaluate("x", "a/b", None, now).message.contains("the Lease a/b does not exist"));
    }
}

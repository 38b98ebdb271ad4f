//! Check of leader election: whether each controller has a leader, by its Lease.

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, api::ListParams};
use lease::{anchor_name, is_renewed_with};
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
    let listed = api.list(&ListParams::default()).await;
    let leases = match listed.with_context(|| format!("cannot list the Leases in {namespace}")) {
        Ok(leases) => leases.items,
        Err(error) => return vec![Finding::unknown("leader election", &error)],
    };
    let finding = |controller: &str| {
        let (what, name) = (format!("leader of {controller}"), lease_name(controller));
        evaluate(&what, &format!("{namespace}/{name}"), named(&leases, &name), &leases, cluster.now())
    };
    installation.controllers().iter().map(|controller| finding(controller.name)).collect()
}

fn named<'a>(leases: &'a [Lease], name: &str) -> Option<&'a Lease> {
    leases.iter().find(|lease| lease.metadata.name.as_deref() == Some(name))
}

/// Returns the last renewal of a Lease: its own, or that of the Lease with which it is renewed.
fn last_renewal(lease: &Lease, leases: &[Lease]) -> Option<Timestamp> {
    let renewed = |lease: &Lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0);
    let anchor = anchor_name(lease).and_then(|name| named(leases, name));
    renewed(lease).max(anchor.filter(|anchor| is_renewed_with(lease, anchor)).and_then(renewed))
}

fn evaluate(what: &str, name: &str, lease: Option<&Lease>, leases: &[Lease], now: Timestamp) -> Finding {
    let advice =
        "check that a manager runs with the permissions in deploy/rbac/leader-election.yaml, and see its log";
    let Some(lease) = lease else {
        return Finding::error(what, format!("the Lease {name} does not exist: no leader"), advice);
    };
    let LeaseSpec { lease_duration_seconds, .. } = lease.spec.clone().unwrap_or_default();
    let (Some(holder), Some(renewed)) = (holder(lease), last_renewal(lease, leases)) else {
        return Finding::error(what, format!("the Lease {name} has no holder: no leader"), advice);
    };
    let renewed_ago = age(renewed, now);
    let lasts = SignedDuration::from_secs(lease_duration_seconds.unwrap_or_default().into());
    if now.duration_since(renewed) > lasts + CLOCK_TOLERANCE {
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
        let finding = evaluate("leader of podset", "a/ensemble-podset", Some(&lease), &[], now);
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
    fn lease_can_be_renewed_with_another_one() {
        let lease = |name: &str, holder: &str, renewed: &str, anchor: Option<&str>| -> Lease {
            let annotations = anchor.map(|anchor| json!({ "ensemble.example.com/renewed-with": anchor }));
            let spec = json!({
                "holderIdentity": holder, "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": renewed,
            });
            let metadata = json!({ "name": name, "annotations": annotations });
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
        };
        let (early, late) = ("2026-01-01T00:00:10.000000Z", "2026-01-01T00:00:57.000000Z");
        let member = |term: &str| lease("ensemble-tenant", "manager-1_a", early, Some(term));
        let state = |member: &Lease, holder: &str| {
            let leases = [member.clone(), lease("ensemble-podset", holder, late, None)];
            evaluate("x", "a/b", Some(member), &leases, "2026-01-01T00:01:00Z".parse().unwrap()).state
        };
        let named = member("ensemble-podset/2026-01-01T00:00:00Z");
        assert_eq!(state(&named, "manager-1_a"), State::Ok);
        assert_eq!(state(&named, "manager-2_b"), State::Error, "another replica holds the anchor");
        let before = member("ensemble-podset/2025-12-31T00:00:00Z");
        assert_eq!(state(&before, "manager-1_a"), State::Error, "the anchor has another term");
    }

    #[test]
    fn lease_without_holder_has_no_leader() {
        assert_eq!(
            finding(json!({ "holderIdentity": "", "renewTime": "2026-01-01T00:00:57.000000Z" })).0,
            State::Error
        );
        assert_eq!(finding(Value::Null).0, State::Error);
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert!(evaluate("x", "a/b", None, &[], now).message.contains("the Lease a/b does not exist"));
    }
}

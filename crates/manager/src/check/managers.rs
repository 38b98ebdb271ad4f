//! Check that a manager is ready, and that each controller has a leader among the ready managers.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};
use operator_core::error::chain;
use operator_runtime::{cleanup::manager_selector, election::lease_name};

use crate::Flags;

/// Returns what does not work.
pub(super) async fn failures(client: &Client, flags: &Flags) -> Vec<String> {
    let params = ListParams::default().labels(&manager_selector());
    let pods = Api::<Pod>::namespaced(client.clone(), &flags.namespace).list(&params).await;
    let ready = match ready_managers(&flags.namespace, pods.map(|pods| pods.items)) {
        Ok(ready) => ready,
        Err(failure) => return vec![failure],
    };
    let Some(election) = &flags.leader_election else { return Vec::new() };
    let leases = Api::<Lease>::namespaced(client.clone(), &election.namespace);
    let mut failures = Vec::new();
    for controller in &flags.controllers {
        let name = lease_name(controller.name);
        let failure = leader_failure(leases.get_opt(&name).await, &ready);
        failures.extend(failure.map(|cause| {
            format!(
                "controller {} has no leader: the Lease {}/{name} {cause}",
                controller.name, election.namespace
            )
        }));
    }
    failures
}

/// Returns the names of the Pods that are ready.
///
/// # Errors
/// Returns why there is none.
fn ready_managers(namespace: &str, pods: kube::Result<Vec<Pod>>) -> Result<Vec<String>, String> {
    let pods = pods.map_err(|error| {
        format!("cannot list the Pods of managers in namespace {namespace}: {}", chain(&error))
    })?;
    if pods.is_empty() {
        return Err(format!(
            "no manager runs in namespace {namespace}; check the replicas of its Deployment"
        ));
    }
    let ready: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).map(ResourceExt::name_any).collect();
    if ready.is_empty() {
        let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        let names = names.join(", ");
        return Err(format!("no manager is ready in namespace {namespace}; see the events of {names}"));
    }
    Ok(ready)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_true = conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    is_true && pod.metadata.deletion_timestamp.is_none()
}

/// Returns why a Lease is not held by a ready manager.
fn leader_failure(lease: kube::Result<Option<Lease>>, ready: &[String]) -> Option<String> {
    let lease = match lease {
        Ok(Some(lease)) => lease,
        Ok(None) => return Some("does not exist".to_owned()),
        Err(error) => return Some(format!("cannot be read: {}", chain(&error))),
    };
    let identity = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    if identity.is_empty() {
        return Some("has no holder".to_owned());
    }
    // The suffix of the identity is unique to each process of a Pod.
    let holder = identity.rsplit_once('_').map_or(&*identity, |(pod, _)| pod);
    (!ready.iter().any(|pod| pod == holder)).then(|| format!("is held by {holder}, which is not ready"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::check::testing::api_error;

    fn pod(name: &str, ready: &str, deleted: Option<&str>) -> Pod {
        from_value(json!({
            "metadata": { "name": name, "deletionTimestamp": deleted },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_that_terminates_is_not_ready() {
        let ready =
            [pod("a", "True", None), pod("a", "False", None), pod("a", "True", Some("2026-01-01T00:00:00Z"))];
        assert_eq!(ready.each_ref().map(is_ready), [true, false, false]);
        assert!(!is_ready(&Pod::default()));
    }

    #[test]
    fn names_pods_that_are_not_ready() {
        let managers = |pods: Vec<Pod>| ready_managers("a", Ok(pods));
        assert!(managers(Vec::new()).unwrap_err().contains("no manager runs in namespace a"));
        let (one, two) = (pod("one", "False", None), pod("two", "False", None));
        let message = managers(vec![one.clone(), two]).unwrap_err();
        assert!(message.ends_with("see the events of one, two"), "{message}");
        assert_eq!(managers(vec![one, pod("two", "True", None)]), Ok(vec!["two".to_owned()]));
    }

    #[test]
    fn names_the_missing_right() {
        let forbidden = || api_error(403, "pods is forbidden: User \"eve\" cannot list");
        let message = ready_managers("a", Err(forbidden())).unwrap_err();
        assert!(message.ends_with("managers in namespace a: pods is forbidden: User \"eve\" cannot list"));
        let message = leader_failure(Err(forbidden()), &[]).unwrap();
        assert!(message.starts_with("cannot be read: pods is forbidden"), "{message}");
    }

    #[test]
    fn leader_must_be_a_ready_manager() {
        let failure = |spec: Value| {
            let lease: Lease = from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
            leader_failure(Ok(Some(lease)), &["one".to_owned()])
        };
        assert_eq!(failure(json!({ "holderIdentity": "one_0123" })), None);
        let other = failure(json!({ "holderIdentity": "two_0123" }));
        assert_eq!(other.unwrap(), "is held by two, which is not ready");
        for spec in [json!({ "holderIdentity": "" }), json!({})] {
            assert_eq!(failure(spec).unwrap(), "has no holder");
        }
        assert_eq!(leader_failure(Ok(None), &[]).unwrap(), "does not exist");
    }
}

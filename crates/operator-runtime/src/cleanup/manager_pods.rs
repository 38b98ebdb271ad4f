//! Waiting for the Pods of managers to terminate.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams, core::ObjectMeta};
use operator_core::labels;
use tokio::time::sleep;
use tracing::info;

use super::error::advice;

/// Time between two list requests.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Field selector of Pods that have not terminated.
const NOT_TERMINATED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Error of [`wait_for_managers_to_stop`].
#[derive(Debug, thiserror::Error)]
pub enum ManagerPodsError {
    /// The Pods could not be listed.
    #[error("cannot list Pods of managers in namespace {namespace}{advice}")]
    List {
        /// Namespace of the Pods.
        namespace: String,
        /// Remedy, or empty.
        advice: &'static str,
        /// Response of the API server.
        source: kube::Error,
    },
    /// Pods run that are not being deleted.
    #[error(
        "cannot clean up: managers run in namespace {namespace} and would add finalizers again: {pods}; delete \
         their Deployment, and run the command again"
    )]
    Running {
        /// Namespace of the Pods.
        namespace: String,
        /// Names of the Pods.
        pods: String,
    },
    /// Pods are being deleted but have not terminated.
    #[error(
        "cannot clean up: managers are terminating in namespace {namespace} and may add finalizers again: {pods}; \
         if their node is gone, run `kubectl delete pod --force`; then run the command again"
    )]
    Terminating {
        /// Namespace of the Pods.
        namespace: String,
        /// Names of the Pods.
        pods: String,
    },
}

/// Returns the label selector of the Deployments and Pods of managers, which is also the selector
/// of the webhook Service.
pub fn manager_selector() -> String {
    let labels = labels::recommended("ensemble", "ensemble", "manager");
    let own = ["name", "component"].map(|key| format!("app.kubernetes.io/{key}"));
    let pairs = own.iter().filter_map(|key| Some(format!("{key}={}", labels.get(key)?)));
    pairs.collect::<Vec<_>>().join(",")
}

/// Waits until no Pod of a manager is left in the namespace, for at most `limit`.
///
/// A Pod that is being deleted counts until it is gone. A Pod that has succeeded or failed does not
/// count. A manager that runs outside a Pod is not detected.
///
/// # Errors
/// Returns an error with the names of the Pods and a remedy if Pods are left after `limit`, or if
/// the Pods cannot be listed.
pub async fn wait_for_managers_to_stop(
    client: &Client,
    namespace: &str,
    limit: Duration,
) -> Result<(), ManagerPodsError> {
    let started = Instant::now();
    let mut is_logged = false;
    loop {
        let pods = list(client, namespace).await?;
        if pods.is_empty() {
            return Ok(());
        }
        if started.elapsed() >= limit {
            return Err(timeout_error(namespace, &pods));
        }
        if !is_logged {
            is_logged = true;
            info!(%namespace, pods = names(&pods), wait = ?limit, "waiting for managers to stop");
        }
        sleep(POLL_INTERVAL.min(limit)).await;
    }
}

async fn list(client: &Client, namespace: &str) -> Result<Vec<ObjectMeta>, ManagerPodsError> {
    let params = ListParams::default().labels(&manager_selector()).fields(NOT_TERMINATED);
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list_metadata(&params).await;
    let pods = pods.map_err(|source| {
        let namespace = namespace.to_owned();
        ManagerPodsError::List { namespace, advice: advice(&source), source }
    })?;
    Ok(pods.into_iter().map(|pod| pod.metadata).collect())
}

fn timeout_error(namespace: &str, pods: &[ObjectMeta]) -> ManagerPodsError {
    let namespace = namespace.to_owned();
    let (terminating, running): (Vec<_>, Vec<_>) =
        pods.iter().cloned().partition(|pod| pod.deletion_timestamp.is_some());
    if running.is_empty() {
        ManagerPodsError::Terminating { namespace, pods: names(&terminating) }
    } else {
        ManagerPodsError::Running { namespace, pods: names(&running) }
    }
}

fn names(pods: &[ObjectMeta]) -> String {
    let names: Vec<_> = pods.iter().filter_map(|pod| pod.name.as_deref()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    fn pod(name: &str, is_deleted: bool) -> ObjectMeta {
        let deletion_timestamp = is_deleted.then_some(Time(Timestamp::UNIX_EPOCH));
        ObjectMeta { name: Some(name.to_owned()), deletion_timestamp, ..ObjectMeta::default() }
    }

    #[test]
    fn selects_managers_by_labels_of_webhook_service() {
        assert_eq!(manager_selector(), "app.kubernetes.io/name=ensemble,app.kubernetes.io/component=manager");
    }

    #[test]
    fn error_names_running_pods_before_terminating_pods() {
        let running = timeout_error("here", &[pod("a", true), pod("b", false)]).to_string();
        assert!(running.contains("add finalizers again: b; delete their Deployment"), "{running}");
        let terminating = timeout_error("here", &[pod("a", true), pod("c", true)]).to_string();
        assert!(terminating.contains("add finalizers again: a, c; if their node is gone"), "{terminating}");
    }
}

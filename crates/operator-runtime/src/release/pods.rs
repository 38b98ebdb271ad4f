//! The pods that managers run in.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams, core::ObjectMeta};
use operator_core::labels;
use tokio::time::sleep;
use tracing::info;

use super::error::advice;

/// How often it is looked whether a pod is still there.
const PACE: Duration = Duration::from_secs(1);
/// The pods that have not ended.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Why it is not known that no manager runs any more.
#[derive(Debug, thiserror::Error)]
pub enum Running {
    /// They could not be looked for.
    #[error("cannot list the pods of managers in the namespace {namespace}{advice}")]
    Unseen {
        /// The namespace.
        namespace: String,
        /// What a person can do.
        advice: &'static str,
        /// The API server's answer.
        source: kube::Error,
    },
    /// Nobody has deleted them.
    #[error(
        "managers still run in the namespace {namespace} and would put finalizers back: {pods}; delete their \
         Deployment, and do this again"
    )]
    Wanted {
        /// The namespace.
        namespace: String,
        /// Their names.
        pods: String,
    },
    /// They are deleted, and have not ended.
    #[error(
        "managers have not ended in the namespace {namespace} and may put finalizers back: {pods}; when their node \
         is gone, delete them with `kubectl delete pod --force`; do this again"
    )]
    Ending {
        /// The namespace.
        namespace: String,
        /// Their names.
        pods: String,
    },
}

/// Selects the Deployments and the pods of managers, as the Service of their webhooks does.
pub fn manager_selector() -> String {
    let labels = labels::recommended("ensemble", "ensemble", "manager");
    let own = ["name", "component"].map(|key| format!("app.kubernetes.io/{key}"));
    let pairs = own.iter().filter_map(|key| Some(format!("{key}={}", labels.get(key)?)));
    pairs.collect::<Vec<_>>().join(",")
}

/// Waits until no pod of a manager is left in the namespace, for as long as `patience`. A pod that was killed counts until
/// it is gone, and one that has ended does not. A manager that runs in no pod is not seen.
///
/// # Errors
/// When there are still some, with their names and what a person can do; and when they cannot be listed.
pub async fn until_no_manager_runs(
    client: &Client,
    namespace: &str,
    patience: Duration,
) -> Result<(), Running> {
    let began = Instant::now();
    let mut is_told = false;
    loop {
        let pods = running(client, namespace).await?;
        if pods.is_empty() {
            return Ok(());
        }
        if began.elapsed() >= patience {
            return Err(still(namespace, &pods));
        }
        if !is_told {
            is_told = true;
            info!(%namespace, pods = names(&pods), wait = ?patience, "waiting for managers to end");
        }
        sleep(PACE.min(patience)).await;
    }
}

async fn running(client: &Client, namespace: &str) -> Result<Vec<ObjectMeta>, Running> {
    let params = ListParams::default().labels(&manager_selector()).fields(NOT_ENDED);
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list_metadata(&params).await;
    let pods = pods.map_err(|source| {
        let namespace = namespace.to_owned();
        Running::Unseen { namespace, advice: advice(&source), source }
    })?;
    Ok(pods.into_iter().map(|pod| pod.metadata).collect())
}

fn still(namespace: &str, pods: &[ObjectMeta]) -> Running {
    let namespace = namespace.to_owned();
    let (deleted, wanted): (Vec<_>, Vec<_>) =
        pods.iter().cloned().partition(|pod| pod.deletion_timestamp.is_some());
    if wanted.is_empty() {
        Running::Ending { namespace, pods: names(&deleted) }
    } else {
        Running::Wanted { namespace, pods: names(&wanted) }
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

    fn pod(name: &str, deleted: bool) -> ObjectMeta {
        let deletion_timestamp = deleted.then_some(Time(Timestamp::UNIX_EPOCH));
        ObjectMeta { name: Some(name.to_owned()), deletion_timestamp, ..ObjectMeta::default() }
    }

    #[test]
    fn managers_are_found_by_the_labels_of_their_service() {
        assert_eq!(manager_selector(), "app.kubernetes.io/name=ensemble,app.kubernetes.io/component=manager");
    }

    #[test]
    fn what_to_do_depends_on_whether_they_are_deleted() {
        let wanted = still("here", &[pod("a", true), pod("b", false)]).to_string();
        assert!(wanted.contains("put finalizers back: b; delete their Deployment"), "{wanted}");
        let ending = still("here", &[pod("a", true), pod("c", true)]).to_string();
        assert!(ending.contains("put finalizers back: a, c; when their node is gone"), "{ending}");
    }
}

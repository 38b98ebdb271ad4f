//! Removal of everything that would block users of a cluster in which no manager runs any more.
//!
//! The steps run in this order, because each one is safe only after the previous one:
//!
//! 1. Delete the permissions that controllers granted to users, because admission restricts their
//!    use.
//! 2. Delete the webhook configurations and admission policies. Without a manager, the API server
//!    rejects the requests that the webhooks cover.
//! 3. Remove the finalizers of this project, so that deleted objects do not wait for a controller.
//!
//! Custom resources and the objects created for them stay. A missing object is not an error, so the
//! cleanup can be repeated, and several processes can run it at the same time. A running manager
//! adds the permissions and finalizers again. Other processes therefore call
//! [`wait_for_managers_to_stop`] first.

mod admission;
mod error;
mod finalizers;
mod leftovers;
mod manager_pods;
mod rbac;

use std::fmt;

pub use error::CleanupError;
use kube::Client;
pub use manager_pods::{ManagerPodsError, manager_selector, wait_for_managers_to_stop};
use operator_core::{Registration, informer::Scope};
pub use rbac::{admission_rules, cleanup_rules, namespace_rules, pod_rules};
use tracing::{info, warn};

/// Change that the cleanup made in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Deletion of an object.
    Deletion {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        object: String,
    },
    /// Removal of a finalizer from an object.
    FinalizerRemoval {
        /// Kind of the object.
        kind: String,
        /// `namespace/name`, or the name of a cluster-scoped object.
        object: String,
        /// Name of the finalizer.
        finalizer: &'static str,
    },
}

impl Change {
    fn log(&self) {
        match self {
            Self::Deletion { kind, object } => info!(%kind, %object, "deleted object"),
            Self::FinalizerRemoval { kind, object, finalizer } => {
                info!(%kind, %object, %finalizer, "removed finalizer");
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deletion { kind, object } => write!(f, "deleted {kind} {object}"),
            Self::FinalizerRemoval { kind, object, finalizer } => {
                write!(f, "removed finalizer {finalizer} from {kind} {object}")
            }
        }
    }
}

/// Outcome of a cleanup.
#[derive(Debug, Default)]
pub struct Report {
    /// Changes, in order.
    pub changes: Vec<Change>,
    /// Errors, each about one object or kind. The cleanup continues after an error.
    pub errors: Vec<CleanupError>,
}

impl Report {
    /// Logs and records the outcome of one step. `None` means that there was nothing to do.
    fn record(&mut self, outcome: Result<Option<Change>, CleanupError>) {
        match outcome {
            Ok(Some(change)) => {
                change.log();
                self.changes.push(change);
            }
            Ok(None) => {}
            Err(error) => {
                warn!(error = %operator_core::error::chain(&error), "cleanup step failed");
                self.errors.push(error);
            }
        }
    }
}

/// Runs all steps for these controllers within `scope`. Logs each change and each error.
///
/// The webhook configurations and admission policies stay if the permissions that they restrict
/// could not be deleted.
pub async fn clean_up(client: &Client, controllers: &[Registration], scope: &Scope) -> Report {
    let mut report = Report::default();
    delete_leftovers(client, controllers, &mut report).await;
    if report.errors.is_empty() {
        for controller in controllers {
            admission::delete_webhook_configurations(client, controller, &mut report).await;
        }
        delete_policies(client, controllers, &mut report).await;
    } else {
        report.record(Err(CleanupError::PermissionsRemain));
    }
    remove_finalizers(client, controllers, scope, &mut report).await;
    report
}

/// Deletes the cluster-scoped objects of the controllers that have no owner, such as the
/// permissions of Tenant owners.
pub async fn delete_leftovers(client: &Client, controllers: &[Registration], report: &mut Report) {
    for leftovers in controllers.iter().flat_map(|controller| (controller.leftovers)()) {
        leftovers::delete(client, &leftovers, report).await;
    }
}

/// Deletes the admission policies of the controllers and their bindings.
pub async fn delete_policies(client: &Client, controllers: &[Registration], report: &mut Report) {
    for controller in controllers {
        admission::delete_policies(client, controller, report).await;
    }
}

/// Removes the finalizers of the controllers from all objects within `scope`.
pub async fn remove_finalizers(
    client: &Client,
    controllers: &[Registration],
    scope: &Scope,
    report: &mut Report,
) {
    for owned in controllers.iter().filter_map(|controller| (controller.owned_finalizer)()) {
        for namespace in scope.watched_namespaces(owned.namespaced) {
            finalizers::remove_all(client, &owned, namespace.as_deref(), report).await;
        }
    }
}

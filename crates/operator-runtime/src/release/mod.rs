//! Letting go of a cluster: what would be in people's way if no manager ran there any more is taken away.
//!
//! In this order, for each step is safe only after those before it:
//!
//! 1. What controllers granted to people in the cluster, trusting that admission watches over the use of it.
//! 2. The webhook configurations and admission policies. Without a manager the former refuse whatever they ask about.
//! 3. The finalizers, of ours only: whoever deletes an object then need not wait for a controller.
//!
//! Nothing else is touched: objects, and what was made for them, stay until somebody deletes them. What is not there is
//! no error, so all of it can be done again and by several processes at once. A manager that runs meanwhile puts back
//! the grants and the finalizers of objects that are not being deleted, so whoever is not that manager waits for
//! [`until_no_manager_runs`].

mod error;
mod finalizers;
mod leftovers;
mod named;
mod pods;
mod rules;

use std::fmt;

pub use error::ReleaseError;
use kube::Client;
use operator_core::{Registration, informer::Scope};
pub use pods::{Running, manager_selector, until_no_manager_runs};
pub use rules::{cluster_rules, pod_rules, release_rules, rules};
use tracing::{info, warn};

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// An object was deleted.
    Deleted {
        /// Its kind.
        kind: String,
        /// Its name.
        object: String,
    },
    /// A finalizer was taken off an object.
    Released {
        /// The object's kind.
        kind: String,
        /// `namespace/name`, or the name of an object in no namespace.
        object: String,
        /// The finalizer.
        finalizer: &'static str,
    },
}

impl Done {
    fn log(&self) {
        match self {
            Self::Deleted { kind, object } => info!(%kind, %object, "deleted"),
            Self::Released { kind, object, finalizer } => {
                info!(%kind, %object, %finalizer, "the finalizer is taken off");
            }
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted { kind, object } => write!(f, "deleted {kind} {object}"),
            Self::Released { kind, object, finalizer } => {
                write!(f, "took the finalizer {finalizer} off {kind} {object}")
            }
        }
    }
}

/// What was done, and what was not.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order in which it was done.
    pub done: Vec<Done>,
    /// Each is about one object or kind; the others were gone on with.
    pub failed: Vec<ReleaseError>,
}

impl Report {
    /// Notes the outcome of one step; a step that found nothing to do is none.
    fn note(&mut self, outcome: Result<Option<Done>, ReleaseError>) {
        match outcome {
            Ok(Some(done)) => {
                done.log();
                self.done.push(done);
            }
            Ok(None) => {}
            Err(error) => {
                warn!(error = %operator_core::error::chain(&error), "something is not let go of");
                self.failed.push(error);
            }
        }
    }
}

/// Lets go of all that the controllers hold within `scope`. Every step is logged when it is done.
pub async fn release(client: &Client, controllers: &[Registration], scope: &Scope) -> Report {
    let mut report = Report::default();
    leftovers(client, controllers, &mut report).await;
    if report.failed.is_empty() {
        for controller in controllers {
            named::configurations(client, controller, &mut report).await;
        }
        policies(client, controllers, &mut report).await;
    } else {
        report.note(Err(ReleaseError::Unwatched));
    }
    finalizers(client, controllers, scope, &mut report).await;
    report
}

/// Deletes what the controllers granted to people in the cluster.
pub async fn leftovers(client: &Client, controllers: &[Registration], report: &mut Report) {
    for leftovers in controllers.iter().flat_map(|controller| (controller.leftovers)()) {
        leftovers::delete(client, &leftovers, report).await;
    }
}

/// Deletes the controllers' admission policies.
pub async fn policies(client: &Client, controllers: &[Registration], report: &mut Report) {
    for controller in controllers {
        named::policies(client, controller, report).await;
    }
}

/// Takes the controllers' finalizers off all objects within `scope`.
pub async fn finalizers(client: &Client, controllers: &[Registration], scope: &Scope, report: &mut Report) {
    for held in controllers.iter().filter_map(|controller| (controller.owned_finalizer)()) {
        for limit in scope.limits(held.namespaced) {
            finalizers::take_off(client, &held, limit.as_deref(), report).await;
        }
    }
}

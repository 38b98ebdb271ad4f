//! Leader election: of several replicas one runs each controller.
//!
//! ```text
//! board ----- hints ----> machine (pure: what may be done when) <---- answers ---- elector ----> Lease
//! (one watch a process)                                                              |
//!                                          fence (every write looks at it) <---------+---> Leadership (the supervisor)
//! ```
//!
//! # Guarantees
//! - At most one replica leads a controller at any instant, whoever is killed, frozen or cut off, whatever is deleted or
//!   edited by hand, and however wrong clocks are, as long as they run at about the same speed: see [`Timing::checked`].
//! - One that cannot renew its Lease stops by itself before others may begin.
//! - A clean stop hands over at once.
//! - A process that sees by its Leases that the API server was restored from a backup ends, to be started anew.
//!
//! # Not guaranteed
//! That a write which was on its way when a network failed does not arrive late. Names, owners and preconditions guard
//! every write for that. And somebody who forges the mark of a clean stop, or puts an unused Lease in the place of one
//! that is held, hands leadership over without asking the leader.

mod board;
mod elector;
mod lease;
mod machine;
mod timing;
mod trouble;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use operator_core::{
    fence::Fence,
    metrics::Metrics,
    rbac::{CREATE, GET, LIST, Rule, UPDATE, WATCH, rule},
};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use board::Board;
use elector::{Elector, Process};
pub use lease::{name as lease_name, unused as unused_lease};
pub use timing::{LONGEST, Timing, TimingError};

/// How long a Lease may take to be given back; one that is not ends by itself.
const RELEASE: Duration = Duration::from_secs(1);

/// What a manager needs in the namespace of its Leases. `leases` are the names of those that it may change.
pub fn rules<'a>(leases: impl IntoIterator<Item = &'a str>) -> Vec<Rule> {
    vec![rule::<Lease>(LIST | WATCH | CREATE), rule::<Lease>(GET | UPDATE).named(leases)]
}

/// The elections of a process.
pub struct Election {
    process: Process,
    board: watch::Receiver<Board>,
    _watch: AbortOnDropHandle<()>,
}

impl Election {
    /// Begins to watch the Leases of a namespace. `client` must not retry by itself, and must not wait for others'
    /// requests; `instance` is what people know this process by. Must be called within a Tokio runtime.
    pub fn new(
        client: Client,
        namespace: &str,
        instance: &str,
        timing: Timing,
        metrics: Arc<dyn Metrics>,
    ) -> Self {
        let api = Api::namespaced(client, namespace);
        let (board, heard) = watch::channel(Board::default());
        let watch = tokio::spawn(board::follow(api.clone(), board));
        let process = Process {
            api,
            namespace: namespace.to_owned(),
            identity: identity(instance),
            timing,
            leads: Arc::new(AtomicUsize::new(0)),
            metrics,
        };
        Self { process, board: heard, _watch: AbortOnDropHandle::new(watch) }
    }

    /// This process's name among the holders.
    pub fn identity(&self) -> &str {
        &self.process.identity
    }

    /// Stands for a controller. The fence is open exactly while this process leads it.
    pub fn campaign(&self, controller: &'static str, fence: Fence) -> Leadership {
        let (leads, told) = watch::channel(false);
        let (resign, resigned) = oneshot::channel();
        self.process.metrics.leading(controller, false);
        let elector = Elector::new(self.process.clone(), controller, self.board.clone(), fence, leads);
        let task = AbortOnDropHandle::new(tokio::spawn(elector.run(resigned)));
        Leadership { leads: told, candidate: Some((resign, task)) }
    }
}

/// Whether this process leads a controller. Ends, without giving the Lease back, when dropped.
pub struct Leadership {
    leads: watch::Receiver<bool>,
    candidate: Option<(oneshot::Sender<()>, AbortOnDropHandle<()>)>,
}

impl Leadership {
    #[cfg(test)]
    pub(crate) fn told(leads: watch::Receiver<bool>) -> Self {
        let (resign, _) = oneshot::channel();
        let task = AbortOnDropHandle::new(tokio::spawn(async {}));
        Self { leads, candidate: Some((resign, task)) }
    }

    /// The leadership of a process that does not share its controllers.
    pub fn undivided() -> Self {
        Self { leads: watch::channel(true).1, candidate: None }
    }

    /// Waits until this process leads.
    ///
    /// # Errors
    /// When the candidate has ended: because the API server has gone back in time, or by a bug.
    pub async fn gained(&mut self) -> Result<()> {
        self.leads
            .wait_for(|leads| *leads)
            .await
            .context("the election ended by itself; see what it has said before")?;
        Ok(())
    }

    /// Waits until this process leads no more.
    pub async fn lost(&mut self) {
        if self.candidate.is_none() {
            return std::future::pending().await;
        }
        // An error means that the candidate has ended, and leads no more.
        let _ = self.leads.wait_for(|leads| !*leads).await;
    }

    /// Gives the Lease back. Only to be called when the controller has stopped and none of its writes is on its way: the
    /// next leader begins at once.
    pub async fn resign(mut self) {
        if let Some((resign, task)) = self.candidate.take() {
            let _ = resign.send(());
            let _ = timeout(RELEASE, task).await;
        }
    }
}

/// No two processes share one, not even two lives of a pod.
fn identity(instance: &str) -> String {
    format!("{instance}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_name_of_its_own() {
        assert!(identity("pod-1").starts_with("pod-1_"));
        assert_ne!(identity("pod-1"), identity("pod-1"));
    }

    #[test]
    fn only_its_own_leases_may_be_changed() {
        let policies: Vec<_> = rules(["ensemble-podset"]).into_iter().map(Rule::into_policy).collect();
        for policy in policies {
            let changes = policy.verbs.iter().any(|verb| verb == "update");
            assert_eq!(changes, policy.resource_names.is_some(), "{policy:?}");
        }
    }
}

//! Leader election: of several replicas, one runs each controller.
//!
//! ```text
//! lease_cache -- hints --> machine (crate lease, pure) <-- responses -- elector --> Lease
//! (one watch a process)                                                    |
//!                               fence (checked before every write) <-------+---> Leadership (supervisor)
//! ```
//! A process renews one of the Leases that it holds. The others name it as their anchor, and are
//! renewed with it: see [`SharedRenewal`].
//!
//! # Guarantees
//! - At most one replica leads a controller at any instant. This holds if processes are killed,
//!   frozen, or partitioned, if Leases are deleted or edited, and if clocks are wrong, as long as
//!   clocks run at about the same speed: see [`Timing::new`].
//! - A leader that cannot renew its Lease stops before another replica can start.
//! - A clean stop hands over immediately.
//! - A process exits if the resource versions of its Leases show that etcd was restored from a
//!   backup.
//!
//! # Not guaranteed
//! A write that was in flight when the network failed can still arrive late. Names, owner
//! references, and preconditions protect against that. Whoever forges the annotation of a clean
//! stop, or replaces a held Lease with an unused one, moves leadership without the leader's
//! consent.

mod controller_lease;
mod elector;
mod lease_cache;
mod outage_log;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use lease::SharedRenewal;
pub use lease::{MAX_LEASE_DURATION, Timing, TimingError};
use operator_core::{
    fence::Fence,
    metrics::Metrics,
    rbac::{CREATE, GET, LIST, Rule, UPDATE, WATCH, rule},
    watch_connection::watch_client,
};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

pub use controller_lease::{name as lease_name, unused as unused_lease};
use elector::{Elector, Process};
use lease_cache::LeaseCache;

/// Timeout of the release of a Lease. A Lease that is not released expires.
const RELEASE: Duration = Duration::from_secs(1);

/// Returns the RBAC rules in the namespace of the Leases. `leases` are the names that the manager
/// may update.
pub fn rules<'a>(leases: impl IntoIterator<Item = &'a str>) -> Vec<Rule> {
    // The anchor of a Lease can belong to another Deployment. `get` shows nothing that `list` does not.
    vec![rule::<Lease>(GET | LIST | WATCH | CREATE), rule::<Lease>(UPDATE).named(leases)]
}

/// Leader elections of a process.
pub struct Election {
    process: Process,
    cache: watch::Receiver<LeaseCache>,
    _watch: AbortOnDropHandle<()>,
}

impl Election {
    /// Starts to watch the Leases of a namespace.
    ///
    /// `client` must not retry requests and must not share a limit of requests in flight.
    /// `instance` identifies the process, for example the name of its Pod. Must be called
    /// within a Tokio runtime.
    pub fn new(
        client: Client,
        namespace: &str,
        instance: &str,
        timing: Timing,
        metrics: Arc<dyn Metrics>,
    ) -> Self {
        let (sender, cache) = watch::channel(LeaseCache::default());
        let watched = Api::namespaced(watch_client(&client), namespace);
        let watch = tokio::spawn(lease_cache::run(watched, sender));
        let api = Api::namespaced(client, namespace);
        let process = Process {
            api,
            namespace: namespace.to_owned(),
            identity: identity(instance),
            timing,
            leads: Arc::new(AtomicUsize::new(0)),
            renewal: watch::Sender::new(SharedRenewal::default()),
            metrics,
        };
        Self { process, cache, _watch: AbortOnDropHandle::new(watch) }
    }

    /// Returns the value of `holderIdentity` for this process.
    pub fn identity(&self) -> &str {
        &self.process.identity
    }

    /// Becomes a candidate for a controller. The fence is open exactly while this process leads the
    /// controller.
    pub fn campaign(&self, controller: &'static str, fence: Fence) -> Leadership {
        let (leads, leads_receiver) = watch::channel(false);
        let (resign, resigned) = oneshot::channel();
        self.process.metrics.leading(controller, false);
        let elector = Elector::new(self.process.clone(), controller, self.cache.clone(), fence, leads);
        let task = AbortOnDropHandle::new(tokio::spawn(elector.run(resigned)));
        Leadership { leads: leads_receiver, candidate: Some((resign, task)) }
    }
}

/// Leadership of one controller. Dropping it ends the candidacy without releasing the Lease.
pub struct Leadership {
    leads: watch::Receiver<bool>,
    candidate: Option<(oneshot::Sender<()>, AbortOnDropHandle<()>)>,
}

impl Leadership {
    #[cfg(test)]
    pub(crate) fn from_channel(leads: watch::Receiver<bool>) -> Self {
        let (resign, _) = oneshot::channel();
        let task = AbortOnDropHandle::new(tokio::spawn(async {}));
        Self { leads, candidate: Some((resign, task)) }
    }

    /// Returns the permanent leadership of a process that runs without election.
    pub fn always() -> Self {
        Self { leads: watch::channel(true).1, candidate: None }
    }

    /// Waits until this process leads.
    ///
    /// # Errors
    /// Returns an error if the candidate ended, because resource versions went backwards or because
    /// of a bug.
    pub async fn gained(&mut self) -> Result<()> {
        self.leads.wait_for(|leads| *leads).await.context("the leader election ended; see the log")?;
        Ok(())
    }

    /// Waits until this process no longer leads.
    pub async fn lost(&mut self) {
        if self.candidate.is_none() {
            return std::future::pending().await;
        }
        // An error means that the candidate ended, and therefore no longer leads.
        let _ = self.leads.wait_for(|leads| !*leads).await;
    }

    /// Releases the Lease, so that the next leader starts immediately. Call it only after the
    /// controller stopped and none of its writes is in flight.
    pub async fn resign(mut self) {
        if let Some((resign, task)) = self.candidate.take() {
            let _ = resign.send(());
            let _ = timeout(RELEASE, task).await;
        }
    }
}

/// Returns an identity that is unique to this process, even after a restart in the same Pod.
fn identity(instance: &str) -> String {
    format!("{instance}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_unique_per_process() {
        assert!(identity("pod-1").starts_with("pod-1_"));
        assert_ne!(identity("pod-1"), identity("pod-1"));
    }

    #[test]
    fn rules_allow_only_own_leases() {
        let policies: Vec<_> = rules(["ensemble-podset"]).into_iter().map(Rule::into_policy).collect();
        for policy in policies {
            let changes = policy.verbs.iter().any(|verb| verb == "update");
            assert_eq!(changes, policy.resource_names.is_some(), "{policy:?}");
        }
    }
}

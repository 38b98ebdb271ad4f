//! The cluster that all runs share, and what is done there by hand.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use cluster::{Cluster, Options, wait::eventually};
use kube::{
    Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    kinds::{MEMCACHED, NAMESPACE_PLUS, POD, POD_SET, TENANT},
    observe::Observer,
    token::Token,
    workload::{Goal, HOME, Place, Step},
};

/// Where the manager lives.
pub const NAMESPACE_OF_MANAGER: &str = "ensemble-system";
/// As whom it runs.
pub const ACCOUNT: &str = "ensemble-manager";

/// How soon to try again what the API server did not answer.
const AGAIN: Duration = Duration::from_millis(100);

/// The cluster that all runs share.
pub struct Stage {
    /// The control plane.
    pub cluster: Cluster,
    /// The administrator, directly at the API server.
    pub client: Client,
    /// What really happens.
    pub observer: Observer,
    /// The manager's program.
    pub program: PathBuf,
    /// How much longer than usual everything may take.
    pub patience: Duration,
    next: AtomicU32,
}

impl Stage {
    /// Starts a cluster with the definitions and the rights of `deploy`.
    pub async fn start(program: &Path, patience: Duration) -> Result<Self> {
        let cluster = Cluster::start(Options::default()).await?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let definitions = root.join("deploy/crds").display().to_string();
        let rights = root.join("deploy/rbac").display().to_string();
        cluster.kubectl(&["apply", "--server-side", "-f", &definitions, "-f", &rights]).await?;
        cluster.kubectl(&["wait", "--for=condition=Established", "-f", &definitions]).await?;
        cluster.kubectl(&["create", "namespace", HOME]).await?;
        let accounts = ["get", "serviceaccount", "default", "--namespace", HOME];
        eventually("a ServiceAccount for pods", patience, async || {
            cluster.kubectl(&accounts).await.map(|_| true)
        })
        .await?;
        let client = cluster.client().await?;
        let observer = Observer::follow(&client);
        let next = AtomicU32::new(1);
        Ok(Self { cluster, client, observer, program: program.to_owned(), patience, next })
    }

    /// A name that no run has had.
    pub fn token(&self) -> Token {
        Token::nth(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes some steps of a run, with so much time for each.
    pub async fn take(&self, token: Token, steps: Vec<Step>, patience: Duration) -> Result<()> {
        for step in steps {
            let what = format!("{step:?}");
            self.persist(token, step, patience).await.with_context(|| what)?;
        }
        Ok(())
    }

    /// Takes a step, again while the API server is away.
    async fn persist(&self, token: Token, step: Step, patience: Duration) -> Result<()> {
        let began = Instant::now();
        let mut is_again = false;
        loop {
            match self.step(token, step.clone(), patience).await {
                Err(error) if is_passing(&error) && began.elapsed() < patience => is_again = true,
                // The first time it was done, and nobody said so.
                Err(error) if is_again && code(&error) == Some(409) => return Ok(()),
                result => return result,
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn step(&self, token: Token, step: Step, patience: Duration) -> Result<()> {
        match step {
            Step::Create(object) => self.create(object).await,
            Step::Join { tenant, namespace } => {
                let tenant = TENANT.everywhere(self.client.clone()).get(&tenant).await?;
                let owner = json!({
                    "apiVersion": TENANT.api_version(), "kind": TENANT.singular,
                    "name": tenant.metadata.name, "uid": tenant.metadata.uid,
                });
                let labels = json!({ "capsule.clastix.io/tenant": tenant.metadata.name });
                let metadata = json!({ "name": namespace, "labels": labels, "ownerReferences": [owner] });
                self.create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).await
            }
            Step::Change(place, patch) => {
                let api = place.kind.within(self.client.clone(), &place.namespace);
                api.patch(&place.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                Ok(())
            }
            Step::Delete(place) => self.delete(&place).await,
            Step::Until(goal) => self.until(token, &[goal], patience).await,
            Step::Pause(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    async fn create(&self, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("an object has a kind")?;
        let kinds = crate::kinds::OBSERVED.into_iter();
        let kind = kinds.into_iter().find(|kind| kind.singular == types.kind);
        let kind = kind.with_context(|| format!("the kind {} is known", types.kind))?;
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        kind.within(self.client.clone(), &namespace).create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn delete(&self, place: &Place) -> Result<()> {
        self.delete_by(place, &DeleteParams::background()).await
    }

    async fn delete_by(&self, place: &Place, how: &DeleteParams) -> Result<()> {
        let api = place.kind.within(self.client.clone(), &place.namespace);
        match api.delete(&place.name, how).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop).map_err(Into::into),
        }
    }

    /// Waits until all goals of a run are reached at once.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn until(&self, token: Token, goals: &[Goal], patience: Duration) -> Result<()> {
        let mut moment = self.observer.moment();
        let reached = async {
            loop {
                moment.borrow_and_update();
                let state = self.observer.state(token);
                if goals.iter().all(|goal| goal.is_reached(&state)) {
                    return;
                }
                if moment.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(patience, reached).await.is_err() {
            let state = self.observer.state(token);
            let missed = goals.iter().find(|goal| !goal.is_reached(&state));
            anyhow::bail!("waited {patience:?} in vain for {missed:?}; there are {:?}", state.keys());
        }
        Ok(())
    }

    /// Takes away what a run has left, without waiting for it. Namespaces stay: to delete one takes Kubernetes more than a
    /// hundred requests, and those of the runs would wait for all before them.
    pub async fn clear(&self, token: Token) {
        let state = self.observer.state(token);
        for kind in [&POD_SET, &MEMCACHED, &NAMESPACE_PLUS, &TENANT] {
            for id in state.keys().filter(|id| id.kind == kind.singular) {
                let place = Place::within(kind, &id.namespace, &id.name);
                let how = if *kind == TENANT { DeleteParams::orphan() } else { DeleteParams::background() };
                // What has gone by itself is as well.
                let _ = self.delete_by(&place, &how).await;
            }
        }
        for (id, object) in state.iter().filter(|(id, _)| id.kind == POD.singular) {
            if object.pointer("/metadata/ownerReferences").is_none() {
                let _ = self.delete(&Place::within(&POD, &id.namespace, &id.name)).await;
            }
        }
    }
}

/// The status of an answer, if there was one.
fn code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref()? {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether the API server is away, or not wholly there.
fn is_passing(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
        other => other.is_some(),
    }
}

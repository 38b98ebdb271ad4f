//! The cluster that all runs share, with an admin client.

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
    kinds::{
        GLOBAL_TENANT_RESOURCE, MEMCACHED, NAMESPACE_PLUS, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD,
        POD_SET, POSTGRES_CLUSTER, TENANT, TENANT_RESOURCE,
    },
    members::Members,
    observer::Observer,
    token::Token,
    workload::{Goal, HOME, ObjectRef, Step},
};

/// Delay before a failed request is retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The cluster that all runs share.
pub struct TestCluster {
    /// The control plane.
    pub cluster: Cluster,
    /// Admin client that bypasses the proxy.
    pub client: Client,
    /// Observer that bypasses the proxy.
    pub observer: Observer,
    /// The members of PostgresClusters.
    pub members: Members,
    /// Path of the manager.
    pub program: PathBuf,
    /// Additional time for all timeouts.
    pub patience: Duration,
    next: AtomicU32,
}

impl TestCluster {
    /// Starts a cluster with the CRDs and RBAC of `deploy`.
    pub async fn start(program: &Path, patience: Duration) -> Result<Self> {
        let cluster = Cluster::start(Options::default()).await?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let definitions = root.join("deploy/crds").display().to_string();
        let rights = root.join("deploy/rbac").display().to_string();
        cluster.kubectl(&["apply", "--server-side", "-f", &definitions, "-f", &rights]).await?;
        cluster.kubectl(&["wait", "--for=condition=Established", "-f", &definitions]).await?;
        cluster.kubectl(&["create", "namespace", HOME]).await?;
        let accounts = ["get", "serviceaccount", "default", "--namespace", HOME];
        eventually("the default ServiceAccount", patience, async || {
            cluster.kubectl(&accounts).await.map(|_| true)
        })
        .await?;
        let client = cluster.client().await?;
        let observer = Observer::follow(&client);
        let members = Members::start(&cluster, &client).await?;
        let next = AtomicU32::new(1);
        Ok(Self { cluster, client, observer, members, program: program.to_owned(), patience, next })
    }

    /// Returns a new token.
    pub fn token(&self) -> Token {
        Token::nth(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Executes steps of a run, with a timeout for each.
    pub async fn take(&self, token: Token, steps: Vec<Step>, patience: Duration) -> Result<()> {
        for step in steps {
            let what = format!("{step:?}");
            self.step_with_retries(token, step, patience).await.with_context(|| what)?;
        }
        Ok(())
    }

    /// Executes a step, and retries while the API server is unavailable.
    async fn step_with_retries(&self, token: Token, step: Step, patience: Duration) -> Result<()> {
        let began = Instant::now();
        let mut is_again = false;
        loop {
            match self.step(token, step.clone(), patience).await {
                Err(error) if is_passing(&error) && began.elapsed() < patience => is_again = true,
                // An earlier attempt succeeded without a response.
                Err(error) if is_again && code(&error) == Some(409) => return Ok(()),
                result => return result,
            }
            tokio::time::sleep(RETRY_DELAY).await;
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
                let changed = api.patch(&place.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                self.until_observed(token, &place, patience, |object| !is_older(object, &changed)).await
            }
            Step::Delete(place) => {
                let uid = |object: &Value| object.pointer("/metadata/uid").cloned();
                let before = place.find(&self.observer.state(token)).and_then(uid);
                self.delete(&place).await?;
                self.until_observed(token, &place, patience, |object| {
                    object.pointer("/metadata/deletionTimestamp").is_some() || uid(object) != before
                })
                .await
            }
            Step::Until(goal) => self.until(token, &[goal], patience).await,
            Step::Pause(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    /// Waits until the observer knows the effect of a step, or that the object is gone. Otherwise the
    /// goals of a workload could be reached by the state before the step.
    async fn until_observed(
        &self,
        token: Token,
        place: &ObjectRef,
        patience: Duration,
        has_effect: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let is_known = || place.find(&self.observer.state(token)).is_none_or(&has_effect);
        self.when(patience, is_known).await.then_some(()).with_context(|| {
            format!("timed out after {patience:?} waiting until the change of {place:?} is observed")
        })
    }

    async fn create(&self, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("the object has no kind")?;
        let kinds = crate::kinds::OBSERVED.into_iter();
        let kind = kinds.into_iter().find(|kind| kind.singular == types.kind);
        let kind = kind.with_context(|| format!("the kind {} is not known", types.kind))?;
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        kind.within(self.client.clone(), &namespace).create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn delete(&self, place: &ObjectRef) -> Result<()> {
        self.delete_by(place, &DeleteParams::background()).await
    }

    async fn delete_by(&self, place: &ObjectRef, how: &DeleteParams) -> Result<()> {
        let api = place.kind.within(self.client.clone(), &place.namespace);
        match api.delete(&place.name, how).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop).map_err(Into::into),
        }
    }

    /// Waits until all goals of a run are reached at once.
    ///
    /// # Errors
    /// Returns an error on timeout.
    pub async fn until(&self, token: Token, goals: &[Goal], patience: Duration) -> Result<()> {
        let is_reached = || {
            let state = self.observer.state(token);
            goals.iter().all(|goal| goal.is_reached(&state))
        };
        if !self.when(patience, is_reached).await {
            let state = self.observer.state(token);
            let difference = goals.iter().find(|goal| !goal.is_reached(&state));
            anyhow::bail!(
                "timed out after {patience:?} waiting for {difference:?}; existing objects: {:?}",
                state.keys()
            );
        }
        Ok(())
    }

    /// Waits until a condition on the observed state holds. Returns whether it did in time.
    async fn when(&self, patience: Duration, condition: impl Fn() -> bool) -> bool {
        let mut moment = self.observer.moment();
        let holds = async {
            loop {
                moment.borrow_and_update();
                if condition() || moment.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(patience, holds).await.is_ok()
    }

    /// Deletes the objects of a run without waiting. Namespaces stay, because deleting one takes
    /// more than a hundred requests, which would delay other runs.
    pub async fn clear(&self, token: Token) {
        let state = self.observer.state(token);
        let kinds = [
            &POD_SET,
            &MEMCACHED,
            &NAMESPACE_PLUS,
            &TENANT_RESOURCE,
            &GLOBAL_TENANT_RESOURCE,
            &TENANT,
            &POSTGRES_CLUSTER,
            &PERSISTENT_VOLUME_CLAIM,
            &PERSISTENT_VOLUME,
        ];
        for kind in kinds {
            for id in state.keys().filter(|id| id.kind == kind.singular) {
                let place = ObjectRef::within(kind, &id.namespace, &id.name);
                let how = if *kind == TENANT { DeleteParams::orphan() } else { DeleteParams::background() };
                // The object may be deleted already.
                let _ = self.delete_by(&place, &how).await;
            }
        }
        for (id, object) in state.iter().filter(|(id, _)| id.kind == POD.singular) {
            if object.pointer("/metadata/ownerReferences").is_none() {
                let _ = self.delete(&ObjectRef::within(&POD, &id.namespace, &id.name)).await;
            }
        }
    }
}

/// Returns whether the observed object is from before the change of the same object.
fn is_older(observed: &Value, changed: &DynamicObject) -> bool {
    let version = |version: Option<&str>| version.and_then(|version| version.parse::<u64>().ok());
    let text = |pointer: &str| observed.pointer(pointer).and_then(Value::as_str);
    text("/metadata/uid") == changed.metadata.uid.as_deref()
        && version(text("/metadata/resourceVersion")) < version(changed.metadata.resource_version.as_deref())
}

/// Returns the status code of an error response.
fn code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref()? {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Returns whether the API server is unavailable.
fn is_passing(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
        other => other.is_some(),
    }
}

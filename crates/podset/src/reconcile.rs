//! The PodSet controller.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::{
    api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{Client, Resource, ResourceExt};
use operator_core::{
    Controller, ControllerBuilder, ObjectKey, Outcome, Setting, Values,
    events::Events,
    owner::Owner,
    pod::PodView,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    writer::DeletePrecondition,
};

use crate::{
    adoption::{can_adopt, claim_pods},
    api::PodSet,
    error::{Error, is_rejected},
    pending_deletions::PendingDeletions,
    plan::{Plan, needs_live_list, plan},
    pod_cache::{CachedPod, PodCache, list_live_uids},
    pod_template,
    progress::PodCounts,
    reasons, schema,
    status::status,
};

/// Image of the default container.
pub const IMAGE: Setting = Setting {
    flag: "podset-image",
    env: "PODSET_IMAGE",
    default: "quay.io/amacdona/strauss",
    values: Values::Any,
    help: "Image of the Pods of a PodSet without a template",
};

/// Controller of PodSets.
pub struct PodSetController {
    client: Client,
    pods: PodCache,
    pending_deletions: PendingDeletions,
    status: StatusWriter<PodSet>,
    events: Events,
    image: String,
}

impl Controller for PodSetController {
    const NAME: &'static str = "podset";
    type Object = PodSet;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        vec![
            rule::<PodSet>(GET | LIST | WATCH),
            rule::<PodSet>(UPDATE).subresource("status"),
            rule::<PodSet>(UPDATE).subresource("finalizers"),
            rule::<Pod>(LIST | WATCH | CREATE | PATCH | DELETE),
        ]
    }

    fn crds() -> Vec<CustomResourceDefinition> {
        vec![schema::crd()]
    }

    fn settings() -> &'static [Setting] {
        &[IMAGE]
    }

    fn build(builder: &mut ControllerBuilder<'_, PodSet>) -> Self {
        Self {
            client: builder.client(),
            pods: PodCache::build(builder),
            pending_deletions: PendingDeletions::default(),
            status: builder.status(),
            events: builder.events(),
            image: builder.setting(&IMAGE),
        }
    }

    async fn reconcile(&self, set: Arc<PodSet>) -> Result<Outcome, Error> {
        let (pods, error) = match self.manage_replicas(&set).await {
            Ok(pods) => (pods, None),
            Err(error) if error.is_from_terminating_namespace() => return Ok(Outcome::AwaitChange),
            Err(error) => (self.owned(&set), Some(error)),
        };
        let outcome = self.update_status(&set, &pods, error.as_ref()).await;
        error.map_or(outcome, Err)
    }
}

impl PodSetController {
    /// Adopts, releases, deletes, and creates Pods until the PodSet has the desired number. Returns the Pods that it
    /// owns, without those whose deletion was accepted.
    async fn manage_replicas(&self, set: &PodSet) -> Result<Vec<CachedPod>, Error> {
        let owner = Owner::controller(set, set.metadata.namespace.as_deref())?;
        let pods = claim_pods(&self.client, &self.pods, set, &owner).await?;
        let (pods, plan) = self.plan(set, pods).await?;
        if plan.delete.is_empty() && plan.create.is_empty() {
            return Ok(pods);
        }
        self.pending_deletions.expect_deletions(set, &plan.delete, |other| self.pods.owns_pods(other));
        let deleted = join_all(plan.delete.iter().map(|pod| self.delete_pod(set, pod))).await;
        self.record_results(set, reasons::SUCCESSFUL_DELETE, deleted)?;
        if !plan.create.is_empty() {
            self.create_pods(set, &owner, plan.create).await?;
        }
        Ok(self.owned(set))
    }

    /// Creates Pods with these names. The first one is created alone, because what rejects one Pod usually rejects
    /// all.
    async fn create_pods(&self, set: &PodSet, owner: &Owner, names: Vec<String>) -> Result<(), Error> {
        // The missing Pods may have been deleted with the PodSet, which a stale cache still shows.
        if had_all_replicas(set) && !can_adopt(&self.client, set).await.map_err(Error::Create)? {
            return Ok(());
        }
        let template = pod_template::template(set, &self.image)?;
        let mut pods =
            names.into_iter().map(|name| pod_template::pod_from_template(set, owner, name, &template));
        let mut created = Vec::new();
        if let Some(first) = pods.next() {
            created.push(self.create_pod(first).await);
        }
        if created.iter().all(Result::is_ok) {
            created.extend(join_all(pods.map(|pod| self.create_pod(pod))).await);
        }
        self.record_results(set, reasons::SUCCESSFUL_CREATE, created)
    }

    /// Returns the Pods that the PodSet owns, without those whose deletion was accepted.
    fn owned(&self, set: &PodSet) -> Vec<CachedPod> {
        self.pending_deletions.sync_with_cache(set, self.pods.owned(set))
    }

    /// Returns the plan for the Pods that the PodSet owns, and these without those whose deletion was accepted. Lists
    /// the Pods live first if the plan depends on the result of earlier deletes.
    async fn plan(&self, set: &PodSet, owned: Vec<CachedPod>) -> Result<(Vec<CachedPod>, Plan), Error> {
        let is_pending = |pod: &PodView| self.pending_deletions.is_pending(set, pod);
        let mut owned = self.pending_deletions.sync_with_cache(set, owned);
        if needs_live_list(set, &owned, is_pending) {
            let live = list_live_uids(&self.client, set).await.map_err(Error::Delete)?;
            self.pending_deletions.resolve(set, &live);
            owned = self.owned(set);
        }
        let plan = plan(set, &owned, |name| self.pods.name_exists(set, name), is_pending);
        Ok((owned, plan))
    }

    /// Creates one Pod. Returns its name, or `None` if an earlier reconcile created it.
    async fn create_pod(&self, pod: Pod) -> Result<Option<String>, Error> {
        match self.pods.writer.create(&ObjectKey::of(&pod), &pod).await {
            Ok(()) => Ok(pod.metadata.name),
            Err(error) if error.is_stale_cache() => Ok(None),
            Err(error) => Err(Error::Create(error)),
        }
    }

    /// Deletes one Pod by UID. Returns its name, or `None` if it no longer exists.
    async fn delete_pod(&self, set: &PodSet, pod: &CachedPod) -> Result<Option<String>, Error> {
        match self.pods.writer.delete(pod, DeletePrecondition::Uid).await {
            Ok(true) => {
                self.pending_deletions.mark_accepted(set, pod);
                Ok(Some(pod.name_any()))
            }
            Ok(false) => Ok(None),
            Err(error) => {
                if is_rejected(&error) {
                    self.pending_deletions.mark_rejected(set, pod);
                }
                Err(Error::Delete(error))
            }
        }
    }

    /// Emits one Event with the names of all Pods that were created or deleted.
    ///
    /// # Errors
    /// Returns the first error of `results`.
    fn record_results(
        &self,
        set: &PodSet,
        reason: &str,
        results: Vec<Result<Option<String>, Error>>,
    ) -> Result<(), Error> {
        let (mut names, mut failed) = (Vec::new(), Ok(()));
        for result in results {
            match result {
                Ok(name) => names.extend(name),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        if !names.is_empty() {
            let action = reason.trim_start_matches("Successful");
            let note = format!("{action}d {}", names.join(", "));
            self.events.normal(set.object_ref(&()), reason, action, &note);
        }
        failed
    }

    /// Writes the status. Requeues the PodSet for the end of `spec.minReadySeconds`.
    async fn update_status(
        &self,
        set: &PodSet,
        owned: &[CachedPod],
        error: Option<&Error>,
    ) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        let failure = error.and_then(Error::failure);
        let pods = PodCounts::of(set, owned, now);
        let next = |set: &PodSet| status(set, &pods, failure.as_ref(), now);
        let outcome = self.status.write(set, next).await.map_err(Error::Status)?;
        Ok(pods.requeue_after(now).map_or(outcome, |wait| outcome.and(Outcome::RequeueAfter(wait))))
    }
}

/// Returns whether, by its status, the PodSet had all desired Pods. Missing Pods then existed before.
fn had_all_replicas(set: &PodSet) -> bool {
    let status = set.status.as_ref();
    status.is_some_and(|status| {
        status.observed_generation == set.metadata.generation && status.replicas >= set.spec.replicas
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn had_all_replicas_compares_the_observed_generation_and_the_count() {
        let set = |generation: i64, replicas: i32| -> PodSet {
            serde_json::from_value(json!({
                "metadata": { "name": "web", "generation": 2 }, "spec": { "replicas": 3 },
                "status": {
                    "podNames": [], "availableReplicas": 0, "replicas": replicas, "readyReplicas": 0, "selector": "",
                    "observedGeneration": generation,
                },
            }))
            .unwrap()
        };
        assert!(had_all_replicas(&set(2, 3)));
        assert!(!had_all_replicas(&set(2, 1)), "scaling was in progress");
        assert!(!had_all_replicas(&set(1, 3)), "the spec has changed since");
        assert!(!had_all_replicas(&PodSet { status: None, ..set(2, 3) }));
    }
}

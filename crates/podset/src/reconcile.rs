//! The PodSet controller.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::{
    api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{Client, Resource, ResourceExt};
use operator_core::{
    Controller, ControllerBuilder, ObjectKey, Outcome, Setting,
    events::Events,
    owner::Owner,
    pod::PodView,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    writer::DeletePrecondition,
};

use crate::{
    adoption::{claim, is_there},
    api::PodSet,
    build,
    error::{Error, is_declined},
    observe::{KnownPod, Pods, live},
    pending_deletions::PendingDeletions,
    plan::{Plan, is_in_doubt, plan},
    progress::PodCounts,
    reasons, schema,
    status::status,
};

/// The image of the default container.
pub const IMAGE: Setting = Setting {
    flag: "podset-image",
    env: "PODSET_IMAGE",
    default: "quay.io/amacdona/strauss",
    values: &[],
    help: "Image of the pods of a PodSet that has no template",
};

/// Keeps a number of pods for each PodSet.
pub struct PodSetController {
    client: Client,
    pods: Pods,
    chosen: PendingDeletions,
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
            pods: Pods::build(builder),
            chosen: PendingDeletions::default(),
            status: builder.status(),
            events: builder.events(),
            image: builder.setting(&IMAGE),
        }
    }

    async fn reconcile(&self, set: Arc<PodSet>) -> Result<Outcome, Error> {
        let acted = self.act(&set).await;
        if acted.as_ref().is_err_and(Error::is_end_of_namespace) {
            return Ok(Outcome::AwaitChange);
        }
        let told = self.tell(&set, acted.as_ref().err()).await;
        acted?;
        told
    }
}

impl PodSetController {
    /// Brings the PodSet to its number of pods, as far as it goes.
    async fn act(&self, set: &PodSet) -> Result<(), Error> {
        let owner = Owner::controller(set, set.metadata.namespace.as_deref())?;
        claim(&self.client, &self.pods, set, &owner).await?;
        let plan = self.plan(set).await?;
        self.chosen.ask(set, &plan.delete, |other| self.pods.has_any(other));
        let deleted = join_all(plan.delete.iter().map(|pod| self.delete(set, pod))).await;
        self.done(set, reasons::SUCCESSFUL_DELETE, deleted)?;
        // Pods that have gone may have gone with their PodSet, of which the cache does not know yet.
        if !plan.create.is_empty()
            && had_all(set)
            && !is_there(&self.client, set).await.map_err(Error::Create)?
        {
            return Ok(());
        }
        // The first pod is made alone: what refuses one will refuse all.
        let mut names = plan.create.into_iter();
        let mut created = Vec::new();
        if let Some(first) = names.next() {
            created.push(self.create(set, &owner, first).await);
        }
        if created.iter().all(Result::is_ok) {
            created.extend(join_all(names.map(|name| self.create(set, &owner, name))).await);
        }
        self.done(set, reasons::SUCCESSFUL_CREATE, created)
    }

    /// The pods that the PodSet owns, but for those that are known to go though the cache still shows them.
    fn owned(&self, set: &PodSet) -> Vec<KnownPod> {
        self.chosen.without_going(set, self.pods.owned(set))
    }

    /// The plan. Where it depends on what has become of the pods that were chosen before, they are looked up first.
    async fn plan(&self, set: &PodSet) -> Result<Plan, Error> {
        let is_chosen = |pod: &PodView| self.chosen.may_have_gone(set, pod);
        if is_in_doubt(set, &self.owned(set), is_chosen) {
            self.chosen.settle(set, &live(&self.client, set).await.map_err(Error::Delete)?);
        }
        Ok(plan(set, &self.owned(set), |name| self.pods.is_taken(set, name), is_chosen))
    }

    /// Makes a pod. One that exists already was made by an earlier reconcile; the informer will show it.
    async fn create(&self, set: &PodSet, owner: &Owner, name: String) -> Result<Option<String>, Error> {
        let pod = build::pod(set, owner, name.clone(), &self.image);
        match self.pods.writer.create(&ObjectKey::of(&pod), &pod).await {
            Ok(()) => Ok(Some(name)),
            Err(error) if error.shows_stale_cache() => Ok(None),
            Err(error) => Err(Error::Create(error)),
        }
    }

    /// Deletes one incarnation of a pod. One that is gone already is nobody's merit.
    async fn delete(&self, set: &PodSet, pod: &KnownPod) -> Result<Option<String>, Error> {
        match self.pods.writer.delete(pod, DeletePrecondition::Uid).await {
            Ok(true) => {
                self.chosen.goes(set, pod);
                Ok(Some(pod.name_any()))
            }
            Ok(false) => Ok(None),
            Err(error) => {
                if is_declined(&error) {
                    self.chosen.declined(set, pod);
                }
                Err(Error::Delete(error))
            }
        }
    }

    /// Tells of all pods with which something was done in one Event, and returns the first error. `action` is a verb
    /// that ends in e.
    fn done(
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

    /// Tells how the PodSet is after that, and comes back for what only time brings.
    async fn tell(&self, set: &PodSet, error: Option<&Error>) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        let trouble = error.and_then(Error::trouble);
        let pods = PodCounts::of(set, &self.owned(set), now);
        let next = |set: &PodSet| status(set, &pods, trouble.as_ref(), now);
        let told = self.status.write(set, next).await.map_err(Error::Status)?;
        Ok(pods.next_in(now).map_or(told, |wait| told.and(Outcome::RequeueAfter(wait))))
    }
}

/// Whether, by its status, the PodSet had all pods that it asks for now: what is missing was there before.
fn had_all(set: &PodSet) -> bool {
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
    fn a_set_that_has_lost_pods_is_told_from_one_that_never_had_them() {
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
        assert!(had_all(&set(2, 3)));
        assert!(!had_all(&set(2, 1)), "it was on its way");
        assert!(!had_all(&set(1, 3)), "it was asked for others");
        assert!(!had_all(&PodSet { status: None, ..set(2, 3) }));
    }
}

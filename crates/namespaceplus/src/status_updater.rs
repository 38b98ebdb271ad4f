//! Writes the status and records Events.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use operator_core::{
    ControllerBuilder, Outcome, conditions::find, events::Events, informer::Informer, status::StatusWriter,
};
use tokio::time::sleep;

use crate::{
    api::{HookStatus, NamespacePlus, NamespacePlusStatus},
    condition_types::NAMESPACE_READY,
    error::Error,
    hooks::newly_failed,
    namespace::{NamespaceState, Origin},
    reasons,
    status::{Report, status},
};

/// Reasons that need the user and are not caused by a failed request.
const NOT_OWNABLE: [&str; 3] = [reasons::NOT_OWNED, reasons::OWNED_BY_ANOTHER, reasons::DENIED];

/// Writes the status of NamespacePlus objects and records the Events that follow from it.
pub(crate) struct StatusUpdater {
    objects: Informer<NamespacePlus>,
    writer: StatusWriter<NamespacePlus>,
    events: Events,
}

impl StatusUpdater {
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, NamespacePlus>) -> Self {
        Self { objects: builder.objects().clone(), writer: builder.status(), events: builder.events() }
    }

    /// Records an Event if the namespace was just created or adopted.
    pub(crate) fn record_origin(&self, object: &NamespacePlus, state: &NamespaceState) {
        let (reason, done) = match state {
            NamespaceState::Owned(Origin::Created) => (reasons::CREATED, "created"),
            NamespaceState::Owned(Origin::Adopted) => (reasons::ADOPTED, "adopted"),
            _ => return,
        };
        let note = format!("{done} namespace {}", object.name_any());
        self.events.normal(object.object_ref(&()), reason, "Reconcile", &note);
    }

    /// Writes the status. `hooks` computes the hook statuses.
    pub(crate) async fn update(
        &self,
        object: &NamespacePlus,
        report: &Report,
        hooks: impl Fn(&NamespacePlus) -> Vec<HookStatus>,
    ) -> Result<Outcome, Error> {
        let next = |known: &NamespacePlus| status(known, report, hooks(known), Timestamp::now());
        if report.error.is_none() {
            self.warn_if_not_owned(object, &next(object));
        }
        self.write(object, next).await
    }

    /// Writes the status that `next` computes.
    pub(crate) async fn write(
        &self,
        object: &NamespacePlus,
        next: impl Fn(&NamespacePlus) -> NamespacePlusStatus,
    ) -> Result<Outcome, Error> {
        self.writer.write(object, next).await.map_err(Error::Status)
    }

    /// Writes the results of calls. Retries until the write succeeds, because the results exist
    /// only in memory.
    pub(crate) async fn write_with_retries(
        &self,
        object: &Arc<NamespacePlus>,
        next: impl Fn(&NamespacePlus) -> NamespacePlusStatus,
    ) -> Result<Outcome, Error> {
        loop {
            match self.write(&self.objects.latest(object.clone()), &next).await? {
                Outcome::RequeueAfter(wait) => sleep(wait).await,
                outcome => return Ok(outcome),
            }
        }
    }

    /// Records an Event once if the namespace cannot be owned. The runner records the Events of
    /// failed requests.
    fn warn_if_not_owned(&self, object: &NamespacePlus, next: &NamespacePlusStatus) {
        let condition = |status: &NamespacePlusStatus| find(&status.conditions, NAMESPACE_READY).cloned();
        let before = object.status.as_ref().and_then(condition).map(|condition| condition.reason);
        let Some(now) = condition(next).filter(|now| before.as_ref() != Some(&now.reason)) else { return };
        if NOT_OWNABLE.contains(&now.reason.as_str()) {
            self.events.warning(object.object_ref(&()), &now.reason, "Reconcile", &now.message);
        }
    }

    /// Records an Event for each call that failed permanently since the last status.
    pub(crate) fn warn_of_failed_hooks(&self, object: &NamespacePlus, now: &[HookStatus]) {
        for failed in newly_failed(hook_statuses(object), now) {
            let note = format!("hook {}, event {}: {}", failed.name, failed.event.as_str(), failed.message);
            self.events.warning(object.object_ref(&()), reasons::HOOK_FAILED, "Call", &note);
        }
    }
}

/// Returns the hook statuses.
pub(crate) fn hook_statuses(object: &NamespacePlus) -> &[HookStatus] {
    object.status.as_ref().map(|status| status.hooks.as_slice()).unwrap_or_default()
}

/// Returns the status with other hook statuses and the current generation, because a new generation
/// resets failed calls.
pub(crate) fn with_hooks(object: &NamespacePlus, hooks: Vec<HookStatus>) -> NamespacePlusStatus {
    let observed_generation = object.metadata.generation;
    NamespacePlusStatus { observed_generation, hooks, ..object.status.clone().unwrap_or_default() }
}

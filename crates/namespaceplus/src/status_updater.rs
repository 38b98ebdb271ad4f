//! Writes the status and records Events.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use operator_core::{Outcome, conditions::find};
use tokio::time::sleep;

use crate::{
    api::{HookStatus, NamespacePlus, NamespacePlusStatus},
    error::Error,
    hooks::has_failed_now,
    namespace::{Gained, Standing},
    reasons::{self, NAMESPACE_READY},
    reconcile::NamespacePlusController,
    status::{Report, status},
};

/// Reasons that need the user and are not caused by a failed request.
const NOT_TO_BE_HAD: [&str; 3] = [reasons::NOT_OWNED, reasons::TAKEN_BY, reasons::REFUSED];

impl NamespacePlusController {
    /// Records an Event if the namespace was just created or adopted.
    pub(crate) fn announce(&self, object: &NamespacePlus, standing: &Standing) {
        let (reason, done) = match standing {
            Standing::Ours(Gained::Made) => (reasons::CREATED, "created"),
            Standing::Ours(Gained::Adopted) => (reasons::ADOPTED, "adopted"),
            _ => return,
        };
        let note = format!("{done} namespace {}", object.name_any());
        self.events.normal(object.object_ref(&()), reason, "Reconcile", &note);
    }

    /// Writes the status. `hooks` computes the hook statuses.
    pub(crate) async fn tell(
        &self,
        object: &NamespacePlus,
        report: &Report,
        hooks: impl Fn(&NamespacePlus) -> Vec<HookStatus>,
    ) -> Result<Outcome, Error> {
        let next = |known: &NamespacePlus| status(known, report, hooks(known), Timestamp::now());
        if report.error.is_none() {
            self.warn(object, &next(object));
        }
        self.status.write(object, next).await.map_err(Error::Status)
    }

    /// Writes the results of calls. Retries until the write succeeds, because the results exist
    /// only in memory.
    pub(crate) async fn tell_at_once(
        &self,
        object: &Arc<NamespacePlus>,
        next: impl Fn(&NamespacePlus) -> NamespacePlusStatus,
    ) -> Result<Outcome, Error> {
        loop {
            match self
                .status
                .write(&self.objects.latest(object.clone()), &next)
                .await
                .map_err(Error::Status)?
            {
                Outcome::RequeueAfter(wait) => sleep(wait).await,
                told => return Ok(told),
            }
        }
    }

    /// Records an Event once if the namespace cannot be owned. The runner records the Events of
    /// failed requests.
    fn warn(&self, object: &NamespacePlus, next: &NamespacePlusStatus) {
        let said = |status: &NamespacePlusStatus| find(&status.conditions, NAMESPACE_READY).cloned();
        let before = object.status.as_ref().and_then(said).map(|condition| condition.reason);
        let Some(now) = said(next).filter(|now| before.as_ref() != Some(&now.reason)) else { return };
        if NOT_TO_BE_HAD.contains(&now.reason.as_str()) {
            self.events.warning(object.object_ref(&()), &now.reason, "Reconcile", &now.message);
        }
    }

    /// Records an Event for each call that failed permanently since the last status.
    pub(crate) fn warn_of_hooks(&self, object: &NamespacePlus, now: &[HookStatus]) {
        for failed in has_failed_now(said(object), now) {
            let note = format!("hook {}, event {}: {}", failed.name, failed.event.as_str(), failed.message);
            self.events.warning(object.object_ref(&()), reasons::HOOK_FAILED, "Call", &note);
        }
    }
}

/// Returns the hook statuses.
pub(crate) fn said(object: &NamespacePlus) -> &[HookStatus] {
    object.status.as_ref().map(|status| status.hooks.as_slice()).unwrap_or_default()
}

/// Returns the status with other hook statuses and the current generation, because a new generation
/// resets failed calls.
pub(crate) fn with_hooks(object: &NamespacePlus, hooks: Vec<HookStatus>) -> NamespacePlusStatus {
    let observed_generation = object.metadata.generation;
    NamespacePlusStatus { observed_generation, hooks, ..object.status.clone().unwrap_or_default() }
}

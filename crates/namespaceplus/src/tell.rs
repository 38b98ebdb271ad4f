//! How status and Events are written.

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
    reconcile::NamespacePlusController,
    status::{Report, status},
    words::{self, NAMESPACE_READY},
};

/// The reasons that only a person can change, and that are no error of a request.
const NOT_TO_BE_HAD: [&str; 3] = [words::NOT_OWNED, words::TAKEN_BY, words::REFUSED];

impl NamespacePlusController {
    /// Says in an Event how the namespace was come by, if it has just been.
    pub(crate) fn announce(&self, object: &NamespacePlus, standing: &Standing) {
        let (reason, done) = match standing {
            Standing::Ours(Gained::Made) => (words::CREATED, "made"),
            Standing::Ours(Gained::Adopted) => (words::ADOPTED, "adopted"),
            _ => return,
        };
        let note = format!("{done} namespace {}", object.name_any());
        self.events.normal(object.object_ref(&()), reason, "Reconcile", &note);
    }

    /// Tells what was seen and done; of hooks, what `hooks` makes of what is known.
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

    /// Tells what came of calls. Nobody else knows it, so a write that has to wait is waited for.
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

    /// Says once in an Event that the namespace cannot be had; the condition goes on saying it. The Event of a
    /// request that failed is the runner's.
    fn warn(&self, object: &NamespacePlus, next: &NamespacePlusStatus) {
        let said = |status: &NamespacePlusStatus| find(&status.conditions, NAMESPACE_READY).cloned();
        let before = object.status.as_ref().and_then(said).map(|condition| condition.reason);
        let Some(now) = said(next).filter(|now| before.as_ref() != Some(&now.reason)) else { return };
        if NOT_TO_BE_HAD.contains(&now.reason.as_str()) {
            self.events.warning(object.object_ref(&()), &now.reason, "Reconcile", &now.message);
        }
    }

    /// Says in an Event that a call was given up, if the status did not say so before.
    pub(crate) fn warn_of_hooks(&self, object: &NamespacePlus, now: &[HookStatus]) {
        for failed in has_failed_now(said(object), now) {
            let note = format!("{}, called for {}: {}", failed.name, failed.event.as_str(), failed.message);
            self.events.warning(object.object_ref(&()), words::HOOK_FAILED, "Call", &note);
        }
    }
}

/// What the status says of the calls.
pub(crate) fn said(object: &NamespacePlus) -> &[HookStatus] {
    object.status.as_ref().map(|status| status.hooks.as_slice()).unwrap_or_default()
}

/// The status with something else said of the calls. That the generation was seen belongs to it: a new one gives calls
/// that were given up another chance, and a deletion makes it one.
pub(crate) fn with_hooks(object: &NamespacePlus, hooks: Vec<HookStatus>) -> NamespacePlusStatus {
    let observed_generation = object.metadata.generation;
    NamespacePlusStatus { observed_generation, hooks, ..object.status.clone().unwrap_or_default() }
}

//! The NamespacePlus controller.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        core::v1::{LimitRange, Namespace, ResourceQuota},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, RoleBinding},
    },
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt};
use operator_core::{
    Controller, ControllerBuilder, Outcome, Setting,
    events::Events,
    informer::{Informer, Selection},
    kind::is_deleting,
    rbac::{BIND, CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    write::WriteError,
};

use crate::{
    api::{DeletionPolicy, HookEvent, NamespacePlus},
    contents::{Contents, Failure, Failures, is_transient, keys},
    error::Error,
    hooks::{CA_BUNDLE, HTTP_HOSTS, Hooks, Occurrence, current_statuses, next_attempt_in, none_pending},
    namespace::{NamespaceState, Namespaces, deletion_blockers},
    ownership::{Identity, protected},
    reasons,
    status::{Report, status},
    status_updater::{StatusUpdater, hook_statuses, with_hooks},
};

/// Finalizer that keeps a NamespacePlus until its namespace is released or deleted.
pub const FINALIZER: &str = "mygroup.my.domain/finalizer";

/// ClusterRoles that the controller may bind without having their permissions.
pub const GRANTABLE: [&str; 3] = ["admin", "edit", "view"];

/// Reconciles a namespace for each NamespacePlus.
pub struct NamespacePlusController {
    objects: Informer<NamespacePlus>,
    namespaces: Namespaces,
    contents: Contents,
    hooks: Hooks,
    status: StatusUpdater,
    events: Events,
    manager_namespace: String,
}

impl Controller for NamespacePlusController {
    const NAME: &'static str = "namespaceplus";
    const FINALIZER: Option<&'static str> = Some(FINALIZER);
    type Object = NamespacePlus;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        let child = GET | LIST | WATCH | CREATE | UPDATE | DELETE;
        vec![
            rule::<NamespacePlus>(GET | LIST | WATCH | PATCH),
            rule::<NamespacePlus>(UPDATE).subresource("status"),
            rule::<Namespace>(GET | LIST | WATCH | CREATE | PATCH | DELETE),
            rule::<ResourceQuota>(child),
            rule::<LimitRange>(child),
            rule::<NetworkPolicy>(child),
            rule::<PodDisruptionBudget>(child),
            rule::<RoleBinding>(child),
            rule::<ClusterRole>(BIND).named(GRANTABLE),
        ]
    }

    fn settings() -> &'static [Setting] {
        &[HTTP_HOSTS, CA_BUNDLE]
    }

    fn build(builder: &mut ControllerBuilder<'_, NamespacePlus>) -> Self {
        let owners = builder.objects().store().index(|object: &NamespacePlus| vec![object.name_any()]);
        let namespaces = builder.informer::<Namespace>(Selection::All);
        let owners_by_name = owners.clone();
        builder.watches(&namespaces, move |change| keys(&owners_by_name, change.key.name()));
        Self {
            objects: builder.objects().clone(),
            namespaces: Namespaces::new(builder.writer(namespaces)),
            contents: Contents::build(builder, &owners),
            hooks: Hooks::build(builder),
            status: StatusUpdater::build(builder),
            events: builder.events(),
            manager_namespace: builder.manager_namespace().to_owned(),
        }
    }

    async fn reconcile(&self, object: Arc<NamespacePlus>) -> Result<Outcome, Error> {
        let (state, error) = self.reconcile_namespace(&object).await?;
        let failures = match state {
            NamespaceState::Owned(_) => self.contents.reconcile(&object).await,
            _ => Failures::default(),
        };
        if failures.iter().any(Failure::is_terminating) {
            return Ok(Outcome::AwaitChange);
        }
        let report = Report { state, error, failures };
        if report.failures.iter().any(Failure::is_transient) {
            return outcome(&object, report);
        }
        let occurrences = self.occurrences(&object, &report);
        let delivery = self.hooks.delivery(&object, &occurrences);
        let mut written = self.status.update(&object, &report, |known| delivery.start(known)).await;
        if let Some(responses) = self.hooks.call_after_update(&object, &delivery, &written).await {
            let now = Timestamp::now();
            let end = |known: &NamespacePlus| status(known, &report, delivery.end(known, &responses), now);
            written = self.status.write_with_retries(&object, end).await;
        }
        let latest = self.objects.latest(object.clone());
        self.status.warn_of_failed_hooks(&object, hook_statuses(&latest));
        let again = next_attempt_in(hook_statuses(&latest), Timestamp::now())
            .map_or(Outcome::Done, Outcome::RequeueAfter);
        Ok(outcome(&object, report)?.and(written?).and(again))
    }

    async fn cleanup(&self, object: Arc<NamespacePlus>) -> Result<Outcome, Error> {
        if protected(&object.name_any(), &self.manager_namespace).is_some() {
            return Ok(Outcome::Done);
        }
        let released = match object.spec.deletion_policy {
            DeletionPolicy::Retain => self.release(&object).await?,
            DeletionPolicy::Delete => self.delete(&object).await?,
        };
        if released != Outcome::Done {
            return Ok(released);
        }
        self.deliver_deletion_hooks(&object).await
    }
}

impl NamespacePlusController {
    /// Reconciles the namespace itself.
    ///
    /// # Errors
    ///
    /// Returns transient errors. Other errors are part of the result, so that the objects in the
    /// namespace are reconciled nevertheless.
    async fn reconcile_namespace(
        &self,
        object: &NamespacePlus,
    ) -> Result<(NamespaceState, Option<WriteError>), Error> {
        let name = object.name_any();
        if let Some(reason) = protected(&name, &self.manager_namespace) {
            return Ok((NamespaceState::Refused(reason.to_owned()), None));
        }
        match self.namespaces.reconcile(object).await {
            Ok(state) => {
                self.status.record_origin(object, &state);
                Ok((state, None))
            }
            Err(error) if is_transient(&error) => Err(Error::Namespace(error)),
            Err(error) => Ok((self.namespaces.state(object), Some(error))),
        }
    }

    /// Releases the namespace and leaves its contents.
    async fn release(&self, object: &NamespacePlus) -> Result<Outcome, Error> {
        let name = object.name_any();
        if self.namespaces.release(&Identity::of(object), &name).await.map_err(Error::Namespace)? {
            let note = format!("released namespace {name}; it stays unchanged");
            self.events.normal(object.object_ref(&()), reasons::RELEASED, "Delete", &note);
        }
        Ok(Outcome::Done)
    }

    /// Deletes the namespace and waits until it is gone.
    async fn delete(&self, object: &NamespacePlus) -> Result<Outcome, Error> {
        let name = object.name_any();
        let was_active = self.namespaces.get(&name).is_some_and(|namespace| !is_deleting(namespace.as_ref()));
        let deleted = self.namespaces.delete(&Identity::of(object), &name).await;
        let Some(terminating) = deleted.map_err(Error::Namespace)? else { return Ok(Outcome::Done) };
        if was_active {
            let note = format!("deleting namespace {name}");
            self.events.normal(object.object_ref(&()), reasons::DELETING, "Delete", &note);
        }
        // An object in a terminating namespace must not wait, because it blocks that deletion,
        // possibly its own.
        if self.is_in_terminating_namespace(object) {
            return Ok(Outcome::Done);
        }
        let state = NamespaceState::Terminating(deletion_blockers(&terminating));
        let report = Report { state, error: None, failures: Failures::default() };
        Ok(Outcome::AwaitChange.and(self.status.update(object, &report, current_statuses).await?))
    }

    /// Returns the events that happened to the namespace.
    fn occurrences(&self, object: &NamespacePlus, report: &Report) -> Vec<Occurrence> {
        let namespace = self.namespaces.get(&object.name_any()).and_then(|namespace| namespace.uid());
        let (NamespaceState::Owned(_), Some(occurrence_id)) = (&report.state, namespace) else {
            return Vec::new();
        };
        let mut occurrences =
            vec![Occurrence { event: HookEvent::Created, occurrence_id: occurrence_id.clone() }];
        if report.error.is_none() && report.failures.iter().next().is_none() {
            occurrences.push(Occurrence { event: HookEvent::Ready, occurrence_id });
        }
        occurrences
    }

    /// Makes the calls for the event Deleted and waits until they are accepted or have failed.
    ///
    /// Skips the calls if there never was a namespace. In a terminating namespace, makes one
    /// attempt only, because waiting would block the deletion.
    async fn deliver_deletion_hooks(&self, object: &Arc<NamespacePlus>) -> Result<Outcome, Error> {
        if object.status.as_ref().is_none_or(|status| status.namespace.is_none()) {
            return Ok(Outcome::Done);
        }
        let occurrences = [Occurrence { event: HookEvent::Deleted, occurrence_id: String::new() }];
        let delivery = self.hooks.delivery(object, &occurrences);
        let written = self.status.write(object, |known| with_hooks(known, delivery.start(known))).await;
        if let Some(responses) = self.hooks.call_after_update(object, &delivery, &written).await {
            self.status
                .write_with_retries(object, |known| with_hooks(known, delivery.end(known, &responses)))
                .await?;
            self.status.warn_of_failed_hooks(object, hook_statuses(&self.objects.latest(object.clone())));
            // Removing the finalizer needs the current object.
            return Ok(Outcome::RequeueAfter(Duration::ZERO));
        }
        let latest = self.objects.latest(object.clone());
        let last: Vec<_> =
            hook_statuses(&latest).iter().filter(|one| one.event == HookEvent::Deleted).cloned().collect();
        let was_tried = last.iter().all(|one| one.attempts > 0);
        let end = if none_pending(&last) || (was_tried && self.is_in_terminating_namespace(object)) {
            Outcome::Done
        } else {
            next_attempt_in(&last, Timestamp::now()).map_or(Outcome::Done, Outcome::RequeueAfter)
        };
        Ok(written?.and(end))
    }

    fn is_in_terminating_namespace(&self, object: &NamespacePlus) -> bool {
        let namespace = object.namespace().and_then(|namespace| self.namespaces.get(&namespace));
        namespace.is_some_and(|namespace| is_deleting(namespace.as_ref()))
    }
}

/// Returns the outcome of the reconcile.
fn outcome(object: &NamespacePlus, report: Report) -> Result<Outcome, Error> {
    if let Some(error) = report.error {
        return Err(Error::Namespace(error));
    }
    if let Some(error) = Error::of(object, report.failures) {
        return Err(error);
    }
    match report.state {
        NamespaceState::Owned(_) => Ok(Outcome::Done),
        _ => Ok(Outcome::AwaitChange),
    }
}

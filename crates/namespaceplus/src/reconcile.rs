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
    Controller, Outcome, Setting, Wiring,
    events::Events,
    informer::{Informer, Selection},
    kind::is_deleting,
    rbac::{BIND, CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    write::WriteError,
};

use crate::{
    api::{DeletionPolicy, HookEvent, NamespacePlus},
    contents::{Parts, Trouble, Troubles, is_passing, keys},
    error::Error,
    hooks::{CA_BUNDLE, HTTP_HOSTS, Happened, Hooks, is_settled, known, wait},
    namespace::{Namespaces, Standing, hold_up},
    ownership::{Identity, protected},
    reasons,
    status::{Report, status},
    status_updater::{said, with_hooks},
};

/// Finalizer that keeps a NamespacePlus until its namespace is released or deleted.
pub const FINALIZER: &str = "mygroup.my.domain/finalizer";

/// ClusterRoles that the controller may bind without having their permissions.
pub const GRANTABLE: [&str; 3] = ["admin", "edit", "view"];

/// Reconciles a namespace for each NamespacePlus.
pub struct NamespacePlusController {
    pub(crate) objects: Informer<NamespacePlus>,
    namespaces: Namespaces,
    parts: Parts,
    hooks: Hooks,
    pub(crate) status: StatusWriter<NamespacePlus>,
    pub(crate) events: Events,
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

    fn wire(wiring: &mut Wiring<'_, NamespacePlus>) -> Self {
        let owners = wiring.objects().store().index(|object: &NamespacePlus| vec![object.name_any()]);
        let namespaces = wiring.informer::<Namespace>(Selection::All);
        let concerned = owners.clone();
        wiring.on_change(&namespaces, move |change| keys(&concerned, change.key.name()));
        Self {
            objects: wiring.objects().clone(),
            namespaces: Namespaces::new(wiring.writer(namespaces)),
            parts: Parts::wire(wiring, &owners),
            hooks: Hooks::wire(wiring),
            status: wiring.status(),
            events: wiring.events(),
            manager_namespace: wiring.manager_namespace().to_owned(),
        }
    }

    async fn reconcile(&self, object: Arc<NamespacePlus>) -> Result<Outcome, Error> {
        let (standing, error) = self.keep_namespace(&object).await?;
        let troubles = match standing {
            Standing::Ours(_) => self.parts.keep(&object).await,
            _ => Troubles::default(),
        };
        if troubles.iter().any(Trouble::is_terminating) {
            return Ok(Outcome::AwaitChange);
        }
        let report = Report { standing, error, troubles };
        if report.troubles.iter().any(Trouble::is_passing) {
            return outcome(&object, report);
        }
        let happened = self.happened(&object, &report);
        let round = self.hooks.round(&object, &happened);
        let mut told = self.tell(&object, &report, |known| round.begin(known)).await;
        if let Some(answers) = self.hooks.make_once_told(&object, &round, &told).await {
            let now = Timestamp::now();
            let end = |known: &NamespacePlus| status(known, &report, round.end(known, &answers), now);
            told = self.tell_at_once(&object, end).await;
        }
        let latest = self.objects.latest(object.clone());
        self.warn_of_hooks(&object, said(&latest));
        let again = wait(said(&latest), Timestamp::now()).map_or(Outcome::Done, Outcome::RequeueAfter);
        Ok(outcome(&object, report)?.and(told?).and(again))
    }

    async fn cleanup(&self, object: Arc<NamespacePlus>) -> Result<Outcome, Error> {
        if protected(&object.name_any(), &self.manager_namespace).is_some() {
            return Ok(Outcome::Done);
        }
        let let_go = match object.spec.deletion_policy {
            DeletionPolicy::Retain => self.release(&object).await?,
            DeletionPolicy::Delete => self.delete(&object).await?,
        };
        if let_go != Outcome::Done {
            return Ok(let_go);
        }
        self.say_farewell(&object).await
    }
}

impl NamespacePlusController {
    /// Reconciles the namespace itself.
    ///
    /// # Errors
    ///
    /// Returns transient errors. Other errors are part of the result, so that the objects in the
    /// namespace are reconciled nevertheless.
    async fn keep_namespace(&self, object: &NamespacePlus) -> Result<(Standing, Option<WriteError>), Error> {
        let name = object.name_any();
        if let Some(why) = protected(&name, &self.manager_namespace) {
            return Ok((Standing::Refused(why.to_owned()), None));
        }
        match self.namespaces.keep(object).await {
            Ok(standing) => {
                self.announce(object, &standing);
                Ok((standing, None))
            }
            Err(error) if is_passing(&error) => Err(Error::Namespace(error)),
            Err(error) => Ok((self.namespaces.standing(object), Some(error))),
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
        let was_staying =
            self.namespaces.get(&name).is_some_and(|namespace| !is_deleting(namespace.as_ref()));
        let deleted = self.namespaces.delete(&Identity::of(object), &name).await;
        let Some(leaving) = deleted.map_err(Error::Namespace)? else { return Ok(Outcome::Done) };
        if was_staying {
            let note = format!("deleting namespace {name}");
            self.events.normal(object.object_ref(&()), reasons::DELETING, "Delete", &note);
        }
        // An object in a terminating namespace must not wait, because it blocks that deletion,
        // possibly its own.
        if self.sits_in_a_leaving_namespace(object) {
            return Ok(Outcome::Done);
        }
        let standing = Standing::Terminating(hold_up(&leaving));
        let report = Report { standing, error: None, troubles: Troubles::default() };
        Ok(Outcome::AwaitChange.and(self.tell(object, &report, known).await?))
    }

    /// Returns the events that happened to the namespace.
    fn happened(&self, object: &NamespacePlus, report: &Report) -> Vec<Happened> {
        let namespace = self.namespaces.get(&object.name_any()).and_then(|namespace| namespace.uid());
        let (Standing::Ours(_), Some(occasion)) = (&report.standing, namespace) else { return Vec::new() };
        let mut happened = vec![Happened { event: HookEvent::Created, occasion: occasion.clone() }];
        if report.error.is_none() && report.troubles.iter().next().is_none() {
            happened.push(Happened { event: HookEvent::Ready, occasion });
        }
        happened
    }

    /// Makes the calls for the event Deleted and waits until they are accepted or have failed.
    ///
    /// Skips the calls if there never was a namespace. In a terminating namespace, makes one
    /// attempt only, because waiting would block the deletion.
    async fn say_farewell(&self, object: &Arc<NamespacePlus>) -> Result<Outcome, Error> {
        if object.status.as_ref().is_none_or(|status| status.namespace.is_none()) {
            return Ok(Outcome::Done);
        }
        let happened = [Happened { event: HookEvent::Deleted, occasion: String::new() }];
        let round = self.hooks.round(object, &happened);
        let told = self.status.write(object, |known| with_hooks(known, round.begin(known))).await;
        let told = told.map_err(Error::Status);
        if let Some(answers) = self.hooks.make_once_told(object, &round, &told).await {
            self.tell_at_once(object, |known| with_hooks(known, round.end(known, &answers))).await?;
            self.warn_of_hooks(object, said(&self.objects.latest(object.clone())));
            // Removing the finalizer needs the current object.
            return Ok(Outcome::RequeueAfter(Duration::ZERO));
        }
        let latest = self.objects.latest(object.clone());
        let last: Vec<_> =
            said(&latest).iter().filter(|one| one.event == HookEvent::Deleted).cloned().collect();
        let was_tried = last.iter().all(|one| one.attempts > 0);
        let end = if is_settled(&last) || (was_tried && self.sits_in_a_leaving_namespace(object)) {
            Outcome::Done
        } else {
            wait(&last, Timestamp::now()).map_or(Outcome::Done, Outcome::RequeueAfter)
        };
        Ok(told?.and(end))
    }

    fn sits_in_a_leaving_namespace(&self, object: &NamespacePlus) -> bool {
        let namespace = object.namespace().and_then(|namespace| self.namespaces.get(&namespace));
        namespace.is_some_and(|namespace| is_deleting(namespace.as_ref()))
    }
}

/// Returns the outcome of the reconcile.
fn outcome(object: &NamespacePlus, report: Report) -> Result<Outcome, Error> {
    if let Some(error) = report.error {
        return Err(Error::Namespace(error));
    }
    if let Some(error) = Error::of(object, report.troubles) {
        return Err(error);
    }
    match report.standing {
        Standing::Ours(_) => Ok(Outcome::Done),
        _ => Ok(Outcome::AwaitChange),
    }
}

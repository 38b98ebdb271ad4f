//! The Tenant controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::{
    api::{
        core::v1::{LimitRange, Namespace, ResourceQuota, Service},
        networking::v1::{IngressClass, NetworkPolicy},
        rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
        storage::v1::StorageClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{Client, CustomResourceExt, ResourceExt};
use operator_core::{
    Controller, ControllerBuilder, ObjectKey, Outcome, ReconcileError,
    admission::{Conversion, Policy, Webhook},
    environment::Setting,
    finalizer,
    informer::{Change, Informer, Selection},
    kind::uid,
    metrics::Gauge,
    owner::{Owner, OwnerError},
    rbac::{BIND, CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    write::WriteError,
};

use crate::{
    ConfigurationController,
    api::{
        crd,
        names::{DELETER_ROLE, FINALIZER, PROVISIONER_ROLE},
        v1beta2::{CapsuleConfiguration, GlobalResourceQuota, Metadata, RuleStatus, Tenant, TenantOwner},
    },
    apply::Objects,
    classes::ClusterClasses,
    conversion::conversion,
    failure::{Failure, Failures},
    metrics::{GAUGES, SHOWN, readings},
    namespace,
    namespaces::{Members, Namespaces},
    owners::{Selectors, differs, owners},
    plan::{Plan, Wanted, plan},
    reasons::{
        FAILED_DELETE, FINALIZER_FAILED, INVALID_OWNER, LIST_FAILED, RECONCILE_FAILED, STATUS_UPDATE_FAILED,
    },
    reservations::unconfirmed,
    services::{Services, due},
    status::{Report, announcement, status, with},
    webhook,
};

/// The ClusterRoles that the controller may give without having their rights itself.
pub const GRANTABLE: [&str; 5] = ["admin", "edit", "view", DELETER_ROLE, PROVISIONER_ROLE];

/// How many namespaces of a Tenant are worked on at once.
const AT_ONCE: usize = 8;

/// When a Tenant is reconciled again because the API server has namespaces that the cache lacks.
const CACHE_DELAY: Duration = Duration::from_secs(5);

/// The finalizer by which a person asks that what an object owns is kept when it is deleted. Kubernetes'
/// garbage collector then takes out the owner references.
const ORPHAN: &str = "orphan";

/// Why a Tenant could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Tenant cannot own anything.
    #[error("cannot make anything in the namespaces of the Tenant")]
    Owner(#[from] OwnerError),
    /// The finalizer could not be put on the Tenant or taken off.
    #[error(transparent)]
    Finalizer(WriteError),
    /// Some of what the spec asks is not there; the condition Ready tells of it too.
    #[error("not all is as the spec asks")]
    Incomplete(#[source] Failures),
    /// A namespace of a Tenant that is being deleted could not be deleted.
    #[error("cannot delete the namespaces of the Tenant")]
    Undeleted(#[source] Failures),
    /// The API server did not list the Tenant's namespaces.
    #[error("cannot list the namespaces of the Tenant, to learn which of those in its status are gone")]
    List(#[source] kube::Error),
    /// The status could not be written.
    #[error(transparent)]
    Status(WriteError),
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Owner(_) => INVALID_OWNER,
            Self::Finalizer(_) => FINALIZER_FAILED,
            Self::Incomplete(_) => RECONCILE_FAILED,
            Self::Undeleted(_) => FAILED_DELETE,
            Self::List(_) => LIST_FAILED,
            Self::Status(_) => STATUS_UPDATE_FAILED,
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Incomplete(failures) if failures.need_other_spec())
    }
}

/// Keeps in the namespaces of each Tenant what its spec asks.
pub struct TenantController {
    client: Client,
    tenants: Informer<Tenant>,
    owners: Informer<TenantOwner>,
    namespaces: Namespaces,
    objects: Objects,
    classes: ClusterClasses,
    services: Services,
    status: StatusWriter<Tenant>,
}

impl Controller for TenantController {
    const NAME: &'static str = "tenant";
    const OWNED_FINALIZER: Option<&'static str> = Some(FINALIZER);
    const COMPANIONS: &'static [&'static str] = &[ConfigurationController::NAME];
    type Object = Tenant;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        let child = GET | LIST | WATCH | CREATE | UPDATE | DELETE;
        vec![
            rule::<Tenant>(GET | LIST | WATCH | PATCH),
            rule::<Tenant>(UPDATE).subresource("status"),
            // For `blockOwnerDeletion`, where OwnerReferencesPermissionEnforcement is on.
            rule::<Tenant>(UPDATE).subresource("finalizers"),
            rule::<TenantOwner>(LIST | WATCH),
            // Admission goes by it.
            rule::<CapsuleConfiguration>(LIST | WATCH),
            rule::<Namespace>(LIST | WATCH | PATCH | DELETE),
            rule::<LimitRange>(child),
            rule::<NetworkPolicy>(child),
            rule::<ResourceQuota>(child),
            rule::<RoleBinding>(child),
            rule::<ClusterRole>(BIND).named(GRANTABLE),
            // Admission holds whom they name to the rules of owners.
            rule::<ClusterRoleBinding>(LIST | WATCH),
            rule::<StorageClass>(LIST | WATCH),
            // For admission.
            rule::<IngressClass>(LIST | WATCH),
            // Their metadata, where a Tenant wants something on them.
            rule::<Service>(LIST | PATCH),
        ]
    }

    fn crds() -> Vec<CustomResourceDefinition> {
        vec![crd(), TenantOwner::crd(), RuleStatus::crd(), GlobalResourceQuota::crd()]
    }

    fn gauges() -> &'static [&'static Gauge] {
        GAUGES
    }

    fn settings() -> &'static [Setting] {
        &[SHOWN]
    }

    fn webhooks() -> Vec<Webhook> {
        webhook::webhooks()
    }

    fn conversions() -> Vec<Conversion> {
        vec![conversion()]
    }

    fn policies(manager_namespace: &str) -> Vec<Policy> {
        webhook::policies(manager_namespace)
    }

    fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        let tenants = builder.objects().clone();
        let objects = Objects::build(builder);
        if builder.setting(&SHOWN) == "true" {
            let (shown, quotas) = (tenants.clone(), objects.quotas());
            builder.gauges(move || readings(shown.store().list(), |tenant| quotas.get(&uid(tenant))));
        }
        let owners = builder.informer::<TenantOwner>(Selection::All);
        let picking = tenants.clone();
        builder.watches(&owners, move |change| concerned_by_owner(change, &picking.store().list()));
        Self {
            client: builder.client(),
            tenants,
            owners,
            namespaces: Namespaces::build(builder),
            objects,
            classes: ClusterClasses::build(builder),
            services: Services::new(builder.client()),
            // Admission takes and gives back places.
            status: builder.status_with_shared_fields(|status| status.reservations.clear()),
        }
    }

    async fn reconcile(&self, tenant: Arc<Tenant>) -> Result<Outcome, Error> {
        let owner = Owner::controller(tenant.as_ref(), None)?;
        let members = self.namespaces.members(&tenant);
        let tenant = self.hold(tenant, &members).await?;
        let plan = self.plan(&tenant, &owner, &members);
        let put_off = self.announce(&tenant, &plan).await?;
        if put_off != Outcome::Done {
            return Ok(put_off);
        }
        let tenant = self.tenants.latest(tenant);
        let mut report = self.act(&tenant, &owner, members, plan).await;
        if !report.failures.is_empty() && report.failures.are_passing() {
            return Err(Error::Incomplete(report.failures));
        }
        report.uncached = self.uncached(&tenant, &report.members).await?;
        let told = self.tell(&tenant, &report).await?;
        if told != Outcome::Done {
            // Before the error, which may be the end of it: the status has yet to be written.
            return Ok(told);
        }
        if !report.failures.is_empty() {
            return Err(Error::Incomplete(report.failures));
        }
        if !report.uncached.is_empty() {
            // A relist may skip both the creation and the deletion of a namespace. Then no change follows.
            return Ok(Outcome::RequeueAfter(CACHE_DELAY));
        }
        if report.members.is_empty() {
            self.release(&self.tenants.latest(tenant)).await?;
        }
        Ok(Outcome::Done)
    }

    async fn cleanup(&self, tenant: Arc<Tenant>) -> Result<Outcome, Error> {
        let members = self.namespaces.members(&tenant);
        if members.is_empty() && finalizer::has(tenant.as_ref(), FINALIZER) {
            return self.release(&tenant).await;
        }
        let failures = self.delete(&tenant, &members).await;
        // As they are now, so that the status tells of the deletion.
        let known = self.owners.store().list();
        let report = Report {
            owners: owners(&tenant, known.iter().map(AsRef::as_ref)),
            members: self.namespaces.members(&tenant),
            failures,
            classes: self.classes.available(&tenant),
            ..Report::default()
        };
        let told = self.tell(&tenant, &report).await?;
        if report.failures.is_empty() {
            Ok(Outcome::AwaitChange.and(told))
        } else {
            Err(Error::Undeleted(report.failures))
        }
    }
}

impl TenantController {
    fn plan(&self, tenant: &Tenant, owner: &Owner, members: &Members) -> Plan {
        let name = tenant.name_any();
        plan(tenant, &self.owners.store().list(), members, |namespace, index| {
            self.objects.used(owner, &name, namespace, index)
        })
    }

    /// Says first what has to be known before anything is done.
    async fn announce(&self, tenant: &Tenant, plan: &Plan) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        if announcement(tenant, plan, now).is_none() {
            return Ok(Outcome::Done);
        }
        let next = |known: &Tenant| {
            announcement(known, plan, now).or_else(|| known.status.clone()).unwrap_or_default()
        };
        self.status.write(tenant, next).await.map_err(Error::Status)
    }

    /// Holds the Tenant back from deletion while it has namespaces.
    async fn hold(&self, tenant: Arc<Tenant>, members: &Members) -> Result<Arc<Tenant>, Error> {
        if members.is_empty() {
            return Ok(tenant);
        }
        let moment = self.tenants.store().epoch();
        let held = finalizer::add(&self.client, tenant.as_ref(), FINALIZER).await;
        let Some(held) = held.map_err(Error::Finalizer)? else { return Ok(tenant) };
        self.tenants.record_write(moment, held.clone());
        Ok(Arc::new(held))
    }

    async fn release(&self, tenant: &Tenant) -> Result<Outcome, Error> {
        finalizer::remove(&self.client, tenant, FINALIZER).await.map_err(Error::Finalizer)?;
        Ok(Outcome::Done)
    }

    /// Carries out the plan. Nothing that goes wrong in one place keeps the others from being done.
    async fn act(&self, tenant: &Tenant, owner: &Owner, members: Members, plan: Plan) -> Report {
        let mut failures = self.objects.prune(&uid(tenant), &plan, &self.namespaces).await;
        let Plan { owners, namespaces, failures: malformed, notes, .. } = plan;
        failures.extend(malformed);
        let work: Vec<_> = namespaces.iter().map(|wanted| self.keep(owner, wanted)).collect();
        let done: Vec<_> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
        let mut metadata = BTreeMap::new();
        for (namespace, put, failed) in done {
            failures.add_in(&namespace, failed);
            metadata.insert(namespace, put);
        }
        failures.extend(self.mark_services(tenant, &members).await);
        let classes = self.classes.available(tenant);
        let failures = failures.sorted();
        Report { owners, members, metadata, failures, notes, classes, ..Report::default() }
    }

    /// Returns the namespaces that the status has to go on listing although the cache lacks them.
    async fn uncached(&self, tenant: &Tenant, members: &Members) -> Result<BTreeSet<String>, Error> {
        let cached: Vec<_> = members.all().map(|namespace| namespace.name_any()).collect();
        let unconfirmed = unconfirmed(tenant, cached.iter().map(String::as_str));
        self.namespaces.confirm(tenant, unconfirmed).await.map_err(Error::List)
    }

    /// Brings the Services that are there already to what the Tenant wants on them.
    async fn mark_services(&self, tenant: &Tenant, members: &Members) -> Failures {
        let mut failures = Failures::default();
        let options = tenant.spec.service_options.as_ref();
        let Some(wanted) = options.and_then(|options| options.additional_metadata.as_ref()) else {
            return failures;
        };
        let mark = async |namespace: &Namespace| {
            let name = namespace.name_any();
            (self.services.mark(wanted, &name).await, name)
        };
        let work: Vec<_> = due(tenant, &members.live).into_iter().map(|namespace| mark(namespace)).collect();
        let mut done = stream::iter(work).buffer_unordered(AT_ONCE);
        while let Some((marked, namespace)) = done.next().await {
            failures.add_in(&namespace, marked.err().map(Failure::from).into_iter().collect());
        }
        failures
    }

    /// Brings one namespace to what is wanted. Returns its name, what is on it now, and what went wrong.
    async fn keep(&self, owner: &Owner, wanted: &Wanted) -> (String, Metadata, Vec<Failure>) {
        let name = wanted.namespace.name_any();
        let patch = namespace::patch(&wanted.namespace.metadata, &wanted.metadata, &wanted.remembered);
        let patched = match patch {
            Some(patch) => self.namespaces.patch(&wanted.namespace, patch).await,
            None => Ok(()),
        };
        let mut failures = self.objects.make(owner, wanted).await;
        match patched {
            Ok(()) => (name, wanted.metadata.clone(), failures),
            Err(error) => {
                failures.insert(0, error.into());
                (name, with(&wanted.remembered, &wanted.metadata), failures)
            }
        }
    }

    /// Deletes the namespaces of a Tenant that is being deleted, unless they are to be kept.
    async fn delete(&self, tenant: &Tenant, members: &Members) -> Failures {
        let mut failures = Failures::default();
        if finalizer::has(tenant, ORPHAN) {
            return failures;
        }
        let work: Vec<_> = members.live.iter().map(|namespace| self.namespaces.delete(namespace)).collect();
        let mut deleted = stream::iter(work).buffer_unordered(AT_ONCE);
        while let Some(deleted) = deleted.next().await {
            if let Err(error) = deleted {
                failures.add(error);
            }
        }
        failures
    }

    async fn tell(&self, tenant: &Tenant, report: &Report) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        self.status.write(tenant, |known| status(known, report, now)).await.map_err(Error::Status)
    }
}

/// The Tenants that a `TenantOwner` owns, or owned before the change.
fn concerned_by_owner(change: &Change<TenantOwner>, tenants: &[Arc<Tenant>]) -> Vec<ObjectKey> {
    if !differs(change) {
        return Vec::new();
    }
    let is_concerned = |tenant: &&Arc<Tenant>| {
        let selectors = Selectors::of(tenant);
        change.states().any(|owner| selectors.pick(owner))
    };
    tenants.iter().filter(is_concerned).map(|tenant| ObjectKey::of(tenant.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn owner(labels: Value) -> Arc<TenantOwner> {
        let spec = json!({ "kind": "User", "name": "anna" });
        Arc::new(
            serde_json::from_value(json!({ "metadata": { "name": "one", "labels": labels }, "spec": spec }))
                .unwrap(),
        )
    }

    #[test]
    fn an_owner_concerns_the_tenants_that_pick_it_or_did_so_before_and_no_others() {
        let tenant = |name: &str, team: &str| -> Arc<Tenant> {
            let permissions = json!({ "matchOwners": [{ "matchLabels": { "team": team } }] });
            let tenant = json!({ "metadata": { "name": name }, "spec": { "permissions": permissions } });
            Arc::new(serde_json::from_value(tenant).unwrap())
        };
        let tenants = [tenant("oil", "blue"), tenant("gas", "red"), tenant("air", "green")];
        let concerned = |old, new| {
            let change = Change { key: ObjectKey::cluster("one"), old, new };
            let keys = concerned_by_owner(&change, &tenants);
            keys.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        let (blue, red) =
            (|| Some(owner(json!({ "team": "blue" }))), || Some(owner(json!({ "team": "red" }))));
        assert_eq!(concerned(None, blue()), ["oil"]);
        assert_eq!(concerned(blue(), red()), ["oil", "gas"]);
        assert_eq!(concerned(blue(), blue()), [] as [String; 0]);
    }
}

//! The Tenant controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use capsule::{
    api::{
        crd,
        names::{DELETER_ROLE, FINALIZER, PROVISIONER_ROLE},
        v1beta2::{
            CapsuleConfiguration, GlobalResourceQuota, Metadata, OwnerStatus, RuleStatus, Tenant, TenantOwner,
        },
    },
    class_filter::ClassFilters,
    lookups,
    owners::{OwnerSelectors, is_relevant_change},
};
use futures::{StreamExt, stream};
use k8s_openapi::{
    api::{
        core::v1::{LimitRange, Namespace, PersistentVolume, Pod, ResourceQuota, Service, ServiceAccount},
        networking::v1::{Ingress, IngressClass, NetworkPolicy},
        node::v1::RuntimeClass,
        rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
        resource::v1::DeviceClass,
        scheduling::v1::PriorityClass,
        storage::v1::StorageClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{Client, CustomResourceExt, Resource, ResourceExt, api::Patch};
use operator_core::{
    Controller, ControllerBuilder, ObjectKey, Outcome, ReconcileError,
    admission::{Conversion, Policy, Webhook},
    conditions::is_true,
    environment::Setting,
    events::Events,
    finalizer,
    informer::{Change, Informer, Selection},
    kind::uid,
    metrics::Gauge,
    owner::{Owner, OwnerError},
    rbac::{BIND, CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    write::WriteError,
    writer::Writer,
};

use crate::{
    ConfigurationController,
    additional_metadata::{ExistingObjects, outdated_namespaces},
    apply::NamespaceObjects,
    available_classes::ClusterClasses,
    condition_types::CORDONED,
    conversion::conversion,
    failure::{Failure, Failures},
    metrics::{GAUGES, TENANT_METRICS, readings},
    namespace_metadata,
    namespaces::{MemberNamespaces, Namespaces},
    plan::{DesiredNamespace, Plan, all_owners, plan},
    policies::gateways::GatewayClass,
    promotion::{PROMOTED, PromotedAccounts, tenants_of_account},
    reasons::{
        self, FAILED_DELETE, FINALIZER_FAILED, INVALID_OWNER, LIST_FAILED, RECONCILE_FAILED,
        STATUS_UPDATE_FAILED,
    },
    reservations::missing_from_cache,
    shared_quotas::{self, COUNT_INTERVAL, count_patch},
    status::{Report, merge_metadata, status, status_of_plan},
    volumes::TenantVolumes,
    webhook,
};

/// ClusterRoles that the manager may bind without having their permissions itself.
pub const GRANTABLE: [&str; 5] = ["admin", "edit", "view", DELETER_ROLE, PROVISIONER_ROLE];

/// Limit of namespaces of one Tenant that are processed concurrently.
const MAX_CONCURRENT_NAMESPACES: usize = 8;

/// Delay before a Tenant is reconciled again if the cache lacks some of its namespaces.
const CACHE_DELAY: Duration = Duration::from_secs(5);

/// Finalizer that requests orphaning: the dependents of an object survive its deletion. Kubernetes'
/// garbage collector then removes the owner references.
const ORPHAN: &str = "orphan";

/// Reason why a Tenant could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Tenant cannot be an owner.
    #[error("cannot create objects in the namespaces of the Tenant")]
    Owner(#[from] OwnerError),
    /// The finalizer could not be added or removed.
    #[error(transparent)]
    Finalizer(WriteError),
    /// Some objects do not match the spec. The condition Ready reports the same failures.
    #[error("cannot reconcile all objects of the Tenant")]
    Incomplete(#[source] Failures),
    /// A namespace of a Tenant that is being deleted could not be deleted.
    #[error("cannot delete the namespaces of the Tenant")]
    NamespaceDeletion(#[source] Failures),
    /// The API server did not list the Tenant's namespaces.
    #[error("cannot list the namespaces of the Tenant to find those in its status that no longer exist")]
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
            Self::NamespaceDeletion(_) => FAILED_DELETE,
            Self::List(_) => LIST_FAILED,
            Self::Status(_) => STATUS_UPDATE_FAILED,
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Incomplete(failures) if failures.need_spec_change())
    }
}

/// Reconciles Tenants with the objects and metadata of their namespaces.
pub struct TenantController {
    client: Client,
    tenants: Informer<Tenant>,
    owners: Informer<TenantOwner>,
    configurations: Informer<CapsuleConfiguration>,
    promoted: PromotedAccounts,
    namespaces: Namespaces,
    objects: NamespaceObjects,
    classes: ClusterClasses,
    existing: ExistingObjects,
    volumes: TenantVolumes,
    writer: Writer<Tenant>,
    events: Events,
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
            // Required for `blockOwnerDeletion` if OwnerReferencesPermissionEnforcement is enabled.
            rule::<Tenant>(UPDATE).subresource("finalizers"),
            rule::<TenantOwner>(LIST | WATCH),
            rule::<CapsuleConfiguration>(LIST | WATCH),
            // Admission reserves host names of Ingresses.
            rule::<CapsuleConfiguration>(UPDATE).subresource("status"),
            // Promoted ServiceAccounts own Tenants.
            rule::<ServiceAccount>(LIST | WATCH),
            rule::<Namespace>(LIST | WATCH | PATCH | DELETE),
            rule::<LimitRange>(child),
            rule::<NetworkPolicy>(child),
            rule::<ResourceQuota>(child),
            rule::<RoleBinding>(child),
            rule::<ClusterRole>(BIND).named(GRANTABLE),
            // Admission applies the rules for owners to the subjects of these bindings.
            rule::<ClusterRoleBinding>(LIST | WATCH),
            rule::<StorageClass>(LIST | WATCH),
            // Read by the admission webhooks.
            rule::<IngressClass>(LIST | WATCH),
            // Pods and Services get the labels and annotations of the Tenant.
            rule::<Pod>(LIST | PATCH),
            rule::<Service>(LIST | PATCH),
            // Volumes get the label of the Tenant that uses them.
            rule::<PersistentVolume>(LIST | WATCH | PATCH),
            rule::<PriorityClass>(LIST | WATCH),
            rule::<RuntimeClass>(LIST | WATCH),
            // A cluster need not serve these kinds.
            rule::<GatewayClass>(LIST | WATCH),
            rule::<DeviceClass>(LIST | WATCH),
            // Read by the admission webhooks, to find collisions of host names.
            rule::<Ingress>(LIST | WATCH),
        ]
    }

    fn crds() -> Vec<CustomResourceDefinition> {
        vec![crd(), TenantOwner::crd(), RuleStatus::crd(), GlobalResourceQuota::crd()]
    }

    fn gauges() -> &'static [&'static Gauge] {
        GAUGES
    }

    fn settings() -> &'static [Setting] {
        &[TENANT_METRICS]
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
        let objects = NamespaceObjects::build(builder);
        if builder.setting(&TENANT_METRICS) == "true" {
            let (tenants, quotas) = (tenants.clone(), objects.quotas_by_owner());
            builder.gauges(move || readings(tenants.store().list(), |tenant| quotas.get(&uid(tenant))));
        }
        builder.watches(&tenants, changed_object_quotas);
        let owners = builder.informer::<TenantOwner>(Selection::All);
        let selecting = tenants.clone();
        builder.watches(&owners, move |change| tenants_of_owner(change, &selecting.store().list()));
        let configurations = builder.informer::<CapsuleConfiguration>(Selection::All);
        let all = tenants.clone();
        builder.watches(&configurations, move |change| {
            let all = if changes_owners(change) { all.store().list() } else { Vec::new() };
            all.iter().map(|tenant| ObjectKey::of(tenant.as_ref())).collect()
        });
        let accounts = builder.informer::<ServiceAccount>(PROMOTED);
        let members = builder.informer::<Namespace>(Selection::All);
        builder.watches(&accounts, move |change| {
            change.states().flat_map(|account| tenants_of_account(account, &members)).collect()
        });
        Self {
            client: builder.client(),
            tenants: tenants.clone(),
            owners,
            configurations,
            promoted: PromotedAccounts::new(accounts),
            namespaces: Namespaces::build(builder),
            objects,
            classes: ClusterClasses::build(builder),
            existing: ExistingObjects::new(builder.client()),
            volumes: TenantVolumes::build(builder),
            writer: builder.writer(tenants.clone()),
            events: builder.events(),
            // Admission adds and removes reservations.
            status: builder.status_with_shared_fields(|status| status.reservations.clear()),
        }
    }

    async fn reconcile(&self, tenant: Arc<Tenant>) -> Result<Outcome, Error> {
        let owner = Owner::controller(tenant.as_ref(), None)?;
        let members = self.namespaces.members(&tenant);
        let tenant = self.add_finalizer(tenant, &members).await?;
        let plan = self.plan(&tenant, &owner, &members);
        let recorded = self.record_plan(&tenant, &plan).await?;
        if recorded != Outcome::Done {
            return Ok(recorded);
        }
        let tenant = self.tenants.latest(tenant);
        let awaits_counts = plan.awaits_counts;
        let mut report = self.reconcile_children(&tenant, &owner, members, plan).await;
        if !report.failures.is_empty() && report.failures.are_transient() {
            return Err(Error::Incomplete(report.failures));
        }
        report.uncached = self.uncached_members(&tenant, &report.members).await?;
        let updated = self.update_status(&tenant, &report).await?;
        if updated != Outcome::Done {
            // A terminal error would prevent the retry that writes the status.
            return Ok(updated);
        }
        if !report.failures.is_empty() {
            return Err(Error::Incomplete(report.failures));
        }
        if !report.uncached.is_empty() {
            // A relist can miss that a namespace was created and deleted. No event follows then.
            return Ok(Outcome::RequeueAfter(CACHE_DELAY));
        }
        if report.members.is_empty() {
            self.remove_finalizer(&self.tenants.latest(tenant)).await?;
        }
        Ok(if awaits_counts { Outcome::RequeueAfter(COUNT_INTERVAL) } else { Outcome::Done })
    }

    async fn cleanup(&self, tenant: Arc<Tenant>) -> Result<Outcome, Error> {
        let members = self.namespaces.members(&tenant);
        if members.is_empty() && finalizer::has(tenant.as_ref(), FINALIZER) {
            return self.remove_finalizer(&tenant).await;
        }
        let failures = self.delete_namespaces(&tenant, &members).await;
        let by_configuration = self.owners_by_configuration(&tenant, &members);
        let report = Report {
            owners: all_owners(&tenant, &self.owners.store().list(), &by_configuration),
            // Read again, so that the status shows the deletions.
            members: self.namespaces.members(&tenant),
            failures,
            classes: self.classes.available(&ClassFilters::from(tenant.as_ref())),
            ..Report::default()
        };
        let updated = self.update_status(&tenant, &report).await?;
        if report.failures.is_empty() {
            Ok(Outcome::AwaitChange.and(updated))
        } else {
            Err(Error::NamespaceDeletion(report.failures))
        }
    }
}

impl TenantController {
    fn plan(&self, tenant: &Tenant, owner: &Owner, members: &MemberNamespaces) -> Plan {
        let name = tenant.name_any();
        let by_configuration = self.owners_by_configuration(tenant, members);
        let found = |namespace: &str, key: &str| self.objects.quota(owner, &name, namespace, key);
        plan(tenant, &self.owners.store().list(), &by_configuration, members, found, Timestamp::now())
    }

    fn owners_by_configuration(&self, tenant: &Tenant, members: &MemberNamespaces) -> Vec<OwnerStatus> {
        let configuration = lookups::configuration(self.configurations.store());
        self.promoted.owners(&configuration, tenant, &members.active)
    }

    /// Writes the owners and the metadata of the plan to the status before any other object
    /// changes.
    async fn record_plan(&self, tenant: &Tenant, plan: &Plan) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        if status_of_plan(tenant, plan, now).is_none() {
            return Ok(Outcome::Done);
        }
        let next = |current: &Tenant| {
            status_of_plan(current, plan, now).or_else(|| current.status.clone()).unwrap_or_default()
        };
        self.status.write(tenant, next).await.map_err(Error::Status)
    }

    /// Adds the finalizer if the Tenant has namespaces.
    async fn add_finalizer(
        &self,
        tenant: Arc<Tenant>,
        members: &MemberNamespaces,
    ) -> Result<Arc<Tenant>, Error> {
        if members.is_empty() {
            return Ok(tenant);
        }
        let moment = self.tenants.store().epoch();
        let updated = finalizer::add(&self.client, tenant.as_ref(), FINALIZER).await;
        let Some(updated) = updated.map_err(Error::Finalizer)? else { return Ok(tenant) };
        self.tenants.record_write(moment, updated.clone());
        Ok(Arc::new(updated))
    }

    async fn remove_finalizer(&self, tenant: &Tenant) -> Result<Outcome, Error> {
        finalizer::remove(&self.client, tenant, FINALIZER).await.map_err(Error::Finalizer)?;
        Ok(Outcome::Done)
    }

    /// Carries out the plan. A failure in one namespace does not affect the others.
    async fn reconcile_children(
        &self,
        tenant: &Tenant,
        owner: &Owner,
        members: MemberNamespaces,
        plan: Plan,
    ) -> Report {
        let mut failures = self.objects.prune(&uid(tenant), &plan, &self.namespaces).await;
        let Plan { owners, namespaces, failures: invalid, warnings, used, .. } = plan;
        failures.extend(invalid);
        let work: Vec<_> =
            namespaces.iter().map(|desired| self.reconcile_namespace(owner, desired)).collect();
        let done: Vec<_> = stream::iter(work).buffer_unordered(MAX_CONCURRENT_NAMESPACES).collect().await;
        let mut metadata = BTreeMap::new();
        for (namespace, applied, failed) in done {
            failures.add_in(&namespace, failed);
            metadata.insert(namespace, applied);
        }
        failures.extend(self.update_existing(tenant, &members).await);
        failures.extend(self.volumes.label(tenant, &members).await);
        if let Some(patch) = count_patch(tenant, &used) {
            let patched = self.writer.patch(&ObjectKey::of(tenant), &Patch::Merge(patch), "annotate").await;
            failures.add_all(patched.err());
        }
        let filters = ClassFilters::from(tenant);
        let classes = self.classes.available(&filters);
        let warnings = warnings.into_iter().chain(self.classes.missing_defaults(&filters)).collect();
        let failures = failures.sorted();
        Report { owners, members, metadata, failures, warnings, classes, ..Report::default() }
    }

    /// Returns the namespaces that the cache lacks and that the status must continue to list.
    async fn uncached_members(
        &self,
        tenant: &Tenant,
        members: &MemberNamespaces,
    ) -> Result<BTreeSet<String>, Error> {
        let cached: Vec<_> = members.all().map(|namespace| namespace.name_any()).collect();
        let missing = missing_from_cache(tenant, cached.iter().map(String::as_str));
        self.namespaces.retain_members(tenant, missing).await.map_err(Error::List)
    }

    /// Adds the Tenant's labels and annotations to existing Pods and Services.
    async fn update_existing(&self, tenant: &Tenant, members: &MemberNamespaces) -> Failures {
        let services = tenant.spec.service_options.as_ref();
        let services = services.and_then(|options| options.additional_metadata.as_ref());
        let pods = tenant.spec.pod_options.as_ref();
        let pods = pods.and_then(|options| options.additional_metadata.as_ref());
        let update = async |namespace: &Namespace| {
            let (name, mut failed) = (namespace.name_any(), Vec::new());
            if let Some(desired) = services.filter(|desired| !desired.is_empty()) {
                failed.extend(self.existing.apply::<Service>(desired, &name).await.err());
            }
            if let Some(desired) = pods.filter(|desired| !desired.is_empty()) {
                failed.extend(self.existing.apply::<Pod>(desired, &name).await.err());
            }
            (name, failed)
        };
        let mut failures = Failures::default();
        let outdated = outdated_namespaces(tenant, &members.active);
        let work: Vec<_> = outdated.into_iter().map(|namespace| update(namespace)).collect();
        let mut done = stream::iter(work).buffer_unordered(MAX_CONCURRENT_NAMESPACES);
        while let Some((namespace, failed)) = done.next().await {
            failures.add_in(&namespace, failed.into_iter().map(Failure::from).collect());
        }
        failures
    }

    /// Reconciles one namespace. Returns its name, the metadata that it has now, and the failures.
    async fn reconcile_namespace(
        &self,
        owner: &Owner,
        desired: &DesiredNamespace,
    ) -> (String, Metadata, Vec<Failure>) {
        let name = desired.namespace.name_any();
        let removable = merge_metadata(&desired.last_applied, &desired.foreign);
        let patch = namespace_metadata::patch(&desired.namespace.metadata, &desired.metadata, &removable);
        let patched = match patch {
            Some(patch) => self.namespaces.patch(&desired.namespace, patch).await,
            None => Ok(()),
        };
        let mut failures = self.objects.apply(owner, desired).await;
        match patched {
            Ok(()) => (name, desired.metadata.clone(), failures),
            Err(error) => {
                failures.insert(0, error.into());
                (name, merge_metadata(&desired.last_applied, &desired.metadata), failures)
            }
        }
    }

    /// Deletes the namespaces of a Tenant that is being deleted, unless its deletion orphans them.
    async fn delete_namespaces(&self, tenant: &Tenant, members: &MemberNamespaces) -> Failures {
        let mut failures = Failures::default();
        if finalizer::has(tenant, ORPHAN) {
            return failures;
        }
        let work: Vec<_> = members.active.iter().map(|namespace| self.namespaces.delete(namespace)).collect();
        let mut deleted = stream::iter(work).buffer_unordered(MAX_CONCURRENT_NAMESPACES);
        while let Some(deleted) = deleted.next().await {
            if let Err(error) = deleted {
                failures.add(error);
            }
        }
        failures
    }

    async fn update_status(&self, tenant: &Tenant, report: &Report) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        let updated = self.status.write(tenant, |current| status(current, report, now)).await;
        let updated = updated.map_err(Error::Status)?;
        if updated == Outcome::Done {
            self.record_cordoning(tenant);
        }
        Ok(updated)
    }

    /// Records that the Tenant was cordoned or uncordoned since the last status.
    fn record_cordoning(&self, tenant: &Tenant) {
        let was_cordoned = tenant.status.as_ref().is_some_and(|status| is_true(&status.conditions, CORDONED));
        let (action, note) = match (was_cordoned, tenant.spec.cordoned) {
            (false, true) => ("Cordoned", "the Tenant is cordoned: its users cannot change anything"),
            (true, false) => ("UnCordoned", "the Tenant is no longer cordoned"),
            _ => return,
        };
        self.events.normal(tenant.object_ref(&()), reasons::CORDONED, action, note);
    }
}

/// Returns the Tenant if its annotations for numbers of objects change, which does not change its
/// generation.
fn changed_object_quotas(change: &Change<Tenant>) -> Vec<ObjectKey> {
    let quotas = |tenant: &Arc<Tenant>| shared_quotas::annotations(tenant);
    let is_changed = change.old.as_ref().map(quotas) != change.new.as_ref().map(quotas);
    is_changed.then(|| change.key.clone()).into_iter().collect()
}

/// Returns whether a change of the configuration changes the owners of Tenants.
fn changes_owners(change: &Change<CapsuleConfiguration>) -> bool {
    let relevant = |configuration: &Arc<CapsuleConfiguration>| {
        let spec = configuration.spec.clone();
        (spec.administrators, spec.allow_service_account_promotion, spec.rbac)
    };
    change.old.as_ref().map(relevant) != change.new.as_ref().map(relevant)
}

/// Returns the Tenants that select a `TenantOwner` before or after the change.
fn tenants_of_owner(change: &Change<TenantOwner>, tenants: &[Arc<Tenant>]) -> Vec<ObjectKey> {
    if !is_relevant_change(change) {
        return Vec::new();
    }
    let is_affected = |tenant: &&Arc<Tenant>| {
        let selectors = OwnerSelectors::of(tenant);
        change.states().any(|owner| selectors.matches(owner))
    };
    tenants.iter().filter(is_affected).map(|tenant| ObjectKey::of(tenant.as_ref())).collect()
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
    fn change_of_owner_requeues_tenants_that_select_it_before_or_after() {
        let tenant = |name: &str, team: &str| -> Arc<Tenant> {
            let permissions = json!({ "matchOwners": [{ "matchLabels": { "team": team } }] });
            let tenant = json!({ "metadata": { "name": name }, "spec": { "permissions": permissions } });
            Arc::new(serde_json::from_value(tenant).unwrap())
        };
        let tenants = [tenant("oil", "blue"), tenant("gas", "red"), tenant("air", "green")];
        let affected = |old, new| {
            let change = Change { key: ObjectKey::cluster("one"), old, new };
            let keys = tenants_of_owner(&change, &tenants);
            keys.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        let (blue, red) =
            (|| Some(owner(json!({ "team": "blue" }))), || Some(owner(json!({ "team": "red" }))));
        assert_eq!(affected(None, blue()), ["oil"]);
        assert_eq!(affected(blue(), red()), ["oil", "gas"]);
        assert_eq!(affected(blue(), blue()), [] as [String; 0]);
    }
}

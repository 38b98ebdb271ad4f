//! The reconcile of both kinds.

use std::{sync::Arc, time::Duration};

use capsule::api::{
    names::{FINALIZER, LEGACY_REPLICATION_FINALIZER, RECONCILE_ANNOTATION},
    v1beta2::{ProcessedItem, ReplicationScope, ServiceAccountReference},
};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams},
};
use operator_core::{
    ControllerBuilder, ObjectKey, Outcome, SelfSubject,
    error::{chain, is_conflict, is_not_found},
    finalizer,
    informer::Informer,
    kind::{describe, uid},
    status::StatusWriter,
    write::WriteError,
};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    access::{Access, Bounds},
    caches::Caches,
    dependencies,
    discovery::Discovery,
    endpoint::endpoint,
    error::{Error, Failure},
    gather::{self, Scope},
    identity::{ACT_AS_MANAGER, Identity, identity},
    impersonation::ImpersonatingClients,
    item::Item,
    memo::Memo,
    plan::{Plan, announced, plan, sorted},
    resource::{Reach, Replication},
    resync,
    status::{Account, Ready, Report, status},
    target::{TenantNamespaces, select_tenants, targets},
    triggers::{self, dependency_names, dependency_state},
    writer::Writer,
};

/// Number of attempts of a status write that has to wait, because another one was sent just before.
const STATUS_ATTEMPTS: usize = 3;

/// Reconciles the objects of one kind.
pub(crate) struct Reconciler<K: Replication> {
    client: Client,
    objects: Informer<K>,
    status: StatusWriter<K>,
    caches: Caches,
    clients: ImpersonatingClients,
    discovery: Discovery,
    manager: SelfSubject,
    memo: Memo,
    act_as_manager: bool,
}

/// Who acts, with a client.
struct Actor {
    client: Client,
    account: Option<ServiceAccountReference>,
}

/// Where items go.
struct Destination {
    scope: Scope,
    bounds: Bounds,
    tenants: Vec<String>,
}

impl<K: Replication> Reconciler<K> {
    /// Requests the informers, and declares the watches.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, K>) -> Self {
        triggers::build(builder);
        let client = builder.client();
        Self {
            objects: builder.objects().clone(),
            status: builder.status(),
            caches: Caches::build(builder),
            clients: ImpersonatingClients::new(client.clone(), builder.connector()),
            discovery: Discovery::new(client.clone()),
            manager: SelfSubject::new(client.clone()),
            memo: Memo::default(),
            act_as_manager: builder.setting(&ACT_AS_MANAGER) == "true",
            client,
        }
    }

    /// Returns the informer of the kind.
    pub(crate) fn objects(&self) -> &Informer<K> {
        &self.objects
    }

    /// Replicates the items of an object, and reports the result.
    pub(crate) async fn reconcile(&self, object: Arc<K>) -> Result<Outcome, Error> {
        if object.fields().cordoned {
            return Ok(self.write_status(&object, &Report::new(Ready::Unchanged)).await?);
        }
        let mut report = Report::new(Ready::Succeeded);
        let result = self.replicate(&object, &mut report).await;
        if let Err(failure) = &result {
            match failure.message() {
                Some(message) => report.ready = Ready::Failed(message),
                None => return Ok(result.map(|()| Outcome::Done)?),
            }
        }
        let object = self.objects.latest(object);
        let written = self.write_status(&object, &report).await?;
        let object = self.objects.latest(object);
        self.remove_request(&object).await?;
        result?;
        let object = self.objects.latest(object);
        self.remove_finalizers(&object).await?;
        let period = resync::period(object.fields().resync_period);
        let again = period.map_or(Outcome::Done, |period| {
            Outcome::RequeueAfter(resync::with_jitter(period, fastrand::f64()))
        });
        Ok(written.and(again))
    }

    /// Prunes all items of an object that is being deleted.
    pub(crate) async fn cleanup(&self, object: Arc<K>) -> Result<Outcome, Error> {
        if !finalizer::has(object.as_ref(), FINALIZER)
            && !finalizer::has(object.as_ref(), LEGACY_REPLICATION_FINALIZER)
        {
            return Ok(Outcome::Done);
        }
        let processed = self.in_active_namespaces(object.common_status().processed_items);
        let result = self.prune_all(&object, processed).await;
        // The account of a terminating namespace can be gone, and the deletion must not wait.
        let is_terminating = object.namespace().is_some_and(|namespace| !self.caches.is_active(&namespace));
        if let (Err(failure), false) = (result, is_terminating) {
            let (failure, items) = *failure;
            let ready = Ready::Failed(failure.message().unwrap_or_default());
            self.write_status(&object, &Report { items, ..Report::new(ready) }).await?;
            return Err(failure.into());
        }
        self.memo.retain(&self.name(&object), |_| false);
        self.remove(&object, FINALIZER).await?;
        let object = self.objects.latest(object);
        self.remove(&object, LEGACY_REPLICATION_FINALIZER).await?;
        Ok(Outcome::Done)
    }

    async fn replicate(&self, object: &Arc<K>, report: &mut Report) -> Result<(), Failure> {
        self.check_dependencies(object)?;
        let actor = self.actor(object).await?;
        report.account = Account::Acting(actor.account.clone());
        let destination = self.destination(object)?;
        report.tenants = Some(destination.tenants);
        let resources = object.fields().resources;
        let items = gather::gather(&actor.client, &self.discovery, resources, destination.scope).await?;
        let items = items.into_iter().filter(|item| self.is_reachable(&item.key.object.namespace)).collect();
        let (plan, processed) = self.announce(object, items, report).await?;
        let writer = self.writer(object, actor.client, destination.bounds);
        let pruned = writer.prune(&plan).await;
        if let Some(failure) = Failure::of_pruning(&pruned) {
            let is_planned = |item: &ProcessedItem| {
                let object = crate::item::ItemKey::of(item).object;
                plan.get(&object).is_some_and(|work| !work.items.is_empty())
            };
            let rest = processed.into_iter().filter(is_planned);
            report.items = Some(sorted(rest.chain(pruned.items).collect()));
            return Err(failure);
        }
        let applied = writer.apply(&plan, &processed).await;
        let failure = Failure::of_applying(&applied);
        report.items = Some(sorted(applied.items));
        failure.map_or(Ok(()), Err)
    }

    /// Adds the finalizer, and lists the items in the status before any of them is written. Returns
    /// the plan, and the items in the status.
    async fn announce(
        &self,
        object: &Arc<K>,
        items: Vec<Item>,
        report: &Report,
    ) -> Result<(Plan, Vec<ProcessedItem>), Failure> {
        let before = object.common_status();
        let processed = self.in_active_namespaces(before.processed_items.clone());
        let plan = plan(items, &processed);
        if !plan.is_empty() {
            self.add_finalizer(object).await?;
        }
        let is_new = before.observed_generation != object.meta().generation;
        let announced = announced(&plan, &processed);
        if !is_new && announced.is_none() {
            return Ok((plan, processed));
        }
        let items = announced.unwrap_or(processed);
        let ready = if is_new { Ready::Reconciling } else { Ready::Unchanged };
        let progress = Report { ready, items: Some(items.clone()), ..report.clone() };
        self.write_status(&self.objects.latest(object.clone()), &progress).await?;
        Ok((plan, items))
    }

    async fn prune_all(
        &self,
        object: &K,
        processed: Vec<ProcessedItem>,
    ) -> Result<(), Box<(Failure, Option<Vec<ProcessedItem>>)>> {
        if processed.is_empty() {
            return Ok(());
        }
        let failed = |failure: Failure| Box::new((failure, None));
        let actor = self.actor(object).await.map_err(failed)?;
        let bounds = match object.reach() {
            Reach::Tenants(..) => Bounds::Cluster,
            // Without a Tenant, nothing is in reach, and the items are forgotten.
            Reach::TenantOf(home) => {
                let tenant = self.caches.tenant_of(home);
                let tenant = tenant.map(|tenant| self.caches.with_namespaces(tenant));
                Bounds::Namespaces(tenant.iter().flat_map(TenantNamespaces::names).collect())
            }
        };
        let pruned = self.writer(object, actor.client, bounds).prune(&plan(Vec::new(), &processed)).await;
        match Failure::of_pruning(&pruned) {
            Some(failure) => Err(Box::new((failure, Some(sorted(pruned.items))))),
            None => Ok(()),
        }
    }

    fn check_dependencies(&self, object: &K) -> Result<(), Failure> {
        let namespace = object.namespace();
        let find = |name: &str| {
            let found = self.objects.store().get(&K::key_within(namespace.as_deref(), name));
            found.map(|found| dependency_state(found.as_ref()))
        };
        Ok(dependencies::check(&object.name_any(), &dependency_names(object), find)?)
    }

    async fn actor(&self, object: &K) -> Result<Actor, Failure> {
        let settings = self.caches.impersonation();
        let identity = identity(object, &settings, self.act_as_manager)?;
        let failed = |account: String, error: &dyn std::fmt::Display| Failure::Impersonation {
            account,
            message: error.to_string(),
        };
        let account = match &identity {
            Identity::Account(account) => Some(account.clone()),
            Identity::Manager => {
                let user = self.manager.username().await;
                let user = user.map_err(|error| failed("the manager".to_owned(), &chain(&error)))?;
                ServiceAccountReference::of_user(user)
            }
        };
        let endpoint = match identity {
            Identity::Account(_) => {
                endpoint(&self.client, &settings, self.caches.manager_namespace()).await?
            }
            Identity::Manager => None,
        };
        let client = self.clients.of(&identity, endpoint).map_err(|error| {
            let account = account.as_ref().map(ServiceAccountReference::user_name);
            failed(account.unwrap_or_default(), &chain(&error))
        })?;
        Ok(Actor { client, account })
    }

    fn destination(&self, object: &K) -> Result<Destination, Failure> {
        match object.reach() {
            Reach::TenantOf(home) => {
                let tenant = self.caches.tenant_of(home).ok_or_else(|| Failure::NoTenant(home.to_owned()))?;
                let tenant = self.caches.with_namespaces(tenant);
                let names: Vec<_> = tenant.names().collect();
                Ok(Destination {
                    bounds: Bounds::Namespaces(names.iter().cloned().collect()),
                    scope: Scope {
                        targets: targets(&[tenant], ReplicationScope::Namespace),
                        tenant_namespaces: Some(names),
                        home: Some(home.to_owned()),
                    },
                    tenants: Vec::new(),
                })
            }
            Reach::Tenants(selector, scope) => {
                let tenants = select_tenants(self.caches.tenants(), selector)?;
                let tenants: Vec<_> =
                    tenants.into_iter().map(|tenant| self.caches.with_namespaces(tenant)).collect();
                Ok(Destination {
                    bounds: Bounds::Cluster,
                    tenants: tenants.iter().map(|one| one.tenant.name_any()).collect(),
                    scope: Scope { targets: targets(&tenants, scope), tenant_namespaces: None, home: None },
                })
            }
        }
    }

    fn writer(&self, object: &K, client: Client, bounds: Bounds) -> Writer<'_> {
        let spec = object.fields();
        Writer {
            access: Access::new(client, &self.discovery, bounds),
            replication: self.name(object),
            settings: spec.settings,
            prunes: spec.pruning_on_delete,
            owner: object.owner_reference(),
            memo: &self.memo,
            now: Timestamp::now(),
        }
    }

    #[allow(clippy::unused_self, reason = "the name belongs to the kind of the reconciler")]
    fn name(&self, object: &K) -> String {
        describe::<K>(&ObjectKey::of(object))
    }

    /// Returns the items whose namespaces exist. The others are gone with their namespaces.
    fn in_active_namespaces(&self, items: Vec<ProcessedItem>) -> Vec<ProcessedItem> {
        items.into_iter().filter(|item| self.is_reachable(&item.namespace)).collect()
    }

    fn is_reachable(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.caches.is_active(namespace)
    }

    async fn write_status(&self, object: &K, report: &Report) -> Result<Outcome, Failure> {
        let now = Timestamp::now();
        let mut outcome = Outcome::Done;
        for _ in 0..STATUS_ATTEMPTS {
            let next = |current: &K| status(current, report, now);
            outcome = self.status.write(object, next).await.map_err(Failure::Status)?;
            let Outcome::RequeueAfter(wait) = outcome else { break };
            sleep(wait.min(Duration::from_secs(1))).await;
        }
        Ok(outcome)
    }

    async fn add_finalizer(&self, object: &Arc<K>) -> Result<(), Failure> {
        let object = self.objects.latest(object.clone());
        let epoch = self.objects.store().epoch();
        let added =
            finalizer::add(&self.client, object.as_ref(), FINALIZER).await.map_err(Failure::Finalizer)?;
        if let Some(added) = added {
            self.objects.record_write(epoch, added);
        }
        Ok(())
    }

    /// Removes the finalizer of an object without items, and always that of older versions of
    /// Capsule.
    async fn remove_finalizers(&self, object: &Arc<K>) -> Result<(), Failure> {
        self.remove(object, LEGACY_REPLICATION_FINALIZER).await?;
        let object = self.objects.latest(object.clone());
        if object.common_status().processed_items.is_empty() {
            self.remove(&object, FINALIZER).await?;
        }
        Ok(())
    }

    async fn remove(&self, object: &K, name: &str) -> Result<(), Failure> {
        finalizer::remove(&self.client, object, name).await.map_err(Failure::Finalizer)
    }

    /// Removes the annotation that requests a reconcile. If it was changed since, it stays and
    /// triggers another one.
    async fn remove_request(&self, object: &K) -> Result<(), Failure> {
        if !object.annotations().contains_key(RECONCILE_ANNOTATION) {
            return Ok(());
        }
        let key = ObjectKey::of(object);
        let patch = json!({ "metadata": {
            "uid": uid(object),
            "resourceVersion": object.resource_version(),
            "annotations": { RECONCILE_ANNOTATION: null },
        }});
        let api = K::api(self.client.clone(), key.namespace());
        match api.patch_metadata(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(error) if !is_conflict(&error) && !is_not_found(&error) => {
                Err(Failure::Annotation(WriteError::Api {
                    action: "remove the annotation that requests a reconcile from",
                    object: describe::<K>(&key),
                    source: error,
                }))
            }
            _ => Ok(()),
        }
    }
}

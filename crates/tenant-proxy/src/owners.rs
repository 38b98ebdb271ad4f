//! What users see, from caches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use capsule::{
    Tenant,
    api::{
        proxy_settings::{ClusterResource, GlobalProxySettings, ProxySetting},
        v1beta2::{
            CapsuleConfiguration, CapsuleConfigurationSpec, DefaultAllowedList, ProxyOperation,
            ProxySettings, TenantOwner,
        },
    },
    owner_indexes::{OwnerIndexes, Subject, key},
    subjects::{Relations, Requester, Role, account_owners, role},
};
use k8s_openapi::api::{authentication::v1::UserInfo, rbac::v1::RoleBinding};
use kube::{Api, Client, ResourceExt, api::ListParams};
use operator_core::{
    informer::{Change, Index, Informer, Informers, Selection, Subscription},
    kind::{Kind, ObjectKey},
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::debug;

use crate::{
    bound_namespaces::BoundNamespaces,
    ownership_log::{OwnershipChange, OwnershipLog},
    scope::Scope,
    view::{View, ViewKind},
};

/// Time until the version of the API server is read again after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Time for which a watch of a cache can fail before there are no views any more.
const MAX_FAILURE: Duration = Duration::from_mins(1);

/// Caches of what says who sees what. Cheap to clone.
#[derive(Clone)]
pub struct Owners(Arc<Caches>);

struct Caches {
    tenants: Informer<Tenant>,
    tenant_owners: Informer<TenantOwner>,
    configurations: Informer<CapsuleConfiguration>,
    settings: Informer<ProxySetting>,
    global_settings: Informer<GlobalProxySettings>,
    owners: OwnerIndexes,
    tenants_by_account: Index<Tenant, String>,
    /// Where RoleBindings make namespaces visible.
    bound: Option<BoundNamespaces>,
    settings_by_subject: Index<ProxySetting, Subject>,
    global_settings_by_subject: Index<GlobalProxySettings, Subject>,
    /// Name of the configuration that is used.
    configuration: ObjectKey,
    changes: Arc<Changes>,
    /// The watches of the caches end with it.
    _informers: Informers,
    _subscriptions: [Subscription; 4],
}

/// Changes of the caches.
#[derive(Default)]
struct Changes {
    log: Mutex<OwnershipLog>,
    /// Number of changes.
    number: watch::Sender<u64>,
}

impl Changes {
    fn add(&self, changed: OwnershipChange) {
        self.log.lock().add(changed, Instant::now());
        self.number.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Adds the change of a Tenant, unless it changes nothing for any user.
    fn add_tenant(&self, change: &Change<Tenant>, settings: &Informer<ProxySetting>) {
        let (old, new) = (change.old.clone(), change.new.clone());
        let has_changed = rules(old.as_deref()) != rules(new.as_deref());
        let subjects = guests(old.as_deref(), new.as_deref(), has_changed, settings);
        if has_changed {
            self.add(OwnershipChange::Tenant { old, new });
        }
        if !subjects.is_empty() {
            self.add(OwnershipChange::Subjects(subjects));
        }
    }

    /// Adds the change of settings, unless their subjects see the same as before.
    fn add_settings<K: Kind, S: PartialEq>(
        &self,
        change: &Change<K>,
        spec: impl Fn(&K) -> &S,
        subjects: impl Fn(&K) -> Vec<Subject>,
    ) {
        if change.old.as_deref().map(&spec) != change.new.as_deref().map(&spec) {
            let subjects = change.states().flat_map(|settings| subjects(settings)).collect();
            self.add(OwnershipChange::Subjects(subjects));
        }
    }
}

/// What no cache of the proxy says: the bindings of a user, and the namespaces of ServiceAccounts.
struct NoRelations;

impl Relations for NoRelations {
    fn is_bound(&self) -> bool {
        false
    }

    fn is_owner(&self) -> bool {
        false
    }

    fn is_member(&self, _namespace: &str) -> bool {
        false
    }
}

impl Owners {
    /// Starts the caches. `configuration` is the name of the CapsuleConfiguration. With `role_bindings`, users
    /// see the namespaces with a RoleBinding for them. Must be called within a Tokio runtime.
    pub fn new(informers: Informers, configuration: &str, role_bindings: bool) -> Self {
        let tenants = informers.get::<Tenant>(Selection::All);
        let tenant_owners = informers.get::<TenantOwner>(Selection::All);
        let configurations = informers.get::<CapsuleConfiguration>(Selection::All);
        let settings = informers.get::<ProxySetting>(Selection::All);
        let global_settings = informers.get::<GlobalProxySettings>(Selection::All);
        let changes = Arc::<Changes>::default();
        let [of_tenants, of_owners, of_settings, of_global, of_bindings] = [(); 5].map(|()| changes.clone());
        let bound = role_bindings.then(|| {
            let bindings = informers.get::<RoleBinding>(Selection::All);
            let record = move |subjects| of_bindings.add(OwnershipChange::RoleBinding(subjects));
            BoundNamespaces::new(bindings, tenants.clone(), record)
        });
        let of_namespaces = settings.clone();
        let subscriptions = [
            tenants.subscribe(move |change| of_tenants.add_tenant(change, &of_namespaces)),
            tenant_owners.subscribe(move |change| {
                if matched(change.old.as_deref()) != matched(change.new.as_deref()) {
                    of_owners.add(OwnershipChange::TenantOwner(change.states().cloned().collect()));
                }
            }),
            settings.subscribe(move |change| of_settings.add_settings(change, |one| &one.spec, subjects)),
            global_settings
                .subscribe(move |change| of_global.add_settings(change, |one| &one.spec, global_subjects)),
        ];
        Self(Arc::new(Caches {
            owners: OwnerIndexes::new(&tenants, &tenant_owners),
            tenants_by_account: tenants
                .store()
                .index(|tenant: &Tenant| account_owners(tenant).map(str::to_owned).collect()),
            bound,
            settings_by_subject: settings.store().index(subjects),
            global_settings_by_subject: global_settings.store().index(global_subjects),
            tenants,
            tenant_owners,
            configurations,
            settings,
            global_settings,
            configuration: ObjectKey::cluster(configuration),
            changes,
            _informers: informers,
            _subscriptions: subscriptions,
        }))
    }

    /// Returns why the caches do not say who owns what, if they do not: they are not filled, or the watch of one
    /// has failed for a minute.
    pub fn unavailable(&self) -> Option<String> {
        let caches = &self.0;
        let bindings = caches.bound.as_ref().map(BoundNamespaces::bindings);
        [
            unavailable(&caches.tenants),
            unavailable(&caches.tenant_owners),
            unavailable(&caches.configurations),
            unavailable(&caches.settings),
            unavailable(&caches.global_settings),
            bindings.and_then(unavailable),
        ]
        .into_iter()
        .flatten()
        .next()
    }

    /// Returns what a user sees of a view. `None`: nothing grants the user the view.
    pub fn scope(&self, user: &UserInfo, view: &View) -> Option<Scope> {
        let requester = Requester::of(user);
        let kind = view.kind();
        if kind.is_owned() {
            let seen = self.seen_by_settings(&requester).into_iter().map(|(tenant, _)| tenant.name_any());
            let tenants: BTreeSet<_> = self.owned(&requester).into_keys().chain(seen).collect();
            let bound = self.0.bound.as_ref().filter(|_| kind == ViewKind::Namespaces);
            let namespaces = bound.map(|bound| bound.of(&requester, &tenants)).unwrap_or_default();
            let is_granted =
                !tenants.is_empty() || !namespaces.is_empty() || self.is_capsule_user(&requester);
            return is_granted.then(|| Scope { tenants, namespaces, ..Scope::default() });
        }
        let mut scope = Scope::default();
        let mut is_granted = false;
        for (name, tenant) in self.tenants_with_setting(&requester, kind) {
            is_granted = true;
            if kind == ViewKind::PersistentVolumes {
                scope.tenants.insert(name);
            } else if let Some(list) = classes(&tenant, kind)
                && !scope.classes.contains(list)
            {
                scope.classes.push(list.clone());
            }
        }
        for rule in self.cluster_resources(&requester) {
            if rule.is_for(view.resource(), view.operation()) && !scope.selectors.contains(&rule.selector) {
                scope.selectors.push(rule.selector);
            }
        }
        (is_granted || !scope.selectors.is_empty()).then_some(scope)
    }

    /// Returns the Tenants that a user owns, also as a promoted ServiceAccount, by name.
    fn owned(&self, user: &Requester<'_>) -> BTreeMap<String, Arc<Tenant>> {
        let owners = &self.0.owners;
        let by_account = self.0.tenants_by_account.get(&user.name().to_owned());
        let by_account = by_account.into_iter().map(|tenant| (tenant.name_any(), tenant));
        owners.owned(user, &owners.tenant_owners(user)).into_iter().chain(by_account).collect()
    }

    /// Returns the Tenants that a user sees by ProxySettings in their namespaces, and the settings of the
    /// user.
    fn seen_by_settings(&self, user: &Requester<'_>) -> Vec<(Arc<Tenant>, Vec<ProxySettings>)> {
        let found = user.subjects().flat_map(|subject| self.0.settings_by_subject.get(&key(subject)));
        found
            .filter_map(|settings| {
                let tenant = self.tenant_of(&settings.namespace()?)?;
                let subjects = settings.spec.subjects.iter();
                let of_user = subjects.filter(|subject| user.is(subject.kind, &subject.name));
                Some((tenant, of_user.flat_map(|subject| subject.proxy_settings.clone()).collect()))
            })
            .collect()
    }

    /// Returns the Tenant of a namespace.
    fn tenant_of(&self, namespace: &str) -> Option<Arc<Tenant>> {
        // Only the manager writes the status.
        let all = self.0.tenants.store().list();
        all.into_iter().find(|tenant| namespaces(Some(tenant)).iter().any(|name| name == namespace))
    }

    /// Returns the Tenants whose settings let a user list a kind, by name.
    fn tenants_with_setting(&self, user: &Requester<'_>, kind: ViewKind) -> BTreeMap<String, Arc<Tenant>> {
        let Some(kind) = kind.setting() else { return BTreeMap::new() };
        let lists = |settings: &[ProxySettings]| {
            settings.iter().any(|one| one.kind == kind && one.operations.contains(&ProxyOperation::List))
        };
        let is_listed = |tenant: &Arc<Tenant>| {
            let mut entries = tenant.spec.owners.iter().filter(|owner| user.is(owner.kind, &owner.name));
            entries.any(|owner| lists(&owner.proxy_settings))
        };
        let owned = self.owned(user).into_iter().filter(|(_, tenant)| is_listed(tenant));
        let seen = self.seen_by_settings(user).into_iter();
        let seen =
            seen.filter(|(_, settings)| lists(settings)).map(|(tenant, _)| (tenant.name_any(), tenant));
        owned.chain(seen).collect()
    }

    /// Returns the rules of GlobalProxySettings for a user, in the order of their objects.
    pub fn cluster_resources(&self, user: &Requester<'_>) -> Vec<ClusterResource> {
        let found = user.subjects().flat_map(|subject| self.0.global_settings_by_subject.get(&key(subject)));
        let mut found: Vec<_> = found.collect();
        found.sort_by_cached_key(|settings| settings.name_any());
        found.dedup_by(|one, other| one.metadata.name == other.metadata.name);
        let rules = found.iter().flat_map(|settings| &settings.spec.rules);
        let of_user =
            rules.filter(|rule| rule.subjects.iter().any(|subject| user.is(subject.kind, &subject.name)));
        of_user.flat_map(|rule| rule.cluster_resources.clone()).collect()
    }

    /// Returns whether a rule of a GlobalProxySettings is for a view, whoever its subjects are.
    pub fn has_rule_for(&self, view: &View) -> bool {
        let all = self.0.global_settings.store().list();
        let mut resources =
            all.iter().flat_map(|settings| &settings.spec.rules).flat_map(|rule| &rule.cluster_resources);
        resources.any(|rule| rule.is_for(view.resource(), view.operation()))
    }

    /// Returns whether a user owns a Tenant.
    pub fn is_owner(&self, user: &UserInfo) -> bool {
        !self.owned(&Requester::of(user)).is_empty()
    }

    /// Returns whether a user owns a Tenant, or may own one.
    pub fn may_own(&self, user: &UserInfo) -> bool {
        self.is_capsule_user(&Requester::of(user)) || self.is_owner(user)
    }

    /// Returns whether a user may own Tenants, so that an empty list is a response.
    fn is_capsule_user(&self, user: &Requester<'_>) -> bool {
        let found = self.0.configurations.store().get(&self.0.configuration);
        let default = CapsuleConfigurationSpec::default();
        let configuration = found.as_ref().map_or(&default, |found| &found.spec);
        let tenant_owners = self.0.owners.tenant_owners(user);
        role(user, "", configuration, &tenant_owners, &NoRelations) == Role::CapsuleUser
    }

    /// Completes when a user sees something else of a view than `scope` says.
    pub fn until_changed(
        &self,
        user: Arc<UserInfo>,
        view: View,
        scope: Scope,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (owners, mut changes) = (self.clone(), self.0.changes.number.subscribe());
        async move {
            while owners.scope(&user, &view).as_ref() == Some(&scope) {
                // The sender lives as long as `owners`.
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Returns whether a user may see something else of a kind than when the API server had this version.
    pub fn has_changed_since(&self, version: u64, user: &UserInfo, kind: ViewKind) -> bool {
        let requester = Requester::of(user);
        let tenant_owners = self.0.owners.tenant_owners(&requester);
        let log = self.0.changes.log.lock();
        log.has_changed_since(version, (&requester, &tenant_owners), kind, Instant::now())
    }

    /// Reads the version of the API server after each change, for as long as it is polled.
    pub async fn read_versions(self, client: Client) {
        let Caches { tenants, tenant_owners, settings, global_settings, bound, changes, .. } = &*self.0;
        let mut all =
            vec![tenants.synced(), tenant_owners.synced(), settings.synced(), global_settings.synced()];
        all.extend(bound.as_ref().map(|bound| bound.bindings().synced()));
        for mut synced in all {
            // The sender lives as long as the caches.
            drop(synced.wait_for(|synced| *synced).await);
        }
        changes.log.lock().begin();
        let api = Api::<Tenant>::all(client);
        let mut changed = changes.number.subscribe();
        loop {
            changed.mark_unchanged();
            let unresolved = changes.log.lock().unresolved();
            let Some(number) = unresolved else {
                drop(changed.changed().await);
                continue;
            };
            match version(&api).await {
                Ok(version) => changes.log.lock().resolve(number, version),
                Err(error) => {
                    debug!(error = format!("{error:#}"), "cannot read the version of the API server");
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// Returns why a cache cannot be used, if it cannot.
fn unavailable<K: Kind>(cache: &Informer<K>) -> Option<String> {
    if !cache.is_synced() {
        return Some(format!("its cache of {} is not filled", K::plural(&())));
    }
    let has_failed = cache.has_failed_for(MAX_FAILURE);
    has_failed.then(|| format!("it could not watch {} for a minute", K::plural(&())))
}

/// Returns what says who owns a Tenant, and what its owners see.
fn rules(tenant: Option<&Tenant>) -> Option<impl PartialEq> {
    let all = [
        ViewKind::StorageClasses,
        ViewKind::IngressClasses,
        ViewKind::PriorityClasses,
        ViewKind::RuntimeClasses,
    ];
    tenant.map(|tenant| {
        let accounts: Vec<_> = account_owners(tenant).collect();
        (&tenant.spec.owners, &tenant.spec.permissions, accounts, all.map(|kind| classes(tenant, kind)))
    })
}

/// Returns the classes of a kind that a Tenant allows. `None`: the Tenant does not say.
fn classes(tenant: &Tenant, kind: ViewKind) -> Option<&DefaultAllowedList> {
    match kind {
        ViewKind::StorageClasses => tenant.spec.storage_classes.as_ref(),
        ViewKind::IngressClasses => tenant.spec.ingress_options.as_ref()?.allowed_classes.as_ref(),
        ViewKind::PriorityClasses => tenant.spec.priority_classes.as_ref(),
        ViewKind::RuntimeClasses => tenant.spec.runtime_classes.as_ref(),
        ViewKind::Namespaces
        | ViewKind::Tenants
        | ViewKind::PersistentVolumes
        | ViewKind::ClusterResources => None,
    }
}

/// Returns the namespaces of a Tenant.
fn namespaces(tenant: Option<&Tenant>) -> &[String] {
    tenant.and_then(|tenant| tenant.status.as_ref()).map_or(&[], |status| &status.namespaces)
}

/// Returns the subjects of ProxySettings in the namespaces of a Tenant that has changed. If the Tenant is as
/// before, only of those that have joined or left it.
fn guests(
    old: Option<&Tenant>,
    new: Option<&Tenant>,
    has_changed: bool,
    settings: &Informer<ProxySetting>,
) -> Vec<Subject> {
    let (old, new) = (namespaces(old), namespaces(new));
    if settings.store().is_empty() || (old == new && !has_changed) {
        return Vec::new();
    }
    let is_concerned = |namespace: &String| match (old.contains(namespace), new.contains(namespace)) {
        (true, true) => has_changed,
        (was_in, is_in) => was_in || is_in,
    };
    let all = settings.store().list().into_iter();
    let concerned = all.filter(|settings| settings.metadata.namespace.as_ref().is_some_and(is_concerned));
    concerned.flat_map(|settings| subjects(&settings)).collect()
}

/// Returns the subjects of a ProxySetting.
fn subjects(settings: &ProxySetting) -> Vec<Subject> {
    settings.spec.subjects.iter().map(|subject| (subject.kind, subject.name.clone())).collect()
}

/// Returns the subjects of a GlobalProxySettings.
fn global_subjects(settings: &GlobalProxySettings) -> Vec<Subject> {
    let all = settings.spec.rules.iter().flat_map(|rule| &rule.subjects);
    all.map(|subject| (subject.kind, subject.name.clone())).collect()
}

/// Returns what Tenants and users match.
fn matched(owner: Option<&TenantOwner>) -> Option<impl PartialEq> {
    owner.map(|owner| (&owner.spec, &owner.metadata.labels))
}

/// Returns the present version of the API server.
async fn version(tenants: &Api<Tenant>) -> anyhow::Result<u64> {
    // Without a version in the request, the API server reads the present one.
    let list = tenants.list_metadata(&ListParams::default().limit(1)).await?;
    Ok(list.metadata.resource_version.unwrap_or_default().parse()?)
}

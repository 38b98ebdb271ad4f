//! Finds the Tenant of a namespace in the caches. Caches may lag behind: the resolver waits for a
//! missing namespace, and reads a missing Tenant from the API server.

use std::{sync::Arc, time::Duration};

use capsule::api::{names::TENANT_LABEL, v1beta2::Tenant};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    admission::{BoxError, Caches, Denial},
    informer::{Informer, Selection, Store},
    kind::Kind,
};
use tokio::{sync::Notify, time::timeout};

use super::live_tenants::{LiveError, LiveTenants};

/// Maximum time to wait for a cache.
const CACHE_TIMEOUT: Duration = Duration::from_millis(500);

/// Error while the Tenant of a namespace is resolved.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    /// The cache does not contain the namespace with its label.
    #[error("namespace {0} is not in the cache of the manager yet; try again")]
    NamespaceNotCached(String),
    /// The Tenant is not in the cache, and the live read failed.
    #[error(transparent)]
    Live(#[from] LiveError),
}

impl ResolveError {
    /// Returns a denial if a retry cannot succeed, otherwise the error.
    pub(super) fn into_denial(self) -> Result<Denial, BoxError> {
        match self {
            Self::Live(error) => error.into_denial(),
            error @ Self::NamespaceNotCached(_) => Err(error.into()),
        }
    }
}

/// Finds the Tenant of a namespace by the label of the namespace.
pub(super) struct TenantResolver {
    namespaces: Informer<Namespace>,
    pub(super) tenants: TenantReader,
}

impl TenantResolver {
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        Self { namespaces: caches.informer(Selection::All), tenants: TenantReader::build(caches) }
    }

    /// Returns the Tenant of a namespace, or `None` if the API server has no Tenant of that name.
    ///
    /// # Errors
    /// Returns an error if the namespace is not in the cache yet, or the Tenant cannot be read.
    pub(super) async fn resolve(&self, namespace: &str) -> Result<Option<Arc<Tenant>>, ResolveError> {
        let labelled = |namespace: &Namespace| namespace.labels().contains_key(TENANT_LABEL);
        let Some(found) = wait_for_cache(&self.namespaces, &ObjectKey::cluster(namespace), labelled).await
        else {
            return Err(ResolveError::NamespaceNotCached(namespace.to_owned()));
        };
        let Some(name) = found.labels().get(TENANT_LABEL) else { return Ok(None) };
        Ok(self.tenants.get(name).await?)
    }
}

/// Reads Tenants from the cache, or from the API server if the cache does not contain them.
pub(super) struct TenantReader {
    cached: Informer<Tenant>,
    live: LiveTenants,
}

impl TenantReader {
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        Self { cached: caches.informer(Selection::All), live: LiveTenants::new(caches.reader()) }
    }

    /// The cache.
    pub(super) fn store(&self) -> &Store<Tenant> {
        self.cached.store()
    }

    /// Returns a Tenant by name, or `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the API server does not respond, or the Tenant cannot be read.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Arc<Tenant>>, LiveError> {
        match self.store().get(&ObjectKey::cluster(name)) {
            Some(tenant) => Ok(Some(tenant)),
            None => self.live.get(name).await,
        }
    }
}

/// Waits until the cache contains an object that satisfies the predicate. Returns `None` after
/// [`CACHE_TIMEOUT`].
pub(super) async fn wait_for_cache<K: Kind>(
    informer: &Informer<K>,
    key: &ObjectKey,
    predicate: impl Fn(&K) -> bool,
) -> Option<Arc<K>> {
    let get = || informer.store().get(key).filter(|object| predicate(object));
    if let Some(object) = get() {
        return Some(object);
    }
    let changed = Arc::new(Notify::new());
    let (notify, watched) = (changed.clone(), key.clone());
    let _subscription = informer.subscribe(move |change| {
        if change.key == watched {
            notify.notify_one();
        }
    });
    let wait = async {
        loop {
            if let Some(object) = get() {
                break object;
            }
            changed.notified().await;
        }
    };
    timeout(CACHE_TIMEOUT, wait).await.ok()
}

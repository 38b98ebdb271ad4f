//! The Tenant of a namespace, from the caches. Those may be behind: a namespace that is not there yet is waited for, and a
//! Tenant that is not there is read from the API server.

use std::{sync::Arc, time::Duration};

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
use crate::api::{names::TENANT_LABEL, v1beta2::Tenant};

/// How far behind a cache may be.
const PATIENCE: Duration = Duration::from_millis(500);

/// Why the Tenant of a namespace is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum TenancyError {
    /// The cache does not know that the namespace belongs to a Tenant, which the API server does.
    #[error("the manager does not know namespace {0} yet; try again")]
    UnknownNamespace(String),
    /// The Tenant is not in the cache, and could not be read otherwise.
    #[error(transparent)]
    Live(#[from] LiveError),
}

impl TenancyError {
    /// Returns the refusal of a request in the namespace, or the error if trying again helps.
    pub(super) fn into_denial(self) -> Result<Denial, BoxError> {
        match self {
            Self::Live(error) => error.into_denial(),
            error @ Self::UnknownNamespace(_) => Err(error.into()),
        }
    }
}

/// Finds the Tenant that a namespace belongs to by its label, as the API server does that asks.
pub(super) struct Tenancy {
    namespaces: Informer<Namespace>,
    pub(super) tenants: Tenants,
}

impl Tenancy {
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        Self { namespaces: caches.informer(Selection::All), tenants: Tenants::build(caches) }
    }

    /// Returns the Tenant of a namespace; none if the API server has no Tenant of that name.
    ///
    /// # Errors
    /// [`TenancyError`]: it is not known whether there is one, or what it says.
    pub(super) async fn of(&self, namespace: &str) -> Result<Option<Arc<Tenant>>, TenancyError> {
        let labelled = |namespace: &Namespace| namespace.labels().contains_key(TENANT_LABEL);
        let Some(found) = seen(&self.namespaces, &ObjectKey::cluster(namespace), labelled).await else {
            return Err(TenancyError::UnknownNamespace(namespace.to_owned()));
        };
        let Some(name) = found.labels().get(TENANT_LABEL) else { return Ok(None) };
        Ok(self.tenants.get(name).await?)
    }
}

/// Tenants by name, from the cache or, where that has none, from the API server.
pub(super) struct Tenants {
    cached: Informer<Tenant>,
    live: LiveTenants,
}

impl Tenants {
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        Self { cached: caches.informer(Selection::All), live: LiveTenants::new(caches.reader()) }
    }

    /// The cache.
    pub(super) fn store(&self) -> &Store<Tenant> {
        self.cached.store()
    }

    /// Returns the Tenant of a name, if there is one.
    ///
    /// # Errors
    /// When the API server does not say, or what it has cannot be read.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Arc<Tenant>>, LiveError> {
        match self.store().get(&ObjectKey::cluster(name)) {
            Some(tenant) => Ok(Some(tenant)),
            None => self.live.get(name).await,
        }
    }
}

/// The object as soon as the cache has it as it is to be; none if it stays away.
pub(super) async fn seen<K: Kind>(
    informer: &Informer<K>,
    key: &ObjectKey,
    is_so: impl Fn(&K) -> bool,
) -> Option<Arc<K>> {
    let look = || informer.store().get(key).filter(|object| is_so(object));
    if let Some(object) = look() {
        return Some(object);
    }
    let changed = Arc::new(Notify::new());
    let (told, wanted) = (changed.clone(), key.clone());
    let _subscription = informer.subscribe(move |change| {
        if change.key == wanted {
            told.notify_one();
        }
    });
    let until_there = async {
        loop {
            if let Some(object) = look() {
                break object;
            }
            changed.notified().await;
        }
    };
    timeout(PATIENCE, until_there).await.ok()
}

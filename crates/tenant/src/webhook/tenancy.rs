//! The Tenant of a namespace, from the caches. Those are behind by a moment: what is not there yet is waited for.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    admission::{BoxError, Caches},
    informer::{Informer, Selection},
    kind::Kind,
};
use tokio::{sync::Notify, time::timeout};

use crate::api::{names::TENANT_LABEL, v1beta2::Tenant};

/// How far behind a cache may be.
const PATIENCE: Duration = Duration::from_millis(500);

/// Finds the Tenant that a namespace belongs to by its label, as the API server does that asks.
pub(super) struct Tenancy {
    namespaces: Informer<Namespace>,
    pub(super) tenants: Informer<Tenant>,
}

impl Tenancy {
    pub(super) fn wire(caches: &mut Caches<'_>) -> Self {
        Self { namespaces: caches.informer(Selection::All), tenants: caches.informer(Selection::All) }
    }

    /// The Tenant of a namespace; none if there is no Tenant of that name.
    ///
    /// # Errors
    /// When the cache does not know that the namespace belongs to a Tenant, which the API server does.
    pub(super) async fn of(&self, namespace: &str) -> Result<Option<Arc<Tenant>>, BoxError> {
        let labelled = |namespace: &Namespace| namespace.labels().contains_key(TENANT_LABEL);
        let Some(found) = seen(&self.namespaces, &ObjectKey::cluster(namespace), labelled).await else {
            return Err(format!("the manager does not know namespace {namespace} yet; try again").into());
        };
        let Some(name) = found.labels().get(TENANT_LABEL) else { return Ok(None) };
        Ok(seen(&self.tenants, &ObjectKey::cluster(name), |_| true).await)
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

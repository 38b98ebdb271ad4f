//! Opens the queue of a controller when all its informers have synced.
//!
//! In client-go, `WaitForCacheSync` waits until `HasSynced` of each informer returns true.

use std::sync::Arc;

use super::{Informer, Scope, Subscription};
use crate::{
    kind::Kind,
    queue::{Queue, SyncedNamespaces},
};

/// Returns whether an informer has synced a namespace, or the cluster.
type HasSynced = Box<dyn Fn(Option<&str>) -> bool + Send + Sync>;
/// Registers a callback that is called when another namespace has synced.
type OnSynced = Box<dyn Fn(Arc<dyn Fn() + Send + Sync>) -> Subscription + Send + Sync>;

/// The informers that a controller reads. The objects of a namespace are reconciled when all of
/// them have synced that namespace.
#[derive(Default)]
pub(crate) struct SyncedInformers {
    watched_namespaces: Vec<Option<Arc<str>>>,
    has_synced: Vec<HasSynced>,
    on_synced: Vec<OnSynced>,
}

impl SyncedInformers {
    pub(crate) fn new(scope: &Scope) -> Self {
        Self { watched_namespaces: scope.watched_namespaces(true), ..Self::default() }
    }

    /// Adds an informer that must sync.
    pub(crate) fn add<K: Kind>(&mut self, informer: &Informer<K>) {
        let (synced, subscribed) = (informer.clone(), informer.clone());
        self.has_synced.push(Box::new(move |namespace| synced.has_synced(namespace)));
        self.on_synced.push(Box::new(move |callback| subscribed.on_synced(move || callback())));
    }

    /// Opens the queue for each namespace when all informers have synced it.
    pub(crate) fn open_when_synced(self, queue: &Arc<Queue>) -> Vec<Subscription> {
        let Self { watched_namespaces, has_synced, on_synced } = self;
        let queue = queue.clone();
        let open: Arc<dyn Fn() + Send + Sync> =
            Arc::new(move || queue.open(synced_namespaces(&watched_namespaces, &has_synced)));
        let subscriptions = on_synced.iter().map(|on_synced| on_synced(open.clone())).collect();
        open();
        subscriptions
    }
}

fn synced_namespaces(watched_namespaces: &[Option<Arc<str>>], informers: &[HasSynced]) -> SyncedNamespaces {
    let synced =
        |namespace: &Option<Arc<str>>| informers.iter().all(|has_synced| has_synced(namespace.as_deref()));
    if watched_namespaces.iter().all(synced) {
        return SyncedNamespaces::All;
    }
    let synced = watched_namespaces.iter().filter(|namespace| synced(namespace));
    SyncedNamespaces::Only(synced.flatten().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(names: &'static [&'static str]) -> HasSynced {
        Box::new(|namespace| namespace.is_some_and(|namespace| names.contains(&namespace)))
    }

    #[test]
    fn opens_a_namespace_when_all_informers_have_synced_it() {
        let watched_namespaces: Vec<Option<Arc<str>>> = vec![Some("a".into()), Some("b".into())];
        let open = |informers: &[HasSynced]| synced_namespaces(&watched_namespaces, informers);
        assert_eq!(open(&[synced(&["a", "b"]), synced(&["a"])]), SyncedNamespaces::Only(["a".into()].into()));
        assert_eq!(open(&[synced(&["a"]), synced(&["b"])]), SyncedNamespaces::Only([].into()));
        assert_eq!(open(&[synced(&["a", "b"]), synced(&["b", "a"])]), SyncedNamespaces::All);
    }

    #[test]
    fn opens_the_cluster_when_all_informers_have_synced_it() {
        let open = |informers: &[HasSynced]| synced_namespaces(&[None], informers);
        assert_eq!(open(&[Box::new(|_| true), Box::new(|_| false)]), SyncedNamespaces::Only([].into()));
        assert_eq!(open(&[Box::new(|_| true)]), SyncedNamespaces::All);
    }
}

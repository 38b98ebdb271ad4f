//! When enough is known for reconciles to begin.

use std::sync::Arc;

use super::{Informer, Scope, Subscription};
use crate::{
    kind::Kind,
    queue::{Open, Queue},
};

/// Whether an informer knows all objects of a namespace, or of the cluster.
type HasSynced = Box<dyn Fn(Option<&str>) -> bool + Send + Sync>;
/// Calls back whenever that changed.
type OnSynced = Box<dyn Fn(Arc<dyn Fn() + Send + Sync>) -> Subscription + Send + Sync>;

/// The informers that a controller reads: it acts on the objects of a namespace only once all of them know it.
#[derive(Default)]
pub(crate) struct SyncedInformers {
    limits: Vec<Option<Arc<str>>>,
    informers: Vec<HasSynced>,
    turns: Vec<OnSynced>,
}

impl SyncedInformers {
    pub(crate) fn new(scope: &Scope) -> Self {
        Self { limits: scope.limits(true), ..Self::default() }
    }

    /// Adds an informer that must be synced.
    pub(crate) fn needs<K: Kind>(&mut self, informer: &Informer<K>) {
        let (synced, told) = (informer.clone(), informer.clone());
        self.informers.push(Box::new(move |namespace| synced.has_synced(namespace)));
        self.turns.push(Box::new(move |tell| told.on_synced(move || tell())));
    }

    /// Opens the queue for a namespace once all informers know it.
    pub(crate) fn open_when_synced(self, queue: &Arc<Queue>) -> Vec<Subscription> {
        let Self { limits, informers, turns } = self;
        let queue = queue.clone();
        let look: Arc<dyn Fn() + Send + Sync> = Arc::new(move || queue.open(open(&limits, &informers)));
        let subscriptions = turns.iter().map(|on_synced| on_synced(look.clone())).collect();
        look();
        subscriptions
    }
}

fn open(limits: &[Option<Arc<str>>], informers: &[HasSynced]) -> Open {
    let known = |limit: &Option<Arc<str>>| informers.iter().all(|has_synced| has_synced(limit.as_deref()));
    if limits.iter().all(known) {
        return Open::Everything;
    }
    Open::Namespaces(limits.iter().filter(|limit| known(limit)).flatten().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(names: &'static [&'static str]) -> HasSynced {
        Box::new(|namespace| namespace.is_some_and(|namespace| names.contains(&namespace)))
    }

    #[test]
    fn a_namespace_is_open_when_every_informer_knows_it() {
        let limits: Vec<Option<Arc<str>>> = vec![Some("a".into()), Some("b".into())];
        let only_a = Open::Namespaces(["a".into()].into());
        assert_eq!(open(&limits, &[knows(&["a", "b"]), knows(&["a"])]), only_a);
        assert_eq!(open(&limits, &[knows(&["a"]), knows(&["b"])]), Open::Namespaces([].into()));
        assert_eq!(open(&limits, &[knows(&["a", "b"]), knows(&["b", "a"])]), Open::Everything);
    }

    #[test]
    fn a_cluster_is_open_when_every_informer_knows_all_of_it() {
        assert_eq!(open(&[None], &[Box::new(|_| true), Box::new(|_| false)]), Open::Namespaces([].into()));
        assert_eq!(open(&[None], &[Box::new(|_| true)]), Open::Everything);
    }
}

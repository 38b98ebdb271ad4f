//! The informers of a process.

use std::{
    any::{Any, TypeId},
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{Informer, Scope, raw::Raw, watch::Watch};
use crate::{
    kind::Kind,
    labels::{MANAGED_BY, MANAGER},
    metrics::{Metrics, NoMetrics},
};

/// Which objects of a kind an informer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// All of them. For kinds that are few, or cut down to a small view.
    All,
    /// Those that carry `app.kubernetes.io/managed-by=ensemble`, as every child that we make does. A child
    /// that loses the label leaves the informer, which its controller sees as a delete and repairs.
    Managed,
}

impl Selection {
    fn label_selector(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Managed => Some(crate::labels::MANAGED_SELECTOR),
        }
    }

    /// Whether an informer shows the object.
    pub(super) fn selects<K: Resource>(self, object: &K) -> bool {
        let labels = object.meta().labels.as_ref();
        self == Self::All || labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == MANAGER)
    }
}

/// All informers of a process: one watch for each kind and selection, however many ask for it.
///
/// Cheap to clone. The watches end when the last clone is dropped.
#[derive(Clone)]
pub struct Informers {
    hub: Arc<Hub>,
}

struct Hub {
    client: Client,
    scope: Scope,
    metrics: Arc<dyn Metrics>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    informers: HashMap<(TypeId, Selection), Entry>,
    watches: JoinSet<()>,
}

struct Entry {
    informer: Box<dyn Any + Send + Sync>,
    kind: String,
    unsynced: Box<dyn Fn() -> Vec<(Option<String>, bool)> + Send + Sync>,
    objects: Box<dyn Fn() -> usize + Send + Sync>,
}

/// A watch that has not listed anything yet.
struct UnsyncedWatch {
    kind: String,
    namespace: Option<String>,
    /// Whether the API server refuses it.
    is_refused: bool,
}

impl Hub {
    fn objects(&self) -> Vec<(String, usize)> {
        self.state.lock().informers.values().map(|entry| (entry.kind.clone(), (entry.objects)())).collect()
    }
}

impl Informers {
    /// No informers yet; they will watch through `client`.
    pub fn new(client: Client) -> Self {
        Self::measured(client, Arc::new(NoMetrics))
    }

    /// As [`Informers::new`], with what happens to the watches told to `metrics`.
    pub fn measured(client: Client, metrics: Arc<dyn Metrics>) -> Self {
        Self::within(client, metrics, Scope::Cluster)
    }

    /// As [`Informers::measured`], of a process that looks into these namespaces only.
    pub fn within(client: Client, metrics: Arc<dyn Metrics>, scope: Scope) -> Self {
        let hub = Arc::new(Hub { client, scope, metrics: metrics.clone(), state: Mutex::default() });
        let watched = Arc::downgrade(&hub);
        metrics.informers(Box::new(move || watched.upgrade().map(|hub| hub.objects()).unwrap_or_default()));
        Self { hub }
    }

    /// Which namespaces the informers look into.
    pub fn scope(&self) -> &Scope {
        &self.hub.scope
    }

    /// The informer of a kind. The first call for it starts its watches; must be called within a Tokio runtime.
    pub fn get<K: Kind>(&self, selection: Selection) -> Informer<K> {
        let mut state = self.hub.state.lock();
        let id = (TypeId::of::<K>(), selection);
        if let Some(informer) =
            state.informers.get(&id).and_then(|entry| entry.informer.downcast_ref::<Informer<K>>())
        {
            return informer.clone();
        }
        let limits = self.hub.scope.limits(K::NAMESPACED);
        let informer = Informer::<K>::new(&limits, selection);
        for limit in limits {
            let api = Raw::api::<K>(self.hub.client.clone(), limit.as_deref());
            let watch = Watch {
                sink: Box::new(informer.clone()),
                kind: K::kind(&()).into_owned(),
                limit,
                labels: selection.label_selector(),
                metrics: self.hub.metrics.clone(),
            };
            state.watches.spawn(watch.follow(api));
        }
        let (watched, held) = (informer.clone(), informer.clone());
        let entry = Entry {
            informer: Box::new(informer.clone()),
            kind: K::kind(&()).into_owned(),
            unsynced: Box::new(move || watched.store().unsynced()),
            objects: Box::new(move || held.store().len()),
        };
        state.informers.insert(id, entry);
        informer
    }

    /// What has to be listed before the process is ready, sorted: kinds, with their namespace in a process that looks
    /// into some only. Empty once it is ready.
    ///
    /// There, a namespace that does not exist or gives no rights is not waited for as long as there is another that
    /// is known; see [`Informers::refused`].
    pub fn unsynced(&self) -> Vec<String> {
        let unsynced = self.unsynced_watches();
        let missing = match &self.hub.scope {
            Scope::Namespaces(names) => {
                let refused = namespaces(unsynced.iter().filter(|watch| watch.is_refused));
                let waits = |watch: &&UnsyncedWatch| {
                    refused.len() == names.len()
                        || !watch.namespace.as_ref().is_some_and(|name| refused.contains(name))
                };
                describe(unsynced.iter().filter(waits))
            }
            Scope::Cluster => describe(unsynced.iter()),
        };
        if self.hub.state.lock().informers.is_empty() { vec!["any kind".to_owned()] } else { missing }
    }

    /// The namespaces of which the API server refuses to tell, because they give no rights or do not exist, with the
    /// kinds that cannot be watched there: `Pod in shop`. Empty in a process that looks into the whole cluster.
    pub fn refused(&self) -> Vec<String> {
        describe(self.unsynced_watches().iter().filter(|watch| watch.is_refused && watch.namespace.is_some()))
    }

    fn unsynced_watches(&self) -> Vec<UnsyncedWatch> {
        let state = self.hub.state.lock();
        let of = |entry: &Entry| {
            let kind = entry.kind.clone();
            (entry.unsynced)().into_iter().map(move |(namespace, is_refused)| UnsyncedWatch {
                kind: kind.clone(),
                namespace,
                is_refused,
            })
        };
        state.informers.values().flat_map(of).collect()
    }
}

fn namespaces<'a>(watches: impl Iterator<Item = &'a UnsyncedWatch>) -> BTreeSet<String> {
    watches.filter_map(|watch| watch.namespace.clone()).collect()
}

fn describe<'a>(watches: impl Iterator<Item = &'a UnsyncedWatch>) -> Vec<String> {
    let words = watches.map(|UnsyncedWatch { kind, namespace, .. }| match namespace {
        Some(namespace) => format!("{kind} in {namespace}"),
        None => kind.clone(),
    });
    let words: BTreeSet<_> = words.collect();
    words.into_iter().collect()
}

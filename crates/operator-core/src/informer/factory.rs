//! The factory of informers: one watch per kind and selection.

use std::{
    any::{Any, TypeId},
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::JoinSet;

use super::{
    Informer, Pack, Scope,
    raw::RawObject,
    store::{Packer, pack, pack_as_json},
    watch::{Watch, WatchHandler},
    watch_client::client_with_handler,
};
use crate::{
    kind::Kind,
    labels::{MANAGED_BY, MANAGER},
    metrics::{Metrics, NoMetrics},
    protobuf::Protobuf,
};

/// Objects of a kind that an informer caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// All objects. Use it for kinds with few objects, or with a small type.
    All,
    /// Objects with the label `app.kubernetes.io/managed-by=ensemble`, which every child carries. A
    /// child that loses the label is removed from the cache, so its controller repairs it.
    Managed,
    /// All objects of a kind that a cluster need not serve, such as one of an API that is installed
    /// separately. While the API server does not know the kind, the cache is empty, and counts as
    /// synced. A kind that is installed later is found within 30 seconds.
    IfServed,
    /// Objects with a label, written as `key=value`. An object that loses the label is removed from
    /// the cache.
    Label(&'static str),
}

impl Selection {
    fn label_selector(self) -> Option<&'static str> {
        match self {
            Self::All | Self::IfServed => None,
            Self::Managed => Some(crate::labels::MANAGED_SELECTOR),
            Self::Label(selector) => Some(selector),
        }
    }

    /// Returns whether the selection includes the object.
    pub(super) fn selects<K: Resource>(self, object: &K) -> bool {
        let labels = object.meta().labels.as_ref();
        let has = |key: &str, value: &str| {
            labels.and_then(|labels| labels.get(key)).is_some_and(|found| found == value)
        };
        match self {
            Self::All | Self::IfServed => true,
            Self::Managed => has(MANAGED_BY, MANAGER),
            Self::Label(selector) => selector.split_once('=').is_some_and(|(key, value)| has(key, value)),
        }
    }
}

/// The informers of a process: one watch for each kind and selection, shared by all controllers.
///
/// Cheap to clone. The watches end when the last clone is dropped.
#[derive(Clone)]
pub struct Informers {
    shared: Arc<Shared>,
}

struct Shared {
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

/// A watch that has not synced.
struct UnsyncedWatch {
    kind: String,
    namespace: Option<String>,
    /// Whether the API server forbids the watch.
    is_forbidden: bool,
}

impl Shared {
    fn objects(&self) -> Vec<(String, usize)> {
        self.state.lock().informers.values().map(|entry| (entry.kind.clone(), (entry.objects)())).collect()
    }
}

impl Informers {
    /// Returns a factory without informers. They will watch with `client`.
    pub fn new(client: Client) -> Self {
        Self::with_metrics(client, Arc::new(NoMetrics))
    }

    /// Returns a factory like [`Informers::new`] that reports watches to `metrics`.
    pub fn with_metrics(client: Client, metrics: Arc<dyn Metrics>) -> Self {
        Self::with_scope(client, metrics, Scope::Cluster)
    }

    /// Returns a factory like [`Informers::with_metrics`] whose informers watch only `scope`.
    pub fn with_scope(client: Client, metrics: Arc<dyn Metrics>, scope: Scope) -> Self {
        let shared = Arc::new(Shared { client, scope, metrics: metrics.clone(), state: Mutex::default() });
        let weak = Arc::downgrade(&shared);
        metrics
            .informers(Box::new(move || weak.upgrade().map(|shared| shared.objects()).unwrap_or_default()));
        Self { shared }
    }

    /// Returns the namespaces that the informers watch.
    pub fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    /// Returns the informer of a kind. The first call starts its watches. Must be called within a
    /// Tokio runtime.
    pub fn get<K: Kind>(&self, selection: Selection) -> Informer<K> {
        self.get_with(selection, None, None)
    }

    /// Returns the informer of a kind, like [`Informers::get`]. It requests the objects in their Protobuf format, if
    /// they have one, and keeps them packed, unless the informer is there already.
    pub fn get_packed<K: Pack>(&self, selection: Selection) -> Informer<K> {
        self.get_with(selection, Some(pack::<K>), K::PROTOBUF)
    }

    /// Returns the informer of a kind, like [`Informers::get`]. It keeps the objects as JSON, unless the informer is
    /// there already: a third of the memory for 3 to 20 us at each read. For kinds that are read in reconciles only.
    pub fn get_as_json<K: Kind + Serialize + PartialEq>(&self, selection: Selection) -> Informer<K> {
        self.get_with(selection, Some(pack_as_json::<K>), None)
    }

    fn get_with<K: Kind>(
        &self,
        selection: Selection,
        packer: Option<Packer<K>>,
        format: Option<Protobuf>,
    ) -> Informer<K> {
        let mut state = self.shared.state.lock();
        let id = (TypeId::of::<K>(), selection);
        if let Some(informer) =
            state.informers.get(&id).and_then(|entry| entry.informer.downcast_ref::<Informer<K>>())
        {
            return informer.clone();
        }
        let watched_namespaces = self.shared.scope.watched_namespaces(K::NAMESPACED);
        let informer = Informer::<K>::new(&watched_namespaces, selection, packer, format);
        for watched_namespace in watched_namespaces {
            let handler: Arc<dyn WatchHandler> = Arc::new(informer.clone());
            let client = client_with_handler(&self.shared.client, handler.clone(), format);
            let api = RawObject::api::<K>(client, watched_namespace.as_deref());
            let watch = Watch {
                handler,
                kind: K::kind(&()).into_owned(),
                watched_namespace,
                labels: selection.label_selector(),
                is_optional: selection == Selection::IfServed,
                metrics: self.shared.metrics.clone(),
            };
            state.watches.spawn(watch.run(api));
        }
        let (watched, cached) = (informer.clone(), informer.clone());
        let entry = Entry {
            informer: Box::new(informer.clone()),
            kind: K::kind(&()).into_owned(),
            unsynced: Box::new(move || watched.store().unsynced()),
            objects: Box::new(move || cached.store().len()),
        };
        state.informers.insert(id, entry);
        informer
    }

    /// Returns the kinds whose informers have not synced, sorted. Empty when the process is ready.
    ///
    /// If the process watches only some namespaces, each kind is listed with its namespace. A
    /// namespace that does not exist or whose watches are forbidden is skipped if another namespace
    /// is accessible; see [`Informers::forbidden`].
    pub fn unsynced(&self) -> Vec<String> {
        let unsynced = self.unsynced_watches();
        let missing = match &self.shared.scope {
            Scope::Namespaces(names) => {
                let forbidden = namespaces(unsynced.iter().filter(|watch| watch.is_forbidden));
                let is_required = |watch: &&UnsyncedWatch| {
                    forbidden.len() == names.len()
                        || !watch.namespace.as_ref().is_some_and(|name| forbidden.contains(name))
                };
                describe(unsynced.iter().filter(is_required))
            }
            Scope::Cluster => describe(unsynced.iter()),
        };
        if self.shared.state.lock().informers.is_empty() { vec!["any kind".to_owned()] } else { missing }
    }

    /// Returns the kinds that cannot be watched in a namespace, such as `Pod in shop`, because the
    /// namespace does not exist or grants no permission.
    ///
    /// Empty if the process watches the whole cluster.
    pub fn forbidden(&self) -> Vec<String> {
        describe(
            self.unsynced_watches().iter().filter(|watch| watch.is_forbidden && watch.namespace.is_some()),
        )
    }

    fn unsynced_watches(&self) -> Vec<UnsyncedWatch> {
        let state = self.shared.state.lock();
        let of = |entry: &Entry| {
            let kind = entry.kind.clone();
            (entry.unsynced)().into_iter().map(move |(namespace, is_forbidden)| UnsyncedWatch {
                kind: kind.clone(),
                namespace,
                is_forbidden,
            })
        };
        state.informers.values().flat_map(of).collect()
    }
}

fn namespaces<'a>(watches: impl Iterator<Item = &'a UnsyncedWatch>) -> BTreeSet<String> {
    watches.filter_map(|watch| watch.namespace.clone()).collect()
}

fn describe<'a>(watches: impl Iterator<Item = &'a UnsyncedWatch>) -> Vec<String> {
    let texts = watches.map(|UnsyncedWatch { kind, namespace, .. }| match namespace {
        Some(namespace) => format!("{kind} in {namespace}"),
        None => kind.clone(),
    });
    let texts: BTreeSet<_> = texts.collect();
    texts.into_iter().collect()
}

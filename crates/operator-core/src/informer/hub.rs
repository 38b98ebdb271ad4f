//! The informers of a process.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    future::Future,
    sync::Arc,
};

use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{Informer, watch};
use crate::kind::Kind;

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
    is_synced: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Informers {
    /// No informers yet; they will watch through `client`.
    pub fn new(client: Client) -> Self {
        Self { hub: Arc::new(Hub { client, state: Mutex::default() }) }
    }

    /// The informer of a kind. The first call for it starts the watch; must be called within a Tokio
    /// runtime.
    pub fn get<K: Kind>(&self, selection: Selection) -> Informer<K> {
        self.get_or_start(selection, |informer| {
            watch::follow(informer, K::api(self.hub.client.clone(), None), selection.label_selector())
        })
    }

    /// The informer of a custom resource that people write: as [`Informers::get`], but an object that cannot
    /// be read does not stop the watch.
    pub fn custom<K: Kind>(&self) -> Informer<K> {
        self.get_or_start(Selection::All, |informer| {
            watch::follow_guarded(informer, Api::all(self.hub.client.clone()), None)
        })
    }

    fn get_or_start<K: Kind, F>(
        &self,
        selection: Selection,
        follow: impl FnOnce(Informer<K>) -> F,
    ) -> Informer<K>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut state = self.hub.state.lock();
        let id = (TypeId::of::<K>(), selection);
        if let Some(informer) =
            state.informers.get(&id).and_then(|entry| entry.informer.downcast_ref::<Informer<K>>())
        {
            return informer.clone();
        }
        let informer = Informer::<K>::new();
        state.watches.spawn(follow(informer.clone()));
        let watched = informer.clone();
        let entry = Entry {
            informer: Box::new(informer.clone()),
            kind: K::kind(&()).into_owned(),
            is_synced: Box::new(move || watched.is_synced()),
        };
        state.informers.insert(id, entry);
        informer
    }

    /// The kinds whose stores have not been filled yet, sorted; empty once all is known.
    pub fn unsynced(&self) -> Vec<String> {
        let state = self.hub.state.lock();
        let mut kinds: Vec<_> = state
            .informers
            .values()
            .filter(|entry| !(entry.is_synced)())
            .map(|entry| entry.kind.clone())
            .collect();
        kinds.sort();
        kinds
    }
}

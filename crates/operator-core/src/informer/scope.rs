//! Scope and state of an informer's watches: one for the cluster, or one per namespace.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::kind::ObjectKey;

/// Namespaces that a process watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces, and cluster-scoped objects.
    #[default]
    Cluster,
    /// Only these namespaces.
    Namespaces(BTreeSet<String>),
}

impl Scope {
    /// Returns the namespaces of the watches of a kind. `None` stands for the whole cluster.
    pub fn watched_namespaces(&self, is_namespaced: bool) -> Vec<Option<Arc<str>>> {
        match self {
            Self::Namespaces(names) if is_namespaced => {
                names.iter().map(|name| Some(name.as_str().into())).collect()
            }
            _ => vec![None],
        }
    }
}

/// State of one watch.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    /// Keys listed since the current relist began. `None` if no relist is in progress.
    pub(super) listed: Option<HashSet<ObjectKey>>,
    /// Epoch of the store when the last relist began or ended.
    pub(super) epoch: u64,
    /// Newest resource version that the watch has delivered since then.
    pub(super) last_version: u64,
    /// Whether a relist has ended.
    pub(super) has_synced: bool,
    /// Whether the API server currently forbids the watch.
    pub(super) is_forbidden: bool,
}

impl WatchState {
    /// Returns whether no relist is in progress, and none has begun or ended since `epoch`.
    pub(super) fn is_unchanged_since(&self, epoch: u64) -> bool {
        self.listed.is_none() && self.epoch <= epoch
    }
}

/// State of all watches of an informer.
#[derive(Debug)]
pub(super) enum WatchStates {
    Cluster(WatchState),
    Namespaces(HashMap<Arc<str>, WatchState>),
}

impl WatchStates {
    pub(super) fn new(watched_namespaces: &[Option<Arc<str>>]) -> Self {
        if watched_namespaces.contains(&None) {
            return Self::Cluster(WatchState::default());
        }
        Self::Namespaces(
            watched_namespaces.iter().flatten().map(|name| (name.clone(), WatchState::default())).collect(),
        )
    }

    /// Returns the watch that delivers the objects of a namespace.
    pub(super) fn get(&self, namespace: Option<&str>) -> Option<&WatchState> {
        match self {
            Self::Cluster(watch) => Some(watch),
            Self::Namespaces(watches) => watches.get(namespace?),
        }
    }

    /// Returns the watch that delivers the objects of a namespace, mutably.
    pub(super) fn get_mut(&mut self, namespace: Option<&str>) -> Option<&mut WatchState> {
        match self {
            Self::Cluster(watch) => Some(watch),
            Self::Namespaces(watches) => watches.get_mut(namespace?),
        }
    }

    /// Returns whether the watch of this namespace delivers the object.
    pub(super) fn covers(watched_namespace: Option<&str>, key: &ObjectKey) -> bool {
        watched_namespace.is_none() || watched_namespace == key.namespace()
    }

    /// Returns all watches with the namespaces that they watch.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = (Option<&str>, &WatchState)> + '_> {
        match self {
            Self::Cluster(watch) => Box::new(std::iter::once((None, watch))),
            Self::Namespaces(watches) => Box::new(watches.iter().map(|(name, watch)| (Some(&**name), watch))),
        }
    }
}

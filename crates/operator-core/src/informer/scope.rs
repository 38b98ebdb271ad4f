//! The bookkeeping of an informer's watches: one over the whole cluster, or one for each namespace.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::kind::ObjectKey;

/// Which namespaces a process looks into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of them, and cluster-scoped objects.
    #[default]
    Cluster,
    /// These, and nothing else.
    Namespaces(BTreeSet<String>),
}

impl Scope {
    /// What each watch of a kind is limited to: a namespace, or nothing.
    pub fn limits(&self, is_namespaced: bool) -> Vec<Option<Arc<str>>> {
        match self {
            Self::Namespaces(names) if is_namespaced => {
                names.iter().map(|name| Some(name.as_str().into())).collect()
            }
            _ => vec![None],
        }
    }
}

/// What is known of one watch.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Keys seen since the present relist began.
    pub(super) listed: Option<HashSet<ObjectKey>>,
    /// When its last relist began or, if none goes on, ended: how many had begun or ended in the store then.
    pub(super) relist: u64,
    /// The newest resource version that the watch has shown since.
    pub(super) seen: u64,
    /// Whether a relist has ended.
    pub(super) has_synced: bool,
    /// Whether the API server refuses the watch now.
    pub(super) is_refused: bool,
}

impl Part {
    /// Whether no relist goes on, and none has begun or ended since this moment.
    pub(super) fn is_listed_since(&self, moment: u64) -> bool {
        self.listed.is_none() && self.relist <= moment
    }
}

/// What is known of all watches of an informer.
#[derive(Debug)]
pub(super) enum WatchStates {
    Cluster(Part),
    Namespaces(HashMap<Arc<str>, Part>),
}

impl WatchStates {
    pub(super) fn new(limits: &[Option<Arc<str>>]) -> Self {
        if limits.contains(&None) {
            return Self::Cluster(Part::default());
        }
        Self::Namespaces(limits.iter().flatten().map(|name| (name.clone(), Part::default())).collect())
    }

    /// The watch that shows the objects of a namespace.
    pub(super) fn get(&self, namespace: Option<&str>) -> Option<&Part> {
        match self {
            Self::Cluster(part) => Some(part),
            Self::Namespaces(parts) => parts.get(namespace?),
        }
    }

    /// As [`WatchStates::get`], to be changed.
    pub(super) fn get_mut(&mut self, namespace: Option<&str>) -> Option<&mut Part> {
        match self {
            Self::Cluster(part) => Some(part),
            Self::Namespaces(parts) => parts.get_mut(namespace?),
        }
    }

    /// Whether an object is one of those that the watch with this limit shows.
    pub(super) fn covers(limit: Option<&str>, key: &ObjectKey) -> bool {
        limit.is_none() || limit == key.namespace()
    }

    /// All watches, with what they are limited to.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = (Option<&str>, &Part)> + '_> {
        match self {
            Self::Cluster(part) => Box::new(std::iter::once((None, part))),
            Self::Namespaces(parts) => Box::new(parts.iter().map(|(name, part)| (Some(&**name), part))),
        }
    }
}

//! Pods in the informer cache, indexed by owner and by orphan labels.

use std::{collections::HashSet, sync::Arc};

use kube::{Client, Resource, ResourceExt, api::ListParams};
use operator_core::{
    ControllerBuilder, ObjectKey,
    builder::controllers_of,
    informer::{Change, Index, Selection},
    kind::{Kind, describe, uid},
    owner::{controller_of, refers_to},
    pod::PodView,
    write::WriteError,
    writer::Writer,
};

use crate::{
    api::PodSet,
    pod_template::{APP_LABEL, VERSION, VERSION_LABEL, matches_selector, selector},
};

/// Pod in the informer cache.
pub(crate) type CachedPod = Arc<PodView>;

/// Pods of the cluster, indexed by owner and by orphan labels.
pub(crate) struct PodCache {
    pub(crate) writer: Writer<PodView>,
    by_owner: Index<PodView, String>,
    orphans: Index<PodView, ObjectKey>,
}

impl PodCache {
    /// Requests the Pod informer.
    ///
    /// A change of a Pod enqueues the PodSets that own or owned it, and the one whose labels an
    /// orphan carries.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, PodSet>) -> Self {
        let informer = builder.packed_informer::<PodView>(Selection::All);
        builder.watches(&informer, map_pod_to_podsets);
        let by_owner = informer.store().index(|pod: &PodView| {
            let owner = controller_of(&pod.metadata).filter(|owner| refers_to::<PodSet>(owner));
            owner.map(|owner| owner.uid.clone()).into_iter().collect()
        });
        let orphans = informer.store().index(|pod: &PodView| matching_podset(pod).into_iter().collect());
        Self { writer: builder.writer(informer), by_owner, orphans }
    }

    /// Returns the Pods that the PodSet owns, regardless of their labels and phase.
    pub(crate) fn owned(&self, set: &PodSet) -> Vec<CachedPod> {
        self.by_owner.get(&uid(set))
    }

    /// Returns whether the PodSet with this UID owns any Pod.
    pub(crate) fn owns_pods(&self, set: &str) -> bool {
        self.by_owner.contains(&set.to_owned())
    }

    /// Returns the Pods without a controller that carry the PodSet's labels.
    pub(crate) fn orphans(&self, set: &PodSet) -> Vec<CachedPod> {
        self.orphans.get(&ObjectKey::of(set))
    }

    /// Returns whether a Pod with this name exists in the PodSet's namespace.
    pub(crate) fn name_exists(&self, set: &PodSet, name: &str) -> bool {
        let namespace = set.namespace().unwrap_or_default();
        self.writer.informer().store().contains(&ObjectKey::namespaced(&namespace, name))
    }
}

/// Lists the Pods with the PodSet's labels live. Returns the UIDs of those that are not being deleted.
pub(crate) async fn list_live_uids(client: &Client, set: &PodSet) -> Result<HashSet<String>, WriteError> {
    let params = ListParams::default().labels(&selector(set));
    let pods = PodView::api(client.clone(), set.metadata.namespace.as_deref()).list(&params).await;
    let pods = pods.map_err(|source| WriteError::Api {
        action: "list the Pods of",
        object: describe::<PodSet>(&ObjectKey::of(set)),
        source,
    })?;
    Ok(pods.iter().filter(|pod| !pod.is_terminating()).map(uid).collect())
}

fn map_pod_to_podsets(change: &Change<PodView>) -> Vec<ObjectKey> {
    let mut keys = controllers_of::<PodView, PodSet>(change);
    keys.extend(change.states().filter_map(|pod| matching_podset(pod)));
    keys
}

/// Returns the PodSet whose labels a Pod without a controller carries.
fn matching_podset(pod: &PodView) -> Option<ObjectKey> {
    if controller_of(pod.meta()).is_some() {
        return None;
    }
    let app = pod.labels().get(APP_LABEL)?;
    (pod.labels().get(VERSION_LABEL)? == VERSION)
        .then(|| ObjectKey::namespaced(pod.metadata.namespace.as_deref().unwrap_or_default(), app))
}

/// Returns whether the Pod is neither finished nor being deleted.
pub(crate) fn is_active(pod: &PodView) -> bool {
    !pod.is_finished() && !pod.is_terminating()
}

/// Returns whether the Pod counts as a replica: it is active and has the PodSet's labels.
pub(crate) fn is_replica(set: &PodSet, pod: &PodView) -> bool {
    is_active(pod) && matches_selector(set, pod)
}

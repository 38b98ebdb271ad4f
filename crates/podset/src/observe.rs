//! The pods that concern a PodSet, from the informer.

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
    build::{APP_LABEL, VERSION, VERSION_LABEL, has_labels, selector},
};

/// A pod as the informer holds it.
pub(crate) type KnownPod = Arc<PodView>;

/// Every pod of the cluster, found by its PodSet.
pub(crate) struct Pods {
    pub(crate) writer: Writer<PodView>,
    by_owner: Index<PodView, String>,
    orphans: Index<PodView, ObjectKey>,
}

impl Pods {
    /// Asks for the informer, and for a reconcile of the PodSets that a pod's change concerns: those that own
    /// or owned it, and the one whose labels an ownerless pod carries.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, PodSet>) -> Self {
        let informer = builder.informer::<PodView>(Selection::All);
        builder.watches(&informer, concerned);
        let by_owner = informer.store().index(|pod: &PodView| {
            let owner = controller_of(&pod.metadata).filter(|owner| refers_to::<PodSet>(owner));
            owner.map(|owner| owner.uid.clone()).into_iter().collect()
        });
        let orphans = informer.store().index(|pod: &PodView| wanted_by(pod).into_iter().collect());
        Self { writer: builder.writer(informer), by_owner, orphans }
    }

    /// The pods that the PodSet owns, whatever their labels and state.
    pub(crate) fn owned(&self, set: &PodSet) -> Vec<KnownPod> {
        self.by_owner.get(&uid(set))
    }

    /// Whether any pod is owned by the PodSet of this UID.
    pub(crate) fn has_any(&self, set: &str) -> bool {
        !self.by_owner.get(&set.to_owned()).is_empty()
    }

    /// The pods that nobody owns and that carry the PodSet's labels.
    pub(crate) fn orphans(&self, set: &PodSet) -> Vec<KnownPod> {
        self.orphans.get(&ObjectKey::of(set))
    }

    /// Whether any pod in the PodSet's namespace has this name.
    pub(crate) fn is_taken(&self, set: &PodSet, name: &str) -> bool {
        let namespace = set.namespace().unwrap_or_default();
        self.writer.get(&ObjectKey::namespaced(&namespace, name)).is_some()
    }
}

/// The UIDs of the pods with the PodSet's labels that are not being deleted, as the API server has them now.
pub(crate) async fn live(client: &Client, set: &PodSet) -> Result<HashSet<String>, WriteError> {
    let labelled = ListParams::default().labels(&selector(set));
    let pods = PodView::api(client.clone(), set.metadata.namespace.as_deref()).list(&labelled).await;
    let pods = pods.map_err(|source| WriteError::Api {
        action: "list the pods of",
        object: describe::<PodSet>(&ObjectKey::of(set)),
        source,
    })?;
    Ok(pods.iter().filter(|pod| !pod.is_terminating()).map(uid).collect())
}

fn concerned(change: &Change<PodView>) -> Vec<ObjectKey> {
    let mut keys = controllers_of::<PodView, PodSet>(change);
    keys.extend(change.states().filter_map(|pod| wanted_by(pod)));
    keys
}

/// The PodSet whose labels a pod without a controller carries.
fn wanted_by(pod: &PodView) -> Option<ObjectKey> {
    if controller_of(pod.meta()).is_some() {
        return None;
    }
    let app = pod.labels().get(APP_LABEL)?;
    (pod.labels().get(VERSION_LABEL)? == VERSION)
        .then(|| ObjectKey::namespaced(pod.metadata.namespace.as_deref().unwrap_or_default(), app))
}

/// Whether the pod is not finished and not being deleted.
pub(crate) fn is_active(pod: &PodView) -> bool {
    !pod.is_finished() && !pod.is_terminating()
}

/// Whether the pod counts: it is active and has the PodSet's labels.
pub(crate) fn counts(set: &PodSet, pod: &PodView) -> bool {
    is_active(pod) && has_labels(set, pod)
}

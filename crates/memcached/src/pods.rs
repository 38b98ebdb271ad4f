//! The Pods of a Memcached, from the informer's cache.

use std::sync::Arc;

use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    informer::{Change, Index, Selection},
    owner::controller_of,
    pod::PodView,
};

use crate::{
    api::Memcached,
    build::{APP, APP_LABEL, CACHE_LABEL, REVISION_LABEL},
};

/// A Pod in the informer's cache.
pub(crate) type CachedPod = Arc<PodView>;

/// Index of the cluster's Pods by the Memcached that their labels name.
pub(crate) struct Pods {
    by_cache: Index<PodView, ObjectKey>,
}

impl Pods {
    /// Starts the informer. A Memcached is reconciled when one of its Pods changes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Memcached>) -> Self {
        let informer = builder.packed_informer::<PodView>(Selection::All);
        builder.watches(&informer, affected_keys);
        let by_cache = informer.store().index(|pod: &PodView| cache_of(pod).into_iter().collect());
        Self { by_cache }
    }

    /// Returns the active Pods of a Memcached, sorted by name.
    pub(crate) fn of(&self, cache: &Memcached) -> Vec<CachedPod> {
        let mut pods = self.by_cache.get(&ObjectKey::of(cache));
        pods.retain(|pod| is_active(cache, pod));
        pods.sort_by_key(|pod| pod.name_any());
        pods
    }
}

fn affected_keys(change: &Change<PodView>) -> Vec<ObjectKey> {
    change.states().filter_map(|pod| cache_of(pod)).collect()
}

/// Returns the key of the Memcached that the Pod's labels name.
fn cache_of(pod: &PodView) -> Option<ObjectKey> {
    let labels = pod.labels();
    (labels.get(APP_LABEL)? == APP).then_some(())?;
    Some(ObjectKey::namespaced(pod.metadata.namespace.as_deref()?, labels.get(CACHE_LABEL)?))
}

/// Returns whether the Memcached's Deployment created the Pod and the Pod is neither finished nor
/// terminating.
fn is_active(cache: &Memcached, pod: &PodView) -> bool {
    !pod.is_finished() && !pod.is_terminating() && belongs_to_deployment(&cache.name_any(), pod)
}

/// Returns whether a ReplicaSet of the Deployment controls the Pod.
///
/// Anybody can set labels on a Pod. The ReplicaSet's name consists of the Deployment's name and the
/// revision, so it identifies the Deployment.
fn belongs_to_deployment(deployment: &str, pod: &PodView) -> bool {
    let Some(revision) = pod.labels().get(REVISION_LABEL) else { return false };
    controller_of(&pod.metadata)
        .is_some_and(|owner| owner.kind == "ReplicaSet" && owner.name == format!("{deployment}-{revision}"))
}

#[cfg(test)]
mod tests {
    use operator_core::pod::Phase;
    use serde_json::json;

    use super::*;
    use crate::build::fixture::cache;

    fn pod(owner: &str) -> PodView {
        serde_json::from_value(json!({
            "metadata": {
                "name": "web-5d4-abcde", "namespace": "shop",
                "labels": {"app": "memcached", "memcached_cr": "web", "pod-template-hash": "5d4"},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "r", "controller": true}
                ],
            },
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    #[test]
    fn pods_of_the_deployment_are_active() {
        assert!(is_active(&cache(&json!({})), &pod("web-5d4")));
    }

    #[test]
    fn foreign_pods_with_the_labels_are_ignored() {
        let mut bare = pod("web-5d4");
        bare.metadata.owner_references = None;
        for stranger in [bare, pod("web-blue-5d4"), pod("other-5d4")] {
            assert!(!is_active(&cache(&json!({})), &stranger));
        }
    }

    #[test]
    fn finished_or_terminating_pods_are_inactive() {
        let mut going = pod("web-5d4");
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap();
        assert!(!is_active(&cache(&json!({})), &going));
        let finished = PodView { phase: Phase::Failed, ..pod("web-5d4") };
        assert!(!is_active(&cache(&json!({})), &finished));
    }

    #[test]
    fn maps_pod_to_memcached_by_labels_and_namespace() {
        assert_eq!(cache_of(&pod("web-5d4")), Some(ObjectKey::namespaced("shop", "web")));
        let mut foreign = pod("web-5d4");
        foreign.labels = [("app", "redis"), ("memcached_cr", "web")].into_iter().collect();
        assert_eq!(cache_of(&foreign), None);
    }
}

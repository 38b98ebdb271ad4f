//! Number of Pods of a Memcached: `spec.size`, unless a HorizontalPodAutoscaler scales its
//! Deployment.
//!
//! An autoscaler that targets the Memcached writes `spec.size` and needs no handling here.

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler},
};
use kube::{Resource, ResourceExt, core::ObjectMeta};
use operator_core::{
    ControllerBuilder, ObjectKey,
    informer::{Change, Index, Selection},
};
use serde::Deserialize;

use crate::api::Memcached;

/// Number of Pods that a Memcached should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// The number.
    pub(crate) pods: i32,
    /// The HorizontalPodAutoscaler that sets the number through the Deployment, if there is one.
    pub(crate) autoscaler: Option<String>,
}

/// The fields of a HorizontalPodAutoscaler that the controller reads.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "HorizontalPodAutoscaler")]
pub(crate) struct Autoscaler {
    metadata: ObjectMeta,
    spec: AutoscalerSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AutoscalerSpec {
    scale_target_ref: CrossVersionObjectReference,
}

/// Index of the HorizontalPodAutoscalers that target a Deployment. A Deployment has the name of its
/// Memcached.
pub(crate) struct Autoscalers {
    by_deployment: Index<Autoscaler, ObjectKey>,
}

impl Autoscalers {
    /// Starts the informer. A Memcached is reconciled when an autoscaler starts or stops targeting
    /// its Deployment.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Memcached>) -> Self {
        let informer = builder.informer::<Autoscaler>(Selection::All);
        builder.watches(&informer, affected_keys);
        let by_deployment =
            informer.store().index(|autoscaler: &Autoscaler| deployment_of(autoscaler).into_iter().collect());
        Self { by_deployment }
    }

    /// Returns the number of Pods for a Memcached with this Deployment.
    pub(crate) fn size(&self, cache: &Memcached, deployment: Option<&Deployment>) -> Size {
        let mut autoscalers = self.by_deployment.get(&ObjectKey::of(cache));
        autoscalers.sort_by_key(|autoscaler| autoscaler.name_any());
        let replicas = deployment.and_then(|deployment| deployment.spec.as_ref()?.replicas);
        Size {
            pods: replicas.filter(|_| !autoscalers.is_empty()).unwrap_or(cache.spec.size),
            autoscaler: autoscalers.first().map(|autoscaler| autoscaler.name_any()),
        }
    }
}

/// Returns the keys of the Memcacheds that a change affects.
///
/// Autoscalers update their own status every few seconds. Such updates affect no Memcached.
fn affected_keys(change: &Change<Autoscaler>) -> Vec<ObjectKey> {
    let mut targets: Vec<_> = change.states().map(|autoscaler| deployment_of(autoscaler)).collect();
    if targets.len() == 2 && targets.first() == targets.last() {
        targets.clear();
    }
    targets.into_iter().flatten().collect()
}

/// Returns the key of the target if the target is a Deployment.
fn deployment_of(autoscaler: &Autoscaler) -> Option<ObjectKey> {
    let target = &autoscaler.spec.scale_target_ref;
    let group = target.api_version.as_deref()?.split_once('/')?.0;
    let is_deployment = target.kind == Deployment::kind(&()) && group == Deployment::group(&());
    is_deployment.then_some(())?;
    Some(ObjectKey::namespaced(autoscaler.metadata.namespace.as_deref()?, &target.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn autoscaler(version: &str, kind: &str, name: &str) -> Arc<Autoscaler> {
        let target = json!({"apiVersion": version, "kind": kind, "name": name});
        let autoscaler = json!({
            "metadata": {"name": "a", "namespace": "shop"}, "spec": {"scaleTargetRef": target, "maxReplicas": 9},
        });
        Arc::new(serde_json::from_value(autoscaler).unwrap())
    }

    #[test]
    fn ignores_autoscalers_of_other_kinds() {
        let web = Some(ObjectKey::namespaced("shop", "web"));
        assert_eq!(deployment_of(&autoscaler("apps/v1", "Deployment", "web")), web);
        assert_eq!(deployment_of(&autoscaler("apps/v1", "StatefulSet", "web")), None);
        assert_eq!(deployment_of(&autoscaler("cache.example.com/v1alpha1", "Memcached", "web")), None);
    }

    #[test]
    fn autoscaler_affects_its_old_and_new_target() {
        let (web, other) = ("web", "other");
        let between = |old: Option<&str>, new: Option<&str>| {
            let of = |name: Option<&str>| name.map(|name| autoscaler("apps/v1", "Deployment", name));
            let key = ObjectKey::namespaced("shop", "a");
            affected_keys(&Change { key, old: of(old), new: of(new) })
        };
        let keys = |names: &[&str]| -> Vec<_> {
            names.iter().map(|name| ObjectKey::namespaced("shop", name)).collect()
        };
        assert_eq!(between(None, Some(web)), keys(&[web]));
        assert_eq!(between(Some(web), None), keys(&[web]));
        assert_eq!(between(Some(web), Some(other)), keys(&[web, other]));
        assert_eq!(between(Some(web), Some(web)), []);
    }
}

//! The Deployment of a Memcached.

use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentStrategy, RollingUpdateDeployment},
    apimachinery::pkg::util::intstr::IntOrString,
};
use operator_core::labels;

use super::{COMPONENT, DesiredCache, PORT_LABEL, object_labels, pod, selector};

/// How many old ReplicaSets the Deployment retains.
const REVISION_HISTORY_LIMIT: i32 = 3;
/// How long a rollout may make no progress before it counts as failed.
const PROGRESS_DEADLINE_SECONDS: i32 = 600;

/// Sets the desired state.
///
/// Leaves `replicas` unchanged if an autoscaler scales the Deployment.
pub(crate) fn mutate(desired: &DesiredCache<'_>, deployment: &mut Deployment) {
    let cache = desired.cache;
    labels::add(&mut deployment.metadata.labels, object_labels(cache, COMPONENT));
    let spec = deployment.spec.get_or_insert_default();
    spec.replicas = spec.replicas.filter(|_| desired.size.autoscaler.is_some()).or(Some(desired.size.pods));
    spec.selector = selector(cache);
    spec.strategy = Some(rolling_update_strategy());
    spec.revision_history_limit = Some(REVISION_HISTORY_LIMIT);
    spec.progress_deadline_seconds = Some(PROGRESS_DEADLINE_SECONDS);
    let labels = &mut spec.template.metadata.get_or_insert_default().labels;
    labels::add(labels, object_labels(cache, COMPONENT));
    labels::add(labels, [(PORT_LABEL.to_owned(), cache.spec.container_port.to_string())].into());
    pod::mutate(desired, spec.template.spec.get_or_insert_default());
}

/// Returns a strategy that replaces one Pod at a time and deletes it only after the new Pod is
/// ready. New Pods start with an empty cache.
fn rolling_update_strategy() -> DeploymentStrategy {
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::Int(1)),
            max_unavailable: Some(IntOrString::Int(0)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, Toleration};
    use serde_json::json;

    use super::*;
    use crate::{
        autoscalers::Size,
        build::fixture::{cache, desired},
    };

    fn mutated(spec: &serde_json::Value) -> Deployment {
        let mut deployment = Deployment::default();
        mutate(&desired(&cache(spec)), &mut deployment);
        deployment
    }

    #[test]
    fn deployment_sets_all_managed_fields() {
        insta::assert_yaml_snapshot!(mutated(&json!({"size": 3})));
    }

    #[test]
    fn mutate_is_idempotent() {
        let once = mutated(&json!({"size": 3}));
        let mut twice = once.clone();
        mutate(&desired(&cache(&json!({"size": 3}))), &mut twice);
        assert_eq!(once, twice);
    }

    #[test]
    fn keeps_foreign_fields() {
        let mut deployment = mutated(&json!({}));
        let template = &mut deployment.spec.as_mut().unwrap().template;
        template.metadata.as_mut().unwrap().annotations = Some([("a".into(), "b".into())].into());
        template.metadata.as_mut().unwrap().labels.as_mut().unwrap().insert("team".into(), "a".into());
        let pod = template.spec.as_mut().unwrap();
        pod.node_selector = Some([("disk".into(), "ssd".into())].into());
        pod.tolerations = Some(vec![Toleration { key: Some("cache".into()), ..Toleration::default() }]);
        pod.containers.push(Container { name: "proxy".into(), ..Container::default() });
        let theirs = deployment.clone();
        mutate(&desired(&cache(&json!({}))), &mut deployment);
        assert_eq!(deployment, theirs);
    }

    #[test]
    fn reverts_drift_of_managed_fields() {
        let wanted = mutated(&json!({}));
        let mut drifted = wanted.clone();
        let spec = drifted.spec.as_mut().unwrap();
        spec.replicas = Some(7);
        let pod = spec.template.spec.as_mut().unwrap();
        pod.security_context = None;
        pod.topology_spread_constraints = None;
        pod.containers[0].image = Some("other".into());
        pod.containers[0].args = Some(vec!["--daemon".into()]);
        pod.containers[0].ports = None;
        mutate(&desired(&cache(&json!({}))), &mut drifted);
        assert_eq!(drifted, wanted);
    }

    #[test]
    fn removing_metrics_restores_the_deployment() {
        let without = mutated(&json!({}));
        let with = mutated(&json!({"metrics": {}}));
        let names: Vec<_> = containers(&with).iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["memcached", "memcached-exporter"]);
        let mut changed = with;
        mutate(&desired(&cache(&json!({}))), &mut changed);
        assert_eq!(changed, without);
    }

    fn containers(deployment: &Deployment) -> &[Container] {
        &deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap().containers
    }

    #[test]
    fn keeps_replicas_that_an_autoscaler_sets() {
        let cache = cache(&json!({"size": 2}));
        let size = Size { pods: 2, autoscaler: Some("web".to_owned()) };
        let scaled = DesiredCache { size, ..desired(&cache) };
        let mut deployment = Deployment::default();
        mutate(&scaled, &mut deployment);
        assert_eq!(deployment.spec.as_ref().unwrap().replicas, Some(2), "it starts with spec.size");
        deployment.spec.as_mut().unwrap().replicas = Some(5);
        mutate(&scaled, &mut deployment);
        assert_eq!(deployment.spec.as_ref().unwrap().replicas, Some(5));
        mutate(&desired(&cache), &mut deployment);
        assert_eq!(deployment.spec.as_ref().unwrap().replicas, Some(2));
    }
}

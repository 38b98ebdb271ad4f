//! The Deployment of a cache.

use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentStrategy, RollingUpdateDeployment},
    apimachinery::pkg::util::intstr::IntOrString,
};
use operator_core::labels;

use super::{identifying, pod, selector};
use crate::api::Memcached;

/// How many old revisions are kept to look at.
const HISTORY: i32 = 3;
/// How long a rollout may make no progress before it counts as failed.
const DEADLINE_SECONDS: i32 = 600;

/// Makes the Deployment what the cache asks.
///
/// The replicas are always the cache's size: an autoscaler scales the cache, not the Deployment.
pub(crate) fn shape(cache: &Memcached, image: &str, deployment: &mut Deployment) {
    labels::add(&mut deployment.metadata.labels, identifying(cache));
    let spec = deployment.spec.get_or_insert_default();
    spec.replicas = Some(cache.spec.size);
    spec.selector = selector(cache);
    spec.strategy = Some(one_by_one());
    spec.revision_history_limit = Some(HISTORY);
    spec.progress_deadline_seconds = Some(DEADLINE_SECONDS);
    labels::add(&mut spec.template.metadata.get_or_insert_default().labels, identifying(cache));
    pod::shape(cache, image, spec.template.spec.get_or_insert_default());
}

/// A new pod is ready before an old one goes, and only one at a time: each starts with nothing cached.
fn one_by_one() -> DeploymentStrategy {
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
    use crate::build::fixture::cache;

    const IMAGE: &str = "memcached:1.4.36-alpine";

    fn shaped(spec: &serde_json::Value) -> Deployment {
        let mut deployment = Deployment::default();
        shape(&cache(spec), IMAGE, &mut deployment);
        deployment
    }

    #[test]
    fn a_deployment_spells_out_everything_that_a_cache_means() {
        insta::assert_yaml_snapshot!(shaped(&json!({"size": 3})));
    }

    #[test]
    fn shaping_twice_changes_nothing() {
        let once = shaped(&json!({"size": 3}));
        let mut twice = once.clone();
        shape(&cache(&json!({"size": 3})), IMAGE, &mut twice);
        assert_eq!(once, twice);
    }

    #[test]
    fn what_others_put_there_stays() {
        let mut deployment = shaped(&json!({}));
        let template = &mut deployment.spec.as_mut().unwrap().template;
        template.metadata.as_mut().unwrap().annotations = Some([("a".into(), "b".into())].into());
        template.metadata.as_mut().unwrap().labels.as_mut().unwrap().insert("team".into(), "a".into());
        let pod = template.spec.as_mut().unwrap();
        pod.node_selector = Some([("disk".into(), "ssd".into())].into());
        pod.tolerations = Some(vec![Toleration { key: Some("cache".into()), ..Toleration::default() }]);
        pod.containers.push(Container { name: "exporter".into(), ..Container::default() });
        let theirs = deployment.clone();
        shape(&cache(&json!({})), IMAGE, &mut deployment);
        assert_eq!(deployment, theirs);
    }

    #[test]
    fn what_others_changed_of_ours_is_put_right() {
        let wanted = shaped(&json!({}));
        let mut drifted = wanted.clone();
        let spec = drifted.spec.as_mut().unwrap();
        spec.replicas = Some(7);
        let pod = spec.template.spec.as_mut().unwrap();
        pod.security_context = None;
        pod.topology_spread_constraints = None;
        pod.containers[0].image = Some("other".into());
        pod.containers[0].args = Some(vec!["--daemon".into()]);
        pod.containers[0].ports = None;
        shape(&cache(&json!({})), IMAGE, &mut drifted);
        assert_eq!(drifted, wanted);
    }
}

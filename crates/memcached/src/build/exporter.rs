//! The exporter, by option: Prometheus' `memcached_exporter` beside memcached in each pod, and the Service by which
//! it is found.

use k8s_openapi::{
    api::core::v1::{Container, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use operator_core::labels;

use super::{Asked, container, identifying, resources, selecting};
use crate::api::Metrics;

/// The name of the exporter's container.
pub const EXPORTER: &str = "memcached-exporter";
/// The name of its port, in pods and in the Service.
pub const METRICS_PORT: &str = "metrics";
/// Where it serves unless told otherwise.
const PATH: &str = "/metrics";
const COMPONENT: &str = "metrics";

/// Makes the container what the cache asks: the image's own program, with the flags of its documentation.
///
/// It has no readiness probe: a pod whose exporter does not answer serves its cache all the same.
pub(super) fn shape(asked: &Asked<'_>, metrics: &Metrics, exporter: &mut Container) {
    let image = metrics.image.as_deref().unwrap_or(asked.exporter_image);
    EXPORTER.clone_into(&mut exporter.name);
    exporter.image = Some(image.to_owned());
    exporter.image_pull_policy = Some(container::pull_policy(image).to_owned());
    exporter.command = None;
    exporter.args = Some(vec![
        format!("--memcached.address=localhost:{}", asked.cache.spec.container_port),
        format!("--web.listen-address=:{}", metrics.port),
    ]);
    exporter.ports = Some(vec![container::port(METRICS_PORT, metrics.port)]);
    resources::shape_exporter(exporter.resources.get_or_insert_default());
    exporter.security_context = Some(container::restricted());
    exporter.readiness_probe = None;
    exporter.liveness_probe = Some(container::probe(METRICS_PORT, 10, 6));
}

/// Makes the Service what the cache asks. Each pod is a target of its own, also one that is not ready: its metrics
/// may say why.
///
/// The annotations are for a Prometheus that looks for them, the labels and the port's name for a ServiceMonitor.
pub(crate) fn shape_service(asked: &Asked<'_>, metrics: &Metrics, service: &mut Service) {
    labels::add(&mut service.metadata.labels, identifying(asked.cache, COMPONENT));
    let annotations = [("scrape", "true"), ("port", &metrics.port.to_string()), ("path", PATH)]
        .map(|(key, value)| (format!("prometheus.io/{key}"), value.to_owned()));
    service.metadata.annotations.get_or_insert_default().extend(annotations);
    let spec = service.spec.get_or_insert_default();
    super::service::shape_headless(spec, selecting(asked.cache));
    spec.publish_not_ready_addresses = Some(true);
    spec.ports = Some(vec![ServicePort {
        name: Some(METRICS_PORT.to_owned()),
        port: metrics.port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String(METRICS_PORT.to_owned())),
        ..ServicePort::default()
    }]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::fixture::{asked, cache};

    #[test]
    fn the_exporter_asks_memcached_of_its_own_pod_and_serves_on_the_port_of_the_spec() {
        let cache = cache(&json!({"containerPort": 12000, "metrics": {"port": 9999}}));
        let mut exporter = Container::default();
        shape(&asked(&cache), cache.spec.metrics.as_ref().unwrap(), &mut exporter);
        insta::assert_yaml_snapshot!(exporter);
    }

    #[test]
    fn an_image_of_the_spec_goes_before_that_of_the_manager() {
        let cache = cache(&json!({"metrics": {"image": "mine:1"}}));
        let mut exporter = Container::default();
        shape(&asked(&cache), cache.spec.metrics.as_ref().unwrap(), &mut exporter);
        assert_eq!(exporter.image.as_deref(), Some("mine:1"));
    }

    #[test]
    fn a_service_of_metrics_is_found_by_annotations_and_by_labels() {
        let cache = cache(&json!({"metrics": {}}));
        let mut service = Service::default();
        shape_service(&asked(&cache), cache.spec.metrics.as_ref().unwrap(), &mut service);
        insta::assert_yaml_snapshot!(service);
    }
}

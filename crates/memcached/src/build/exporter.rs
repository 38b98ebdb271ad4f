//! The optional exporter: Prometheus' `memcached_exporter` as a sidecar, and the Service for
//! scraping.

use k8s_openapi::{
    api::core::v1::{Container, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use operator_core::labels;

use super::{DesiredCache, container, object_labels, resources, selector_labels};
use crate::api::Metrics;

/// Name of the exporter container.
pub const EXPORTER: &str = "memcached-exporter";
/// Name of the exporter's port, in Pods and in the Service.
pub const METRICS_PORT: &str = "metrics";
/// Default path of the exporter.
const PATH: &str = "/metrics";
const COMPONENT: &str = "metrics";

/// Sets the desired state: the image's entrypoint with the documented flags.
///
/// There is no readiness probe, because a Pod with a failed exporter still serves its cache.
pub(super) fn mutate(desired: &DesiredCache<'_>, metrics: &Metrics, exporter: &mut Container) {
    let image = metrics.image.as_deref().unwrap_or(desired.exporter_image);
    EXPORTER.clone_into(&mut exporter.name);
    exporter.image = Some(image.to_owned());
    exporter.image_pull_policy = Some(container::pull_policy(image).to_owned());
    exporter.command = None;
    exporter.args = Some(vec![
        format!("--memcached.address=localhost:{}", desired.cache.spec.container_port),
        format!("--web.listen-address=:{}", metrics.port),
    ]);
    exporter.ports = Some(vec![container::port(METRICS_PORT, metrics.port)]);
    resources::mutate_exporter(exporter.resources.get_or_insert_default());
    exporter.security_context = Some(container::restricted());
    exporter.readiness_probe = None;
    exporter.liveness_probe = Some(container::probe(METRICS_PORT, 10, 6));
}

/// Sets the desired state. Unready Pods are scrape targets too, because their metrics may show the
/// cause.
///
/// Annotations serve Prometheus' annotation-based discovery. Labels and the port name serve a
/// ServiceMonitor.
pub(crate) fn mutate_service(desired: &DesiredCache<'_>, metrics: &Metrics, service: &mut Service) {
    labels::add(&mut service.metadata.labels, object_labels(desired.cache, COMPONENT));
    let annotations = [("scrape", "true"), ("port", &metrics.port.to_string()), ("path", PATH)]
        .map(|(key, value)| (format!("prometheus.io/{key}"), value.to_owned()));
    service.metadata.annotations.get_or_insert_default().extend(annotations);
    let spec = service.spec.get_or_insert_default();
    super::service::make_headless(spec, selector_labels(desired.cache));
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
    use crate::build::fixture::{cache, desired};

    #[test]
    fn exporter_scrapes_its_own_pod_and_serves_on_the_port_of_the_spec() {
        let cache = cache(&json!({"containerPort": 12000, "metrics": {"port": 9999}}));
        let mut exporter = Container::default();
        mutate(&desired(&cache), cache.spec.metrics.as_ref().unwrap(), &mut exporter);
        insta::assert_yaml_snapshot!(exporter);
    }

    #[test]
    fn image_of_spec_overrides_image_of_manager() {
        let cache = cache(&json!({"metrics": {"image": "mine:1"}}));
        let mut exporter = Container::default();
        mutate(&desired(&cache), cache.spec.metrics.as_ref().unwrap(), &mut exporter);
        assert_eq!(exporter.image.as_deref(), Some("mine:1"));
    }

    #[test]
    fn metrics_service_has_annotations_and_labels_for_discovery() {
        let cache = cache(&json!({"metrics": {}}));
        let mut service = Service::default();
        mutate_service(&desired(&cache), cache.spec.metrics.as_ref().unwrap(), &mut service);
        insta::assert_yaml_snapshot!(service);
    }
}

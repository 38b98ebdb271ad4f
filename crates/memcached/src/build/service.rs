//! The headless Service of a Memcached, through which cluster DNS serves its Pods.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use operator_core::{
    labels::{self, Labels},
    pod::PodView,
};

use super::{COMPONENT, CONTAINER, DesiredCache, PORT_LABEL, object_labels, selector_labels};

/// Sets the desired state.
pub(crate) fn mutate(desired: &DesiredCache<'_>, service: &mut Service) {
    labels::add(&mut service.metadata.labels, object_labels(desired.cache, COMPONENT));
    let spec = service.spec.get_or_insert_default();
    make_headless(spec, selector_labels(desired.cache));
    spec.ports = Some(vec![ServicePort {
        name: Some(CONTAINER.to_owned()),
        port: desired.cache.spec.container_port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String(CONTAINER.to_owned())),
        ..ServicePort::default()
    }]);
}

/// Makes a Service headless, with this selector.
pub(super) fn make_headless(spec: &mut ServiceSpec, selected: Labels) {
    spec.type_ = Some("ClusterIP".to_owned());
    spec.external_name = None;
    spec.cluster_ip = Some("None".to_owned());
    spec.cluster_ips = Some(vec!["None".to_owned()]);
    spec.selector = Some(selected);
}

/// Returns the DNS name and port of a Pod, or `None` if the Pod has no IP address.
///
/// Cluster DNS serves Pods of a headless Service under their address with dashes, then the Service.
///
/// The port comes from the Pod's label. `port` is used for Pods without the label.
pub(crate) fn endpoint(pod: &PodView, service: &str, namespace: &str, port: i32) -> Option<String> {
    if pod.ip.is_empty() {
        return None;
    }
    let host = pod.ip.replace(['.', ':'], "-");
    let port = pod.labels().get(PORT_LABEL).map_or_else(|| port.to_string(), str::to_owned);
    Some(format!("{host}.{service}.{namespace}.svc:{port}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::fixture::{cache, desired};

    #[test]
    fn service_selects_only_its_own_pods() {
        let mut service = Service::default();
        mutate(&desired(&cache(&json!({"containerPort": 12000}))), &mut service);
        insta::assert_yaml_snapshot!(service);
    }

    #[test]
    fn endpoint_is_the_pods_cluster_dns_name() {
        let at = |ip: &str| {
            let pod = PodView { ip: ip.to_owned(), ..PodView::default() };
            endpoint(&pod, "web", "shop", 11211)
        };
        assert_eq!(at("10.0.0.7").as_deref(), Some("10-0-0-7.web.shop.svc:11211"));
        assert_eq!(at("fd00::7").as_deref(), Some("fd00--7.web.shop.svc:11211"));
        assert_eq!(at(""), None);
    }

    #[test]
    fn endpoint_uses_port_label_of_pod() {
        let mut pod = PodView { ip: "10.0.0.7".to_owned(), ..PodView::default() };
        pod.labels = [(PORT_LABEL, "12000")].into_iter().collect();
        let status = endpoint(&pod, "web", "shop", 11211);
        assert_eq!(status.as_deref(), Some("10-0-0-7.web.shop.svc:12000"));
    }
}

//! The headless Service of a cache: cluster DNS lists the pods under its name.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use operator_core::{labels, pod::PodView};

use super::{CONTAINER, identifying, selecting};
use crate::api::Memcached;

/// Makes the Service what the cache asks.
pub(crate) fn shape(cache: &Memcached, service: &mut Service) {
    labels::add(&mut service.metadata.labels, identifying(cache));
    let spec = service.spec.get_or_insert_default();
    spec.type_ = Some("ClusterIP".to_owned());
    spec.external_name = None;
    spec.cluster_ip = Some("None".to_owned());
    spec.cluster_ips = Some(vec!["None".to_owned()]);
    spec.selector = Some(selecting(cache));
    spec.ports = Some(vec![ServicePort {
        name: Some(CONTAINER.to_owned()),
        port: cache.spec.container_port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String(CONTAINER.to_owned())),
        ..ServicePort::default()
    }]);
}

/// Where the pod serves, in the form that cluster DNS knows for pods of a headless Service that have no host
/// name of their own: the address with dashes, then the Service. `None` for a pod without an address.
pub(crate) fn endpoint(pod: &PodView, service: &str, namespace: &str, port: i32) -> Option<String> {
    if pod.ip.is_empty() {
        return None;
    }
    let host = pod.ip.replace(['.', ':'], "-");
    Some(format!("{host}.{service}.{namespace}.svc:{port}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::fixture::cache;

    #[test]
    fn a_service_lists_the_pods_of_its_cache_only() {
        let mut service = Service::default();
        shape(&cache(&json!({"containerPort": 12000})), &mut service);
        insta::assert_yaml_snapshot!(service);
    }

    #[test]
    fn an_endpoint_is_a_name_that_cluster_dns_serves() {
        let at = |ip: &str| {
            let pod = PodView { ip: ip.to_owned(), ..PodView::default() };
            endpoint(&pod, "web", "shop", 11211)
        };
        assert_eq!(at("10.0.0.7").as_deref(), Some("10-0-0-7.web.shop.svc:11211"));
        assert_eq!(at("fd00::7").as_deref(), Some("fd00--7.web.shop.svc:11211"));
        assert_eq!(at(""), None);
    }
}

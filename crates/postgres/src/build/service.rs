//! The Services of a cluster: for the primary, the replicas, all members, and the names of the Pods.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;
use operator_core::labels;

use super::{APP, PORT, object_labels, selector_labels};
use crate::api::{PostgresCluster, Role, ServiceNames};

/// One of the Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The primary.
    ReadWrite,
    /// The replicas.
    ReadOnly,
    /// All ready members.
    Read,
    /// All members, ready or not, by the names of their Pods.
    Pods,
}

impl Access {
    pub(crate) const ALL: [Self; 4] = [Self::ReadWrite, Self::ReadOnly, Self::Read, Self::Pods];

    /// Returns the name of the Service.
    pub(crate) fn name(self, cluster: &PostgresCluster) -> String {
        let suffix = match self {
            Self::ReadWrite => "rw",
            Self::ReadOnly => "ro",
            Self::Read => "r",
            Self::Pods => "pods",
        };
        format!("{}-{suffix}", cluster.name_any())
    }

    fn role(self) -> Option<Role> {
        match self {
            Self::ReadWrite => Some(Role::Primary),
            Self::ReadOnly => Some(Role::Replica),
            Self::Read | Self::Pods => None,
        }
    }

    /// Sets the desired state.
    pub(crate) fn mutate(self, cluster: &PostgresCluster, service: &mut Service) {
        labels::add(&mut service.metadata.labels, object_labels(cluster));
        let spec = service.spec.get_or_insert_default();
        spec.selector = Some(selector_labels(cluster, self.role()));
        spec.ports = Some(vec![port(spec.ports.as_deref())]);
        if self == Self::Pods {
            spec.cluster_ip = Some("None".to_owned());
            spec.cluster_ips = Some(vec!["None".to_owned()]);
            spec.publish_not_ready_addresses = Some(true);
        }
    }
}

/// Returns the port. The API server may have chosen its node port.
fn port(present: Option<&[ServicePort]>) -> ServicePort {
    ServicePort {
        name: Some(APP.to_owned()),
        port: PORT,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String(APP.to_owned())),
        node_port: present.and_then(|ports| ports.first()?.node_port),
        ..ServicePort::default()
    }
}

/// Returns the names of the Services to connect to.
pub(crate) fn names(cluster: &PostgresCluster) -> ServiceNames {
    ServiceNames {
        rw: Access::ReadWrite.name(cluster),
        ro: Access::ReadOnly.name(cluster),
        r: Access::Read.name(cluster),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    #[test]
    fn services_select_members_by_role() {
        let cluster = cluster(&json!({}));
        let services = Access::ALL.map(|access| {
            let mut service = Service::default();
            access.mutate(&cluster, &mut service);
            (access.name(&cluster), service.spec)
        });
        insta::assert_yaml_snapshot!(services);
    }
}

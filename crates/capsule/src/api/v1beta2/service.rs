//! Restrictions of Services.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{AdditionalMetadata, ForbiddenList};

/// ServiceOptions restricts Services and defines their labels and annotations.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOptions {
    /// additionalMetadata contains labels and annotations for every Service, and for EndpointSlices
    /// that Kubernetes does not write itself. To those of a Service, Kubernetes copies the labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,

    /// allowedServices determines the types of Services that may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_services: Option<AllowedServices>,

    /// externalIPs lists the external IP addresses that Services may use.
    #[serde(default, rename = "externalIPs", skip_serializing_if = "Option::is_none")]
    pub external_ips: Option<ExternalIps>,

    /// forbiddenLabels lists labels of Services that users of the Tenant cannot set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_labels: Option<ForbiddenList>,

    /// forbiddenAnnotations lists annotations of Services that users of the Tenant cannot set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_annotations: Option<ForbiddenList>,
}

/// AllowedServices determines the types of Services that may be used.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedServices {
    /// nodePort allows Services of type NodePort.
    #[serde(default = "default_true")]
    pub node_port: bool,

    /// externalName allows Services of type ExternalName.
    #[serde(default = "default_true")]
    pub external_name: bool,

    /// loadBalancer allows Services of type LoadBalancer.
    #[serde(default = "default_true")]
    pub load_balancer: bool,
}

impl Default for AllowedServices {
    fn default() -> Self {
        Self { node_port: true, external_name: true, load_balancer: true }
    }
}

/// ExternalIps lists the external IP addresses that Services may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalIps {
    /// allowed lists addresses and networks, such as 10.20.0.7 or 10.20.0.0/16. An empty list
    /// allows none.
    #[schemars(length(max = 256), inner(length(max = 64)))]
    #[x_kube(
        validation = Rule::new("self.all(address, isIP(address) || isCIDR(address))")
            .message("every entry must be an address such as 10.20.0.7 or a network such as 10.20.0.0/16")
    )]
    pub allowed: Vec<String>,
}

fn default_true() -> bool {
    true
}

//! What Services may be.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{AdditionalMetadata, ForbiddenList};

/// What Services may be, and what is written on them.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOptions {
    /// Labels and annotations for every Service. Kubernetes hands the labels on to its EndpointSlices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,

    /// The types of Services that may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_services: Option<AllowedServices>,

    /// The external addresses that Services may use.
    #[serde(default, rename = "externalIPs", skip_serializing_if = "Option::is_none")]
    pub external_ips: Option<ExternalIps>,

    /// Labels that the people of the Tenant may not set on Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_labels: Option<ForbiddenList>,

    /// Annotations that the people of the Tenant may not set on Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_annotations: Option<ForbiddenList>,
}

/// The types of Services that may be used.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedServices {
    /// Whether Services of type NodePort may be used.
    #[serde(default = "yes")]
    pub node_port: bool,

    /// Whether Services of type ExternalName may be used.
    #[serde(default = "yes")]
    pub external_name: bool,

    /// Whether Services of type LoadBalancer may be used.
    #[serde(default = "yes")]
    pub load_balancer: bool,
}

impl Default for AllowedServices {
    fn default() -> Self {
        Self { node_port: true, external_name: true, load_balancer: true }
    }
}

/// The external addresses that Services may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalIps {
    /// Addresses and networks, such as 10.20.0.7 or 10.20.0.0/16. With an empty list, none may be used.
    #[schemars(length(max = 256), inner(length(max = 64)))]
    #[x_kube(
        validation = Rule::new("self.all(address, isIP(address) || isCIDR(address))")
            .message("every entry must be an address such as 10.20.0.7 or a network such as 10.20.0.0/16")
    )]
    pub allowed: Vec<String>,
}

fn yes() -> bool {
    true
}

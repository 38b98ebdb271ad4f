//! Optional metrics of a Memcached.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{image_rule, unprivileged_port_rule};

/// metrics runs an exporter for Prometheus in each Pod.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// image is the exporter image. It must accept the arguments of Prometheus'
    /// `memcached_exporter`. Defaults to the image that the manager is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = image_rule())]
    pub image: Option<String>,

    /// port is the TCP port on which the exporter serves `/metrics`, from 1024 to 65535.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    #[x_kube(validation = unprivileged_port_rule())]
    pub port: i32,
}

fn port() -> i32 {
    9150
}

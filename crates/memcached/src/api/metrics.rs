//! Metrics of a cache, by option.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{image_rule, unprivileged};

/// An exporter for Prometheus in each pod.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// The image of the exporter, which is to take the arguments of Prometheus' `memcached_exporter`. Without it, the
    /// one that the manager is set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = image_rule())]
    pub image: Option<String>,

    /// The TCP port on which the exporter serves `/metrics`, from 1024 to 65535.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    #[x_kube(validation = unprivileged())]
    pub port: i32,
}

fn port() -> i32 {
    9150
}

//! The Memcached API, `cache.example.com/v1alpha1`.

#![allow(unreachable_pub, reason = "KubeSchema writes a hidden copy of each struct, which nothing can reach")]

mod metrics;
mod network;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema, core::Rule};
pub use metrics::Metrics;
pub use network::NetworkAccess;
use serde::{Deserialize, Serialize};

/// spec is the desired state of the Memcached.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    plural = "memcacheds",
    shortname = "mc",
    category = "ensemble",
    namespaced,
    status = "MemcachedStatus",
    derive = "PartialEq",
    doc = "Memcached runs memcached with a given number of Pods and reports their endpoints.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 46")
        .message("a Memcached's name may have at most 46 characters, so that its Pods' names are valid host names"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("a Memcached's name must begin with a letter and contain only lower case letters, digits and '-', since its Service has the same name")
)]
#[x_kube(
    validation = Rule::new("!self.maxItemSize.matches('^[1-9][0-9]{0,6}[km]$') || (self.maxItemSize.endsWith('m') ? int(self.maxItemSize.replace('m', '')) * 1024 : int(self.maxItemSize.replace('k', ''))) <= (self.memoryMegabytes < 4096 ? self.memoryMegabytes * 256 : 1048576)")
        .message("maxItemSize may be at most a quarter of memoryMegabytes, and at most 1024m: memcached does not start with more"),
    validation = Rule::new("self.maxConnections >= 32 + 8 * self.threads")
        .message("maxConnections must be at least 32 and 8 more for each of the threads: memcached needs that many for itself and does not start with fewer"),
    validation = Rule::new("!has(self.metrics) || self.metrics.port != self.containerPort")
        .message("metrics.port must differ from containerPort, which is memcached's own"),
    validation = Rule::new("!has(self.networkPolicy) || !has(self.networkPolicy.metricsFrom) || size(self.networkPolicy.metricsFrom) == 0 || has(self.metrics)")
        .message("networkPolicy.metricsFrom may be given only with metrics: without an exporter there is nothing to reach")
)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedSpec {
    /// size is the number of Pods, from 0 to 64.
    #[serde(default = "default::size")]
    #[schemars(range(min = 0, max = 64))]
    pub size: i32,

    /// image is the memcached image, for example `memcached:1.6-alpine`. Defaults to the image that
    /// the manager is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = image_rule())]
    pub image: Option<String>,

    /// containerPort is the TCP port on which the Pods serve, from 1024 to 65535. UDP is disabled.
    #[serde(default = "default::container_port")]
    #[schemars(range(min = 1, max = 65535))]
    #[x_kube(validation = unprivileged_port_rule())]
    pub container_port: i32,

    /// memoryMegabytes is the memory for items in megabytes (memcached's -m). The Pods' memory
    /// request and limit are derived from it and include overhead for connections and bookkeeping.
    #[serde(default = "default::memory_megabytes")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_megabytes: i32,

    /// maxConnections is the maximum number of simultaneous connections per Pod (memcached's -c).
    #[serde(default = "default::max_connections")]
    #[schemars(range(min = 1, max = 65536))]
    pub max_connections: i32,

    /// threads is the number of threads that serve connections in each Pod (memcached's -t), from 1
    /// to 64.
    #[serde(default = "default::threads")]
    #[schemars(range(min = 1, max = 64))]
    pub threads: i32,

    /// maxItemSize is the maximum size of an item (memcached's -I), in megabytes or kilobytes, for
    /// example 1m or 512k.
    #[serde(default = "default::max_item_size")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,6}m$') || (self.matches('^[1-9][0-9]{0,6}k$') && int(self.replace('k', '')) % 512 == 0)")
        .message("maxItemSize must be a number of megabytes, or of kilobytes that is a multiple of 512: 1m, 512k or 1536k; memcached does not start with other sizes"))]
    pub max_item_size: String,

    /// extraArgs are additional arguments for memcached, one word each. They come last on the
    /// command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = Rule::new("self.all(arg, !arg.matches('^(-[mctIpUsd]|--(memory-limit|conn-limit|threads|max-item-size|port|udp-port|unix-socket|daemon))'))")
        .message("extraArgs must not contain -m, -c, -t, -I or -p, which have fields of their own, nor -U, -s or -d, with which the pods would not serve"))]
    pub extra_args: Vec<String>,

    /// metrics adds an exporter for Prometheus to each Pod and the Service `<name>-metrics` for
    /// scraping. `{}` is enough. If unset, neither is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,

    /// networkPolicy restricts access to the Pods with a NetworkPolicy. If unset, none is created,
    /// and other policies decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkAccess>,
}

fn image_rule() -> Rule {
    Rule::new("self.matches('^[^ \\t\\r\\n]+$')").message("an image's name must not contain whitespace")
}

fn unprivileged_port_rule() -> Rule {
    Rule::new("self >= 1024").message(
        "a port must be 1024 or above: the pods do not run as root, and only root may open lower ports",
    )
}

mod default {
    pub(super) fn size() -> i32 {
        1
    }

    pub(super) fn container_port() -> i32 {
        11211
    }

    pub(super) fn memory_megabytes() -> i32 {
        64
    }

    pub(super) fn max_connections() -> i32 {
        1024
    }

    pub(super) fn threads() -> i32 {
        4
    }

    pub(super) fn max_item_size() -> String {
        "1m".to_owned()
    }
}

/// status is the observed state of the Memcached.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    /// nodes are the names of the Pods, sorted. Terminating Pods are left out.
    #[serde(default)]
    pub nodes: Vec<String>,

    /// endpoints are the host names and ports of the ready Pods, sorted. The host names are those
    /// that cluster DNS serves for the Pods of the headless Service.
    #[serde(default)]
    pub endpoints: Vec<String>,

    /// replicas is the number of Pods.
    #[serde(default)]
    pub replicas: i32,

    /// readyReplicas is the number of ready Pods.
    #[serde(default)]
    pub ready_replicas: i32,

    /// selector is the label selector of the Pods, for autoscalers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,

    /// observedGeneration is the generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// conditions are the latest observations: Available, Progressing, Degraded, and Ready, which
    /// summarizes them.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

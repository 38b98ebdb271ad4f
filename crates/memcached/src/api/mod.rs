//! The Memcached API, `cache.example.com/v1alpha1`.

#![allow(unreachable_pub, reason = "KubeSchema writes a hidden copy of each struct, which nothing can reach")]

mod metrics;
mod network;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema, core::Rule};
pub use metrics::Metrics;
pub use network::{Block, Network, Operator, Peer, Requirement, Selector};
use serde::{Deserialize, Serialize};

/// What a cache should be: how many pods, and how each of them is run.
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
    doc = "Memcached runs a cache of a given size and says where it is.",
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
        .message("a Memcached's name may have at most 46 characters, so that its pods' names fit a host name"),
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
    /// How many pods the cache has, from 0 to 64.
    #[serde(default = "default::size")]
    #[schemars(range(min = 0, max = 64))]
    pub size: i32,

    /// The image to run, `memcached:1.6-alpine` for example. Without it, the one that the manager is set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = image_rule())]
    pub image: Option<String>,

    /// The TCP port on which the pods serve, from 1024 to 65535. UDP is off.
    #[serde(default = "default::container_port")]
    #[schemars(range(min = 1, max = 65535))]
    #[x_kube(validation = unprivileged())]
    pub container_port: i32,

    /// The memory for items in megabytes (memcached's -m). The pods' memory request and limit follow from it,
    /// with head room for connections and bookkeeping.
    #[serde(default = "default::memory_megabytes")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_megabytes: i32,

    /// The most connections that a pod serves at once (memcached's -c).
    #[serde(default = "default::max_connections")]
    #[schemars(range(min = 1, max = 65536))]
    pub max_connections: i32,

    /// How many threads serve connections in each pod (memcached's -t), from 1 to 64.
    #[serde(default = "default::threads")]
    #[schemars(range(min = 1, max = 64))]
    pub threads: i32,

    /// The size of the largest item (memcached's -I), in megabytes or kilobytes: 1m, or 512k.
    #[serde(default = "default::max_item_size")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,6}m$') || (self.matches('^[1-9][0-9]{0,6}k$') && int(self.replace('k', '')) % 512 == 0)")
        .message("maxItemSize must be a number of megabytes, or of kilobytes that is a multiple of 512: 1m, 512k or 1536k; memcached does not start with other sizes"))]
    pub max_item_size: String,

    /// More arguments for memcached, each word by itself. They come last on the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = Rule::new("self.all(arg, !arg.matches('^(-[mctIpUsd]|--(memory-limit|conn-limit|threads|max-item-size|port|udp-port|unix-socket|daemon))'))")
        .message("extraArgs must not contain -m, -c, -t, -I or -p, which have fields of their own, nor -U, -s or -d, with which the pods would not serve"))]
    pub extra_args: Vec<String>,

    /// Metrics for Prometheus: an exporter beside memcached in each pod, and the Service `<name>-metrics` by which it
    /// is found. `{}` is enough. Without it there is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,

    /// Who may reach the pods, by a NetworkPolicy. Without it there is none, and whoever else's policies let.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<Network>,
}

fn image_rule() -> Rule {
    Rule::new("self.matches('^[^ \\t\\r\\n]+$')").message("an image's name contains no blanks")
}

fn unprivileged() -> Rule {
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

/// What is known about a cache.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    /// The names of the cache's pods, sorted. Pods that are going are not among them.
    #[serde(default)]
    pub nodes: Vec<String>,

    /// Where the ready pods serve: a host name and port for each, sorted. The names are those that cluster
    /// DNS gives the pods of the cache's headless Service.
    #[serde(default)]
    pub endpoints: Vec<String>,

    /// How many pods the cache has.
    #[serde(default)]
    pub replicas: i32,

    /// How many of them are ready.
    #[serde(default)]
    pub ready_replicas: i32,

    /// The label selector of the pods, for autoscalers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,

    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Statements about the cache: Available, Progressing, Degraded, and Ready, which sums them up.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

//! The desired child objects of a Memcached. Pure functions.
//!
//! Each `mutate` function sets the fields that the Memcached manages, in a new or an existing
//! object. It sets API server defaults within these fields explicitly, so that a second call
//! changes nothing. Fields of others stay: annotations, other labels, node selectors, tolerations,
//! other containers.
//!
//! Only a NetworkPolicy is managed as a whole, because any additional rule grants access.

pub(crate) mod budget;
mod command;
mod container;
pub(crate) mod deployment;
pub(crate) mod exporter;
pub(crate) mod network;
mod pod;
mod resources;
pub(crate) mod service;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use operator_core::labels::{self, Labels};

use crate::{api::Memcached, autoscalers::Size};

/// Label of all Pods of all Memcacheds.
pub const APP_LABEL: &str = "app";
/// The value of [`APP_LABEL`].
pub const APP: &str = "memcached";
/// Label with the name of the Memcached, so that the Pods of two Memcacheds never mix.
pub const CACHE_LABEL: &str = "memcached_cr";
/// Label with the revision that the Deployment controller sets on Pods.
pub(crate) const REVISION_LABEL: &str = "pod-template-hash";
/// Label with the port on which a Pod serves. During a change of the port, Pods differ.
pub const PORT_LABEL: &str = "cache.example.com/port";
/// Name of the memcached container and of its port.
pub const CONTAINER: &str = "memcached";
/// Component label of all child objects except those for metrics.
const COMPONENT: &str = "cache";

/// A Memcached with the defaults of the manager applied.
pub(crate) struct DesiredCache<'a> {
    /// The Memcached.
    pub(crate) cache: &'a Memcached,
    /// Image of memcached.
    pub(crate) image: &'a str,
    /// Image of the exporter if the spec sets none.
    pub(crate) exporter_image: &'a str,
    /// Number of Pods.
    pub(crate) size: Size,
}

/// Returns the labels that select the Pods of a Memcached.
fn selector_labels(cache: &Memcached) -> Labels {
    [(APP_LABEL.to_owned(), APP.to_owned()), (CACHE_LABEL.to_owned(), cache.name_any())].into()
}

/// Returns the labels of a child object.
fn object_labels(cache: &Memcached, component: &str) -> Labels {
    let mut all = labels::recommended(APP, &cache.name_any(), component);
    all.extend(selector_labels(cache));
    all
}

/// Returns the selector of the Pods of a Memcached.
fn selector(cache: &Memcached) -> LabelSelector {
    LabelSelector { match_labels: Some(selector_labels(cache)), match_expressions: None }
}

/// Returns the selector of the Pods of a Memcached as text.
pub(crate) fn selector_string(cache: &Memcached) -> String {
    format!("{APP_LABEL}={APP},{CACHE_LABEL}={}", cache.name_any())
}

#[cfg(test)]
pub(crate) mod fixture {
    use serde_json::{Value, json};

    use super::DesiredCache;
    use crate::{api::Memcached, autoscalers::Size};

    pub(crate) const IMAGE: &str = "memcached:1.4.36-alpine";

    /// Returns the desired state of a Memcached without an autoscaler.
    pub(crate) fn desired(cache: &Memcached) -> DesiredCache<'_> {
        let size = Size { pods: cache.spec.size, autoscaler: None };
        DesiredCache { cache, image: IMAGE, exporter_image: "exporter:1", size }
    }

    /// Returns a Memcached with this spec, as the API server returns it.
    pub(crate) fn cache(spec: &Value) -> Memcached {
        serde_json::from_value(json!({
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "generation": 1},
            "spec": spec,
        }))
        .unwrap()
    }
}

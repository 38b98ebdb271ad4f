//! What the objects of a cache are to look like. Pure.
//!
//! Each `shape` function changes, in an object that may be there already, the fields that the cache means,
//! and spells out what the API server would fill in within them. Fields of others stay: annotations, more
//! labels, node selectors, tolerations, side-cars of other names. So shaping twice changes nothing. Only a
//! NetworkPolicy is the cache's as a whole, for any rule more lets somebody in.

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

/// The label that all pods of all caches carry.
pub const APP_LABEL: &str = "app";
/// The value of [`APP_LABEL`].
pub const APP: &str = "memcached";
/// The label that carries the name of the cache, so that the pods of two caches never mix.
pub const CACHE_LABEL: &str = "memcached_cr";
/// The label that a Deployment puts on the pods of each of its revisions.
pub(crate) const REVISION_LABEL: &str = "pod-template-hash";
/// The label of a pod that says on which port it serves: while that is changed, pods differ.
pub const PORT_LABEL: &str = "cache.example.com/port";
/// The name of the container that serves, and of its port.
pub const CONTAINER: &str = "memcached";
/// What a cache's objects are to it, unless they are about its metrics.
const COMPONENT: &str = "cache";

/// What is asked of a cache, with what its spec leaves open filled in.
pub(crate) struct Asked<'a> {
    /// The cache.
    pub(crate) cache: &'a Memcached,
    /// The image of its memcached.
    pub(crate) image: &'a str,
    /// The image of its exporter if the spec, which may not even ask for one, names none.
    pub(crate) exporter_image: &'a str,
    /// How many pods it is to have.
    pub(crate) size: Size,
}

/// The labels by which a cache's pods are selected.
fn selecting(cache: &Memcached) -> Labels {
    [(APP_LABEL.to_owned(), APP.to_owned()), (CACHE_LABEL.to_owned(), cache.name_any())].into()
}

/// The labels that each of a cache's objects carries.
fn identifying(cache: &Memcached, component: &str) -> Labels {
    let mut all = labels::recommended(APP, &cache.name_any(), component);
    all.extend(selecting(cache));
    all
}

/// The selector of a cache's pods.
fn selector(cache: &Memcached) -> LabelSelector {
    LabelSelector { match_labels: Some(selecting(cache)), match_expressions: None }
}

/// The selector of a cache's pods, as text.
pub(crate) fn selector_text(cache: &Memcached) -> String {
    format!("{APP_LABEL}={APP},{CACHE_LABEL}={}", cache.name_any())
}

#[cfg(test)]
pub(crate) mod fixture {
    use serde_json::{Value, json};

    use super::Asked;
    use crate::{api::Memcached, autoscalers::Size};

    pub(crate) const IMAGE: &str = "memcached:1.4.36-alpine";

    /// What is asked of a cache whose size nobody else sets.
    pub(crate) fn asked(cache: &Memcached) -> Asked<'_> {
        let size = Size { pods: cache.spec.size, autoscaler: None };
        Asked { cache, image: IMAGE, exporter_image: "exporter:1", size }
    }

    /// A cache with this spec, as the API server returns it.
    pub(crate) fn cache(spec: &Value) -> Memcached {
        serde_json::from_value(json!({
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "generation": 1},
            "spec": spec,
        }))
        .unwrap()
    }
}

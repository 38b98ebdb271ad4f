//! What a pod needs of its node.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};
use operator_core::quantity::{Format, Quantity};

use crate::api::MemcachedSpec;

const MEBIBYTE: i64 = 1 << 20;
/// What memcached takes besides items: its hash table, and a page of each of its some forty slab classes, which
/// it may take beyond the memory for items.
const BASE: i64 = 48 * MEBIBYTE;
/// The share of the memory for items by which bookkeeping grows: an eighth.
const BOOKKEEPING: i64 = 8;
/// What a connection takes with its buffers.
const CONNECTION: i64 = 16 * 1024;
/// A start that lets the scheduler count. There is no limit: a cache that is slowed down is no cache.
const CPU_REQUEST: &str = "100m";
/// Some two hundred series of a Go program.
const EXPORTER_MEMORY: &str = "64Mi";

/// Writes down what the container needs. What is asked besides, of ephemeral storage for example, stays.
///
/// Memory is requested up to the limit, since a cache fills whatever it is given.
pub(super) fn shape(spec: &MemcachedSpec, resources: &mut ResourceRequirements) {
    let memory = memory(spec);
    put(&mut resources.requests, "cpu", ApiQuantity(CPU_REQUEST.to_owned()));
    put(&mut resources.requests, "memory", memory.clone());
    put(&mut resources.limits, "memory", memory);
}

/// What the exporter needs, which keeps nothing.
pub(super) fn shape_exporter(resources: &mut ResourceRequirements) {
    put(&mut resources.requests, "cpu", ApiQuantity("10m".to_owned()));
    put(&mut resources.requests, "memory", ApiQuantity(EXPORTER_MEMORY.to_owned()));
    put(&mut resources.limits, "memory", ApiQuantity(EXPORTER_MEMORY.to_owned()));
}

fn put(of: &mut Option<BTreeMap<String, ApiQuantity>>, resource: &str, amount: ApiQuantity) {
    of.get_or_insert_default().insert(resource.to_owned(), amount);
}

/// The memory for items and head room, rounded up to whole mebibytes.
fn memory(spec: &MemcachedSpec) -> ApiQuantity {
    let items = i64::from(spec.memory_megabytes) * MEBIBYTE;
    let bytes = items + items / BOOKKEEPING + BASE + i64::from(spec.max_connections) * CONNECTION;
    let rounded = (bytes + MEBIBYTE - 1) / MEBIBYTE * MEBIBYTE;
    Quantity::from_units(rounded, Format::BinarySi).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::fixture::cache;

    fn limit(spec: &serde_json::Value) -> String {
        memory(&cache(spec).spec).0
    }

    #[test]
    fn the_limit_leaves_head_room_above_the_memory_for_items() {
        assert_eq!(limit(&json!({})), "136Mi");
        assert_eq!(limit(&json!({"memoryMegabytes": 1024})), "1216Mi");
    }

    #[test]
    fn many_connections_need_more() {
        assert_eq!(limit(&json!({"maxConnections": 65536})), "1144Mi");
    }

    #[test]
    fn amounts_are_written_as_the_api_server_writes_them() {
        assert_eq!(limit(&json!({"memoryMegabytes": 1764, "maxConnections": 1024})), "2049Mi");
        assert_eq!(limit(&json!({"memoryMegabytes": 1763, "maxConnections": 1024})), "2Gi");
    }

    #[test]
    fn what_others_ask_for_stays() {
        let mut resources = ResourceRequirements::default();
        put(&mut resources.limits, "cpu", ApiQuantity("2".to_owned()));
        shape(&cache(&json!({})).spec, &mut resources);
        assert_eq!(resources.limits.unwrap()["cpu"].0, "2");
        assert_eq!(resources.requests.unwrap()["cpu"].0, CPU_REQUEST);
    }
}

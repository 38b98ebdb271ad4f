//! Resource requests and limits.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};
use operator_core::quantity::{Format, Quantity};

use crate::api::MemcachedSpec;

const MEBIBYTE: i64 = 1 << 20;
/// Memory beyond the items: the hash table, and one page for each of about forty slab classes,
/// which memcached may allocate beyond `-m`.
const BASE_OVERHEAD: i64 = 48 * MEBIBYTE;
/// Divisor of the memory for items that gives the memory for bookkeeping.
const BOOKKEEPING_DIVISOR: i64 = 8;
/// Memory per connection, including buffers.
const CONNECTION_MEMORY: i64 = 16 * 1024;
/// CPU request for the scheduler. There is no limit, because throttling a cache defeats its
/// purpose.
const CPU_REQUEST: &str = "100m";
/// Enough for about two hundred series of a Go program.
const EXPORTER_MEMORY: &str = "64Mi";

/// Sets CPU and memory. Other resources, for example ephemeral storage, are left unchanged.
///
/// The memory request equals the limit, because a cache fills all memory that it may use.
pub(super) fn mutate(spec: &MemcachedSpec, resources: &mut ResourceRequirements) {
    let memory = memory(spec);
    put(&mut resources.requests, "cpu", ApiQuantity(CPU_REQUEST.to_owned()));
    put(&mut resources.requests, "memory", memory.clone());
    put(&mut resources.limits, "memory", memory);
}

/// Sets CPU and memory of the exporter, which stores nothing.
pub(super) fn mutate_exporter(resources: &mut ResourceRequirements) {
    put(&mut resources.requests, "cpu", ApiQuantity("10m".to_owned()));
    put(&mut resources.requests, "memory", ApiQuantity(EXPORTER_MEMORY.to_owned()));
    put(&mut resources.limits, "memory", ApiQuantity(EXPORTER_MEMORY.to_owned()));
}

fn put(of: &mut Option<BTreeMap<String, ApiQuantity>>, resource: &str, amount: ApiQuantity) {
    of.get_or_insert_default().insert(resource.to_owned(), amount);
}

/// Returns the memory limit: items and overhead, rounded up to whole mebibytes.
fn memory(spec: &MemcachedSpec) -> ApiQuantity {
    let items = i64::from(spec.memory_megabytes) * MEBIBYTE;
    let bytes = items
        + items / BOOKKEEPING_DIVISOR
        + BASE_OVERHEAD
        + i64::from(spec.max_connections) * CONNECTION_MEMORY;
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
    fn memory_limit_includes_overhead() {
        assert_eq!(limit(&json!({})), "136Mi");
        assert_eq!(limit(&json!({"memoryMegabytes": 1024})), "1216Mi");
    }

    #[test]
    fn memory_limit_grows_with_connections() {
        assert_eq!(limit(&json!({"maxConnections": 65536})), "1144Mi");
    }

    #[test]
    fn writes_quantities_in_canonical_form() {
        assert_eq!(limit(&json!({"memoryMegabytes": 1764, "maxConnections": 1024})), "2049Mi");
        assert_eq!(limit(&json!({"memoryMegabytes": 1763, "maxConnections": 1024})), "2Gi");
    }

    #[test]
    fn keeps_foreign_resources() {
        let mut resources = ResourceRequirements::default();
        put(&mut resources.limits, "cpu", ApiQuantity("2".to_owned()));
        mutate(&cache(&json!({})).spec, &mut resources);
        assert_eq!(resources.limits.unwrap()["cpu"].0, "2");
        assert_eq!(resources.requests.unwrap()["cpu"].0, CPU_REQUEST);
    }
}

//! Cache of what is compiled from the spec of a Tenant, such as patterns.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use operator_core::{informer::Store, kind::uid};
use parking_lot::Mutex;

use crate::api::v1beta2::Tenant;

/// Compiles a value once for each generation of a Tenant.
#[derive(Debug)]
pub struct CompiledCache<T>(Mutex<HashMap<String, Entry<T>>>);

/// Generation of the Tenant, and the value.
type Entry<T> = (Option<i64>, Arc<T>);

impl<T> Default for CompiledCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: for<'t> From<&'t Tenant>> CompiledCache<T> {
    /// Returns the value of a Tenant. Drops Tenants that are not in the store.
    pub fn of(&self, tenant: &Tenant, store: &Store<Tenant>) -> Arc<T> {
        let (uid, generation) = (uid(tenant), tenant.metadata.generation);
        let mut entries = self.0.lock();
        if let Some((compiled_generation, value)) = entries.get(&uid)
            && *compiled_generation == generation
        {
            return value.clone();
        }
        let value = Arc::new(T::from(tenant));
        entries.insert(uid, (generation, value.clone()));
        if entries.len() > store.len() {
            let existing: HashSet<_> =
                store.list().iter().map(|tenant| operator_core::kind::uid(tenant.as_ref())).collect();
            entries.retain(|uid, _| existing.contains(uid));
        }
        value
    }
}

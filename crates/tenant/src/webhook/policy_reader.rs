//! The compiled policy of the Tenant of a namespace.

use std::sync::Arc;

use capsule::{api::v1beta2::Tenant, compiled::CompiledCache};
use operator_core::admission::Caches;

use super::tenant_resolver::{ResolveError, TenantResolver};

/// Reads policies of type `T`, which are compiled once for each generation of a Tenant.
pub(super) struct PolicyReader<T> {
    resolver: TenantResolver,
    compiled: CompiledCache<T>,
}

impl<T: for<'t> From<&'t Tenant>> PolicyReader<T> {
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        Self { resolver: TenantResolver::build(caches), compiled: CompiledCache::default() }
    }

    /// Returns the Tenant of a namespace and its policy, or `None` if the namespace has no Tenant.
    ///
    /// # Errors
    /// Returns an error if the namespace is not in the cache yet, or the Tenant cannot be read.
    pub(super) async fn of(
        &self,
        namespace: Option<&str>,
    ) -> Result<Option<(Arc<Tenant>, Arc<T>)>, ResolveError> {
        let tenant = self.resolver.resolve(namespace.unwrap_or_default()).await?;
        Ok(tenant.map(|tenant| {
            let policy = self.compiled.of(&tenant, self.resolver.tenants.store());
            (tenant, policy)
        }))
    }
}

//! Gathers the items of a spec.
//!
//! ```text
//! references   which existing objects the spec names
//! load         reads them as the acting account
//! build        pure: copies, raw items, and generators become items
//! scope        checks the kinds by discovery
//! ```

mod build;
mod load;
mod scope;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use capsule::api::v1beta2::{ReplicatedResources, SourceReference};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;

pub(crate) use self::build::template_errors;
use crate::{
    discovery::{Discovery, DiscoveryError},
    generator::GeneratorError,
    item::Item,
    reference::{Reference, ReferenceRules},
    target::{Target, select},
};

/// Limit of the items of one object.
pub(crate) const MAX_ITEMS: usize = 2000;
/// Limit of the bytes of all items of one object.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Limit of the objects that one reference selects.
const MAX_SOURCES: u32 = 500;
/// Limit of the references of one object, after their tags are replaced.
const MAX_REFERENCES: usize = 1000;
/// Limit of concurrent reads of one object.
const MAX_CONCURRENT_READS: usize = 8;
/// Templates are rendered for at most this many objects at the same time, because they need the
/// processor.
static RENDERING: Semaphore = Semaphore::const_new(2);

/// Reason why the items cannot be gathered. Nothing is applied or pruned then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatherError {
    /// A field is invalid.
    #[error("{path}: {message}")]
    Invalid {
        /// Path of the field.
        path: String,
        /// What is wrong, and the remedy.
        message: String,
    },
    /// A TenantResource names a namespace of another Tenant.
    #[error(
        "{path}: cross-namespace selection is not allowed: the namespace {namespace} does not belong to the Tenant; \
         name a namespace of the Tenant"
    )]
    CrossNamespace {
        /// Path of the reference.
        path: String,
        /// The namespace.
        namespace: String,
    },
    /// A TenantResource describes a cluster-scoped object.
    #[error(
        "cluster-scoped kind {api_version}/{kind} is not allowed; ask an administrator for a GlobalTenantResource"
    )]
    ClusterScoped {
        /// Group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A kind cannot be found.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// An existing object cannot be read.
    #[error("cannot read {reference}")]
    Read {
        /// The reference.
        reference: String,
        /// Error of the request.
        source: kube::Error,
    },
    /// A named object does not exist.
    #[error("{0} does not exist; create it, or set optional")]
    Missing(String),
    /// A reference selects too many objects.
    #[error("{0} selects more than {MAX_SOURCES} objects; use a narrower selector")]
    TooManySources(String),
    /// A generator fails.
    #[error("{path}: {source}")]
    Generator {
        /// Path of the generator.
        path: String,
        /// Its error.
        source: GeneratorError,
    },
    /// One item has different contents for several namespaces.
    #[error("{path} describes {object} with different contents; use {{{{namespace}}}} in its name")]
    Collision {
        /// Path of the item.
        path: String,
        /// The object.
        object: String,
    },
    /// The spec describes too much.
    #[error("the spec describes more than {0}; split it into several objects")]
    TooLarge(String),
    /// The rendering was aborted.
    #[error("the templates could not be rendered; this is a bug, please report it")]
    Aborted,
}

/// What items are gathered from.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The Tenants and namespaces.
    pub(crate) targets: Vec<Target>,
    /// Namespaces of the Tenant of a TenantResource. `None` for a GlobalTenantResource, which has no
    /// limits.
    pub(crate) tenant_namespaces: Option<Vec<String>>,
    /// Namespace of a TenantResource.
    pub(crate) home: Option<String>,
}

/// The objects of each reference.
pub(crate) type Sources = BTreeMap<Reference, Arc<Vec<Value>>>;

/// Gathers all items.
///
/// # Errors
/// Returns the first error. No item is applied or pruned then.
pub(crate) async fn gather(
    client: &Client,
    discovery: &Discovery,
    resources: &[ReplicatedResources],
    scope: Scope,
) -> Result<Vec<Item>, GatherError> {
    let references = references(resources, &scope)?;
    let is_limited = scope.tenant_namespaces.is_some();
    let loads = references.into_iter().map(|reference| async {
        let objects = load::load(client, discovery, &reference, is_limited).await?;
        Ok::<_, GatherError>((reference, Arc::new(objects)))
    });
    let loads: Vec<_> = loads.collect();
    let sources: Sources = stream::iter(loads).buffered(MAX_CONCURRENT_READS).try_collect().await?;
    let (resources, built_scope) = (resources.to_vec(), scope.clone());
    let permit = RENDERING.acquire().await.map_err(|_| GatherError::Aborted)?;
    let build = move || build::build(&resources, &built_scope, &sources);
    let items = tokio::task::spawn_blocking(build).await.map_err(|_| GatherError::Aborted)?;
    drop(permit);
    scope::check(discovery, items?, &scope).await
}

/// Returns every reference of the spec.
fn references(resources: &[ReplicatedResources], scope: &Scope) -> Result<BTreeSet<Reference>, GatherError> {
    let mut references = BTreeSet::new();
    for (index, resource) in resources.iter().enumerate() {
        for target in select(&scope.targets, index, resource.namespace_selector.as_ref())? {
            for (number, source) in resource.namespaced_items.iter().enumerate() {
                if target.namespace.is_some() {
                    references.insert(scope.copied(index, number, source, target)?);
                }
            }
            for (number, source) in resource.context.iter().flat_map(|context| &context.resources).enumerate()
            {
                references.insert(scope.context(index, number, &source.into(), target)?);
            }
            if references.len() > MAX_REFERENCES {
                return Err(GatherError::TooLarge(format!("{MAX_REFERENCES} references")));
            }
        }
    }
    Ok(references)
}

impl Scope {
    /// Resolves a reference of `namespacedItems`. Its default namespace is that of the
    /// TenantResource.
    fn copied(
        &self,
        index: usize,
        number: usize,
        source: &SourceReference,
        target: &Target,
    ) -> Result<Reference, GatherError> {
        let path = format!("spec.resources[{index}].namespacedItems[{number}]");
        let rules = ReferenceRules {
            default_namespace: self.home.as_deref(),
            allowed_namespaces: self.tenant_namespaces.as_deref(),
        };
        Reference::resolve(source, &path, &target.tags(), &rules)
    }

    /// Resolves a reference of `context`. Its default namespace is that of the target.
    fn context(
        &self,
        index: usize,
        number: usize,
        source: &SourceReference,
        target: &Target,
    ) -> Result<Reference, GatherError> {
        let path = format!("spec.resources[{index}].context.resources[{number}]");
        let rules = ReferenceRules {
            default_namespace: target.namespace_name(),
            allowed_namespaces: self.tenant_namespaces.as_deref(),
        };
        Reference::resolve(source, &path, &target.tags(), &rules)
    }
}

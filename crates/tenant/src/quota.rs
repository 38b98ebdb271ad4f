//! A quota that the namespaces of a Tenant share, as one ResourceQuota in each namespace.
//!
//! The hard limit of a namespace is its own usage plus the unused remainder of the quota. Any
//! namespace can use the whole remainder, and the limits of the others then shrink.
//!
//! The API server checks each `ResourceQuota` separately. Namespaces that use the remainder at the
//! same time could therefore exceed the quota together, each by at most the remainder. An admission
//! webhook prevents this. If the quota is exceeded anyway, each limit becomes the current usage of
//! its namespace, until the usage falls below the quota.

use std::collections::BTreeMap;

use capsule::api::names::{QUOTA_HARD_ANNOTATION, QUOTA_USED_ANNOTATION};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use operator_core::quantity::{ParseQuantityError, Quantity};

/// Quantities by resource name.
pub type Resources = BTreeMap<String, ApiQuantity>;

/// Limit of the length of an annotation key, as in Capsule.
const MAX_ANNOTATION: usize = 63;

/// Division of a quota among the namespaces of a Tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Division {
    /// Hard limits by namespace.
    pub limits: BTreeMap<String, Resources>,
    /// Usage of all namespaces together, of the resources in the quota.
    pub used: Resources,
    /// Annotations of each ResourceQuota: the quota of the whole Tenant and its usage.
    pub annotations: BTreeMap<String, String>,
}

/// Error in the division of a quota.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// A quantity in the Tenant's spec is invalid.
    #[error("cannot read the limit of {resource} in the Tenant")]
    Limit {
        /// Name of the resource.
        resource: String,
        /// Cause.
        source: ParseQuantityError,
    },
    /// A quantity in the status of a ResourceQuota is invalid.
    #[error("cannot read the usage of {resource} in namespace {namespace}")]
    Usage {
        /// Name of the resource.
        resource: String,
        /// Name of the namespace.
        namespace: String,
        /// Cause.
        source: ParseQuantityError,
    },
}

/// Divides `hard` among the namespaces in `used`, which contains the usage of each namespace. It is
/// empty for a namespace whose ResourceQuota is new.
///
/// While the total usage of a resource is below the quota, the limit of a namespace is its own
/// usage plus the remainder. Otherwise it is its own usage. Resources that `hard` does not contain
/// get no limit.
///
/// The function is deterministic, so applying its result does not change the next result.
///
/// # Errors
/// Returns an error if a quantity is invalid.
pub fn divide(hard: &Resources, used: &BTreeMap<String, Resources>) -> Result<Division, QuotaError> {
    let mut division = Division::default();
    for namespace in used.keys() {
        division.limits.insert(namespace.clone(), Resources::new());
    }
    for (resource, limit) in hard {
        let limit = Quantity::try_from(limit)
            .map_err(|source| QuotaError::Limit { resource: resource.clone(), source })?;
        let usages = used
            .iter()
            .map(|(namespace, used)| Ok((namespace, usage(namespace, resource, used)?)))
            .collect::<Result<Vec<_>, QuotaError>>()?;
        let total = usages.iter().fold(Quantity::ZERO, |sum, (_, own)| sum.saturating_add(*own));
        for (namespace, own) in usages {
            let hard = if total < limit { limit.saturating_sub(total).saturating_add(own) } else { own };
            division.limits.entry(namespace.clone()).or_default().insert(resource.clone(), hard.into());
        }
        division.used.insert(resource.clone(), total.into());
        division.annotations.insert(annotation(QUOTA_HARD_ANNOTATION, resource), limit.to_string());
        division.annotations.insert(annotation(QUOTA_USED_ANNOTATION, resource), total.to_string());
    }
    Ok(division)
}

fn usage(namespace: &str, resource: &str, used: &Resources) -> Result<Quantity, QuotaError> {
    used.get(resource).map_or(Ok(Quantity::ZERO), |quantity| {
        Quantity::try_from(quantity).map_err(|source| QuotaError::Usage {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            source,
        })
    })
}

/// Returns the annotation key for a resource. A name that is too long is replaced by its MD5 sum,
/// as in Capsule (`createAnnotation`).
fn annotation(prefix: &str, resource: &str) -> String {
    let resource = resource.replace('/', "_");
    if prefix.len() + resource.len() <= MAX_ANNOTATION {
        format!("{prefix}{resource}")
    } else {
        format!("{prefix}{:x}", md5::compute(resource))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};

    use super::*;

    fn resources<'a>(quantities: impl IntoIterator<Item = (&'a str, &'a str)>) -> Resources {
        let quantities = quantities.into_iter();
        quantities.map(|(name, quantity)| (name.to_owned(), ApiQuantity(quantity.to_owned()))).collect()
    }

    fn used<'a>(namespaces: impl IntoIterator<Item = (&'a str, Resources)>) -> BTreeMap<String, Resources> {
        namespaces.into_iter().map(|(name, used)| (name.to_owned(), used)).collect()
    }

    #[test]
    fn unused_quota_is_the_limit_of_each_namespace() {
        let hard = resources([("pods", "10"), ("limits.memory", "16Gi")]);
        let division = divide(&hard, &used([("dev", Resources::new()), ("prod", Resources::new())])).unwrap();
        assert_eq!(division.limits, used([("dev", hard.clone()), ("prod", hard)]));
    }

    #[test]
    fn limit_is_own_usage_plus_remainder() {
        let hard = resources([("pods", "10"), ("limits.cpu", "8")]);
        let division = divide(
            &hard,
            &used([
                ("dev", resources([("pods", "3"), ("limits.cpu", "500m")])),
                ("prod", resources([("pods", "4"), ("limits.cpu", "1")])),
            ]),
        )
        .unwrap();
        let expected = used([
            ("dev", resources([("pods", "6"), ("limits.cpu", "7")])),
            ("prod", resources([("pods", "7"), ("limits.cpu", "7500m")])),
        ]);
        assert_eq!(division.limits, expected);
        assert_eq!(division.annotations["quota.capsule.clastix.io/used-limits.cpu"], "1500m");
        assert_eq!(division.annotations["quota.capsule.clastix.io/hard-limits.cpu"], "8");
        assert_eq!(division.annotations["quota.capsule.clastix.io/used-pods"], "7");
    }

    #[test]
    fn limit_is_own_usage_when_the_quota_is_exhausted() {
        let hard = resources([("pods", "5")]);
        let uses = used([
            ("dev", resources([("pods", "3")])),
            ("new", Resources::new()),
            ("prod", resources([("pods", "4")])),
        ]);
        let limits = divide(&hard, &uses).unwrap().limits;
        assert_eq!(limits["dev"], resources([("pods", "3")]));
        assert_eq!(limits["prod"], resources([("pods", "4")]));
        assert_eq!(limits["new"], resources([("pods", "0")]), "an empty namespace gets nothing");
    }

    #[test]
    fn resource_without_quota_gets_no_limit() {
        let uses = used([("dev", resources([("pods", "3"), ("secrets", "9")]))]);
        let division = divide(&resources([("pods", "5")]), &uses).unwrap();
        assert_eq!(division.limits["dev"], resources([("pods", "5")]));
        assert_eq!(division.annotations.len(), 2);
    }

    #[test]
    fn error_names_the_resource_of_an_invalid_quantity() {
        let error = divide(&resources([("pods", "many")]), &used([("dev", Resources::new())])).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the limit of pods in the Tenant");
        let uses = used([("dev", resources([("pods", "few")]))]);
        let error = divide(&resources([("pods", "1")]), &uses).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the usage of pods in namespace dev");
    }

    #[test]
    fn long_resource_name_is_hashed_in_annotation_key() {
        let short = annotation(QUOTA_USED_ANNOTATION, "requests.nvidia.com/gpu");
        assert_eq!(short, "quota.capsule.clastix.io/used-requests.nvidia.com_gpu");
        let long = annotation(QUOTA_HARD_ANNOTATION, "gold.storageclass.storage.k8s.io/requests.storage");
        assert_eq!(long, "quota.capsule.clastix.io/hard-cae0c3be07baba377a1138777cd49338");
    }

    proptest! {
        #[test]
        fn one_namespace_cannot_exceed_the_quota(
            limit in 0_i64..1_000_000,
            uses in btree_map("[a-c]{1,2}", 0_i64..300_000, 1..6),
        ) {
            let hard = resources([("cpu", format!("{limit}m").as_str())]);
            let used: BTreeMap<_, _> = uses
                .iter()
                .map(|(namespace, usage)| (namespace.clone(), resources([("cpu", format!("{usage}m").as_str())])))
                .collect();
            let division = divide(&hard, &used).unwrap();
            let value = |resources: &Resources| Quantity::try_from(&resources["cpu"]).unwrap();
            let total = used.values().fold(Quantity::ZERO, |sum, used| sum.saturating_add(value(used)));
            for (namespace, limit) in &division.limits {
                let others = total.saturating_sub(value(&used[namespace]));
                prop_assert!(value(limit) >= value(&used[namespace]), "a limit is never below the usage");
                let most = value(limit).saturating_add(others);
                prop_assert!(most <= value(&hard).max(total), "one used-up limit stays within the quota");
            }
            prop_assert_eq!(&divide(&hard, &used).unwrap(), &division);
        }
    }
}

//! One quota for all namespaces of a Tenant, made of a ResourceQuota in each.
//!
//! Each namespace is granted what it uses and whatever of the whole is left. So any one namespace may take
//! all that is left, and then the others' grants shrink. Those that take it at the same moment could exceed the
//! whole together, each by no more than was left, for the API server checks each `ResourceQuota` alone: admission holds
//! them to the whole. Where it did not, each is granted what it uses from then on, so that nobody gets more until less
//! than the whole is used again.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use operator_core::quantity::{ParseQuantityError, Quantity};

use crate::api::names::{QUOTA_HARD_ANNOTATION, QUOTA_USED_ANNOTATION};

/// Amounts of resources, by the resource's name.
pub type Resources = BTreeMap<String, ApiQuantity>;

/// An annotation's key has at most so many characters here, a rule of the contract.
const MAX_ANNOTATION: usize = 63;

/// How one quota of a Tenant is spread over its namespaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Division {
    /// The hard limits of each namespace.
    pub grants: BTreeMap<String, Resources>,
    /// What each ResourceQuota says of the whole: how much there is, and how much of it is used.
    pub annotations: BTreeMap<String, String>,
}

/// Why a quota cannot be spread.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// An amount in the Tenant's spec cannot be read.
    #[error("cannot read the limit of {resource} in the Tenant")]
    Limit {
        /// The resource.
        resource: String,
        /// Why not.
        source: ParseQuantityError,
    },
    /// An amount in the status of a ResourceQuota cannot be read.
    #[error("cannot read how much of {resource} namespace {namespace} uses")]
    Use {
        /// The resource.
        resource: String,
        /// The namespace.
        namespace: String,
        /// Why not.
        source: ParseQuantityError,
    },
}

/// Spreads `hard` over the namespaces in `used`, which has what each of them uses (nothing, where its
/// ResourceQuota is new).
///
/// While less than the whole of a resource is used, a namespace is granted its own use and all that is left;
/// from there on, its own use alone. Resources that `hard` does not name are not granted. The result depends
/// on nothing but the arguments, so granting it changes nothing in the next round.
pub fn divide(hard: &Resources, used: &BTreeMap<String, Resources>) -> Result<Division, QuotaError> {
    let mut division = Division::default();
    for namespace in used.keys() {
        division.grants.insert(namespace.clone(), Resources::new());
    }
    for (resource, limit) in hard {
        let limit = Quantity::try_from(limit)
            .map_err(|source| QuotaError::Limit { resource: resource.clone(), source })?;
        let owned = used
            .iter()
            .map(|(namespace, used)| Ok((namespace, amount(namespace, resource, used)?)))
            .collect::<Result<Vec<_>, QuotaError>>()?;
        let total = owned.iter().fold(Quantity::ZERO, |sum, (_, own)| sum.saturating_add(*own));
        for (namespace, own) in owned {
            let grant = if total < limit { limit.saturating_sub(total).saturating_add(own) } else { own };
            division.grants.entry(namespace.clone()).or_default().insert(resource.clone(), grant.into());
        }
        division.annotations.insert(annotation(QUOTA_HARD_ANNOTATION, resource), limit.to_string());
        division.annotations.insert(annotation(QUOTA_USED_ANNOTATION, resource), total.to_string());
    }
    Ok(division)
}

fn amount(namespace: &str, resource: &str, used: &Resources) -> Result<Quantity, QuotaError> {
    used.get(resource).map_or(Ok(Quantity::ZERO), |amount| {
        Quantity::try_from(amount).map_err(|source| QuotaError::Use {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            source,
        })
    })
}

/// The key of the annotation for a resource. A name that is too long is replaced by its MD5 sum, a rule of
/// the contract (Capsule, `createAnnotation`).
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

    fn resources<'a>(amounts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Resources {
        amounts.into_iter().map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned()))).collect()
    }

    fn used<'a>(namespaces: impl IntoIterator<Item = (&'a str, Resources)>) -> BTreeMap<String, Resources> {
        namespaces.into_iter().map(|(name, used)| (name.to_owned(), used)).collect()
    }

    #[test]
    fn while_nothing_is_used_each_namespace_is_granted_the_whole() {
        let hard = resources([("pods", "10"), ("limits.memory", "16Gi")]);
        let division = divide(&hard, &used([("dev", Resources::new()), ("prod", Resources::new())])).unwrap();
        assert_eq!(division.grants, used([("dev", hard.clone()), ("prod", hard)]));
    }

    #[test]
    fn a_namespace_is_granted_its_use_and_what_is_left() {
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
        assert_eq!(division.grants, expected);
        assert_eq!(division.annotations["quota.capsule.clastix.io/used-limits.cpu"], "1500m");
        assert_eq!(division.annotations["quota.capsule.clastix.io/hard-limits.cpu"], "8");
        assert_eq!(division.annotations["quota.capsule.clastix.io/used-pods"], "7");
    }

    #[test]
    fn when_the_whole_is_used_each_namespace_keeps_what_it_has() {
        let hard = resources([("pods", "5")]);
        let uses = used([
            ("dev", resources([("pods", "3")])),
            ("new", Resources::new()),
            ("prod", resources([("pods", "4")])),
        ]);
        let grants = divide(&hard, &uses).unwrap().grants;
        assert_eq!(grants["dev"], resources([("pods", "3")]));
        assert_eq!(grants["prod"], resources([("pods", "4")]));
        assert_eq!(grants["new"], resources([("pods", "0")]), "a namespace that came late may use nothing");
    }

    #[test]
    fn a_resource_without_a_limit_is_not_granted() {
        let uses = used([("dev", resources([("pods", "3"), ("secrets", "9")]))]);
        let division = divide(&resources([("pods", "5")]), &uses).unwrap();
        assert_eq!(division.grants["dev"], resources([("pods", "5")]));
        assert_eq!(division.annotations.len(), 2);
    }

    #[test]
    fn an_amount_that_cannot_be_read_is_named() {
        let error = divide(&resources([("pods", "many")]), &used([("dev", Resources::new())])).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the limit of pods in the Tenant");
        let uses = used([("dev", resources([("pods", "few")]))]);
        let error = divide(&resources([("pods", "1")]), &uses).unwrap_err();
        assert_eq!(error.to_string(), "cannot read how much of pods namespace dev uses");
    }

    #[test]
    fn a_long_annotation_has_the_sum_of_the_name() {
        let short = annotation(QUOTA_USED_ANNOTATION, "requests.nvidia.com/gpu");
        assert_eq!(short, "quota.capsule.clastix.io/used-requests.nvidia.com_gpu");
        let long = annotation(QUOTA_HARD_ANNOTATION, "gold.storageclass.storage.k8s.io/requests.storage");
        assert_eq!(long, "quota.capsule.clastix.io/hard-cae0c3be07baba377a1138777cd49338");
    }

    proptest! {
        #[test]
        fn no_namespace_can_lift_the_whole_above_the_limit(
            limit in 0_i64..1_000_000,
            uses in btree_map("[a-c]{1,2}", 0_i64..300_000, 1..6),
        ) {
            let hard = resources([("cpu", format!("{limit}m").as_str())]);
            let used: BTreeMap<_, _> = uses
                .iter()
                .map(|(namespace, amount)| (namespace.clone(), resources([("cpu", format!("{amount}m").as_str())])))
                .collect();
            let division = divide(&hard, &used).unwrap();
            let value = |resources: &Resources| Quantity::try_from(&resources["cpu"]).unwrap();
            let total = used.values().fold(Quantity::ZERO, |sum, used| sum.saturating_add(value(used)));
            for (namespace, grant) in &division.grants {
                let others = total.saturating_sub(value(&used[namespace]));
                prop_assert!(value(grant) >= value(&used[namespace]), "a grant is never below what is used");
                let most = value(grant).saturating_add(others);
                prop_assert!(most <= value(&hard).max(total), "the others' use and one full grant stay within the limit");
            }
            prop_assert_eq!(&divide(&hard, &used).unwrap(), &division);
        }
    }
}

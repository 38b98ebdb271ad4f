//! The quotas that the namespaces of a Tenant share: those in `spec.resourceQuotas` with the scope
//! `Tenant`, and the number of objects in annotations. Pure.
//!
//! An annotation `quota.resources.capsule.clastix.io/<plural>.<group>_<version>` is a quota of
//! `count/<plural>.<group>`. Kubernetes counts the objects, of custom resources too.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use capsule::api::{
    names::{OBJECT_COUNT_ANNOTATION, OBJECT_QUOTA_ANNOTATION},
    v1beta2::{QuotaScope, Tenant},
};
use k8s_openapi::{
    api::core::v1::{ResourceQuota, ResourceQuotaSpec},
    apimachinery::pkg::api::resource::Quantity,
    jiff::Timestamp,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::quota::Resources;

/// Interval at which a limit changes while Kubernetes does not count its objects.
pub(crate) const COUNT_INTERVAL: Duration = Duration::from_secs(15);
/// Age of a ResourceQuota from which on its limits no longer change for this. Kubernetes counts again
/// every five minutes by itself.
const MAX_COUNT_AGE: Duration = Duration::from_mins(5);

/// The existing ResourceQuotas of one quota, by namespace.
pub(crate) type FoundQuotas = BTreeMap<String, Option<Arc<ResourceQuota>>>;

/// Key of the quota from the annotations. Other quotas have their index in the spec.
const OBJECT_QUOTA: &str = "object-counts";

/// Prefix of resources that are numbers of objects.
const COUNT: &str = "count/";

/// Why an annotation defines no quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata.annotations[{key}]: {cause}")]
pub struct ObjectQuotaError {
    key: String,
    cause: &'static str,
}

/// Returns the quotas by their keys, which are the values of a label and the end of the names of
/// their ResourceQuotas.
pub(crate) fn shared_quotas(tenant: &Tenant) -> Vec<(String, Cow<'_, ResourceQuotaSpec>)> {
    let items = items(tenant).iter().enumerate();
    let items = items.map(|(index, item)| (index.to_string(), Cow::Borrowed(item)));
    let hard = object_limits(tenant);
    let objects = (!hard.is_empty()).then(|| {
        let item = ResourceQuotaSpec { hard: Some(hard), ..ResourceQuotaSpec::default() };
        (OBJECT_QUOTA.to_owned(), Cow::Owned(item))
    });
    items.chain(objects).collect()
}

/// Returns the hard limits of the quota with this key.
pub(crate) fn hard_limits<'t>(tenant: &'t Tenant, key: &str) -> Option<Cow<'t, Resources>> {
    if key == OBJECT_QUOTA {
        return Some(Cow::Owned(object_limits(tenant)));
    }
    items(tenant).get(key.parse::<usize>().ok()?)?.hard.as_ref().map(Cow::Borrowed)
}

fn items(tenant: &Tenant) -> &[ResourceQuotaSpec] {
    let quotas = tenant.spec.resource_quotas.as_ref();
    quotas.filter(|quotas| quotas.scope == QuotaScope::Tenant).map_or(&[], |quotas| &quotas.items)
}

/// Returns the errors in the annotations.
pub(crate) fn errors(tenant: &Tenant) -> Vec<ObjectQuotaError> {
    object_quotas(tenant).filter_map(Result::err).collect()
}

/// Returns the annotations that limit and count objects.
pub(crate) fn annotations(tenant: &Tenant) -> BTreeMap<String, String> {
    let of_objects =
        |key: &str| key.starts_with(OBJECT_QUOTA_ANNOTATION) || key.starts_with(OBJECT_COUNT_ANNOTATION);
    let annotations = tenant.annotations().iter().filter(|(key, _)| of_objects(key));
    annotations.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the merge patch that sets the annotations with the numbers of objects, or `None` if they
/// are current. `total` returns how many of a counted resource exist.
pub(crate) fn count_patch(tenant: &Tenant, total: &Resources) -> Option<Value> {
    let counts: BTreeMap<String, String> = object_quotas(tenant)
        .flatten()
        .map(|ObjectQuota { name, resource, .. }| {
            let count = total.get(&resource).map_or_else(|| "0".to_owned(), |count| count.0.clone());
            (format!("{OBJECT_COUNT_ANNOTATION}{name}"), count)
        })
        .collect();
    let current = tenant.annotations();
    let obsolete =
        current.keys().filter(|key| key.starts_with(OBJECT_COUNT_ANNOTATION) && !counts.contains_key(*key));
    let changed = counts.iter().filter(|(key, count)| current.get(*key) != Some(count));
    let patch: BTreeMap<&String, Option<&String>> =
        changed.map(|(key, count)| (key, Some(count))).chain(obsolete.map(|key| (key, None))).collect();
    let uid = &tenant.metadata.uid;
    (!patch.is_empty()).then(|| json!({ "metadata": { "uid": uid, "annotations": patch } }))
}

/// Makes Kubernetes count objects of a kind that it did not know when the ResourceQuota was created.
/// Returns whether it has to be repeated after [`COUNT_INTERVAL`].
///
/// Until it counts them, the API server denies new objects. It counts when the limits change, so a
/// limit alternates between zero and its value until there is a usage.
pub(crate) fn await_counts(
    limits: &mut BTreeMap<String, Resources>,
    found: &FoundQuotas,
    now: Timestamp,
) -> bool {
    let mut is_waiting = false;
    for (namespace, limits) in limits {
        let Some(quota) = found.get(namespace).and_then(Option::as_ref) else { continue };
        let Some(age) = age(quota, now).filter(|age| *age < MAX_COUNT_AGE) else { continue };
        let used = quota.status.as_ref().and_then(|status| status.used.as_ref());
        let is_uncounted = |resource: &String| {
            resource.starts_with(COUNT) && used.is_none_or(|used| !used.contains_key(resource))
        };
        for (_, limit) in limits.iter_mut().filter(|(resource, _)| is_uncounted(resource)) {
            is_waiting = true;
            if age.as_secs() / COUNT_INTERVAL.as_secs() % 2 == 1 {
                *limit = Quantity("0".to_owned());
            }
        }
    }
    is_waiting
}

fn age(quota: &ResourceQuota, now: Timestamp) -> Option<Duration> {
    now.duration_since(quota.metadata.creation_timestamp.as_ref()?.0).try_into().ok()
}

/// A limit of the number of objects of a kind.
struct ObjectQuota<'t> {
    /// `<plural>.<group>_<version>`.
    name: &'t str,
    /// Name in a ResourceQuota.
    resource: String,
    limit: u32,
}

fn object_limits(tenant: &Tenant) -> Resources {
    let quotas = object_quotas(tenant).flatten();
    quotas.map(|quota| (quota.resource, Quantity(quota.limit.to_string()))).collect()
}

/// Returns the quotas in the annotations. Two versions of a kind are the same objects, so the one
/// that comes last takes precedence.
fn object_quotas(tenant: &Tenant) -> impl Iterator<Item = Result<ObjectQuota<'_>, ObjectQuotaError>> {
    tenant.annotations().iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(OBJECT_QUOTA_ANNOTATION)?;
        Some(object_quota(name, value).map_err(|cause| ObjectQuotaError { key: key.clone(), cause }))
    })
}

fn object_quota<'t>(name: &'t str, value: &str) -> Result<ObjectQuota<'t>, &'static str> {
    let resource = name.rsplit_once('_').map(|(resource, _version)| resource.trim_end_matches('.'));
    let resource = resource.filter(|resource| !resource.is_empty() && !resource.starts_with('.'));
    let resource = resource.ok_or("the key must end in <plural>.<group>_<version>")?;
    let limit = value.parse().map_err(|_| "the value must be a number from 0 to 4294967295")?;
    Ok(ObjectQuota { name, resource: format!("{COUNT}{resource}"), limit })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::SignedDuration;

    use super::*;

    fn tenant(spec: Value, annotations: &[(&str, &str)]) -> Tenant {
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        let metadata = json!({ "name": "oil", "uid": "1", "annotations": annotations });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    const FOOS: (&str, &str) = ("quota.resources.capsule.clastix.io/foos.example.com_v1", "3");

    fn counted(count: &str) -> Resources {
        [("count/foos.example.com".to_owned(), Quantity(count.to_owned()))].into()
    }

    #[test]
    fn quotas_are_those_of_the_spec_and_one_for_all_annotations() {
        let items = json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "2" } }] } });
        let both =
            tenant(items, &[FOOS, ("quota.resources.capsule.clastix.io/pods._v1", "5"), ("other", "x")]);
        let quotas = shared_quotas(&both);
        assert_eq!(quotas.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["0", "object-counts"]);
        let mut hard = counted("3");
        hard.insert("count/pods".to_owned(), Quantity("5".to_owned()));
        assert_eq!(quotas[1].1.hard.as_ref(), Some(&hard));
        for (key, item) in &quotas {
            assert_eq!(hard_limits(&both, key).as_deref(), item.hard.as_ref(), "{key}");
        }
        assert_eq!(hard_limits(&both, "1"), None);
        assert_eq!(hard_limits(&both, "x"), None);
        let separate =
            json!({ "resourceQuotas": { "scope": "Namespace", "items": [{ "hard": { "pods": "2" } }] } });
        let separate = tenant(separate, &[]);
        assert!(shared_quotas(&separate).is_empty() && hard_limits(&separate, "0").is_none());
    }

    #[test]
    fn error_contains_the_annotation_and_the_form() {
        for (name, value, cause) in [
            ("foos.example.com", "3", "the key must end in <plural>.<group>_<version>"),
            ("_v1", "3", "the key must end in <plural>.<group>_<version>"),
            ("foos.example.com_v1", "-1", "the value must be a number from 0 to 4294967295"),
            ("foos.example.com_v1", "many", "the value must be a number from 0 to 4294967295"),
        ] {
            let key = format!("quota.resources.capsule.clastix.io/{name}");
            let tenant = tenant(json!({}), &[(&key, value)]);
            let [error] = errors(&tenant).try_into().unwrap();
            assert_eq!(error.to_string(), format!("metadata.annotations[{key}]: {cause}"));
            assert!(shared_quotas(&tenant).is_empty());
        }
    }

    #[test]
    fn limit_alternates_until_the_objects_are_counted() {
        let found = |used: Value| -> FoundQuotas {
            let metadata = json!({ "creationTimestamp": "2026-01-01T00:00:00Z" });
            let quota = json!({ "metadata": metadata, "status": { "used": used } });
            [("dev".to_owned(), Some(Arc::new(serde_json::from_value(quota).unwrap())))].into()
        };
        let limit = |found: &FoundQuotas, second: i64| {
            let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let mut limits = [("dev".to_owned(), counted("3"))].into();
            let now = created.checked_add(SignedDuration::from_secs(second)).unwrap();
            let is_waiting = await_counts(&mut limits, found, now);
            (limits["dev"]["count/foos.example.com"].0.clone(), is_waiting)
        };
        let uncounted = found(json!({}));
        for (second, expected) in
            [(0, ("3", true)), (14, ("3", true)), (15, ("0", true)), (30, ("3", true)), (300, ("3", false))]
        {
            let (limit, is_waiting) = limit(&uncounted, second);
            assert_eq!((limit.as_str(), is_waiting), expected, "{second}");
        }
        let known = found(json!({ "count/foos.example.com": "0" }));
        assert_eq!(limit(&known, 15), ("3".to_owned(), false));
        assert_eq!(limit(&[("dev".to_owned(), None)].into(), 15), ("3".to_owned(), false));
    }

    #[test]
    fn counts_are_patched_only_if_they_differ() {
        const COUNT: &str = "used.resources.capsule.clastix.io/foos.example.com_v1";
        let patch = |annotations: &[(&str, &str)], count| {
            let patch = count_patch(&tenant(json!({}), annotations), &counted(count))?;
            assert_eq!(patch["metadata"]["uid"], "1");
            Some(patch["metadata"]["annotations"].clone())
        };
        assert_eq!(patch(&[FOOS], "2"), Some(json!({ COUNT: "2" })));
        assert_eq!(patch(&[FOOS, (COUNT, "2")], "2"), None);
        assert_eq!(patch(&[FOOS, (COUNT, "3")], "2"), Some(json!({ COUNT: "2" })));
        assert_eq!(patch(&[(COUNT, "3"), ("other", "x")], "2"), Some(json!({ COUNT: null })));
        assert_eq!(patch(&[], "2"), None);
    }
}

//! Quotas that the namespaces of a Tenant share.
//!
//! Before the API server admits what uses up a quota, it notes the use in the status of the namespace's ResourceQuota,
//! whatever kind of object it is. So this one write is guarded: it goes through as long as all namespaces together stay
//! within the whole. Namespaces that race for what is left are told one after the other.
//!
//! Other replicas may admit in the same moment what this one has not seen yet, and while none answers the API server
//! goes on by each ResourceQuota alone; what gets past the whole then is bounded and healed as [`crate::quota`] says.

mod pending_admissions;

use std::time::Instant;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{Resource, ResourceExt};
use operator_core::{
    ObjectKey,
    admission::{
        BoxError, Caches, Denial, FailurePolicy, Request, UPDATE, Validator, Verdict, Webhook, target,
    },
    informer::{Index, Selection},
    owner::controller_of,
};
use parking_lot::Mutex;

use self::pending_admissions::{Count, Excess, Ledger};
use super::{in_tenants, labelled, tenancy::Tenants};
use crate::{
    api::{
        names::{OBJECT_TENANT_LABEL, QUOTA_HARD_ANNOTATION, RESOURCE_QUOTA_LABEL},
        v1beta2::{QuotaScope, Tenant},
    },
    quota::Resources,
};

/// Everybody else only takes note of what there is already.
const COUNTS: &str = "request.userInfo.username == 'system:apiserver'";

/// A `ResourceQuota` that has a part of a whole says how much the whole is.
fn has_a_part() -> String {
    let hard = QUOTA_HARD_ANNOTATION;
    format!(
        "has(oldObject.metadata.annotations) && oldObject.metadata.annotations.exists(key, key.startsWith('{hard}'))"
    )
}

/// The guard of shared quotas.
pub(super) fn guard() -> Webhook {
    Webhook::validating::<SharedQuotas>("shared-quotas")
        .on(target::<ResourceQuota>(UPDATE).subresource("status"))
        .in_namespaces(in_tenants())
        .with_labels(labelled(RESOURCE_QUOTA_LABEL))
        .match_condition("counts-what-is-asked-for", COUNTS)
        .match_condition("has-a-part-of-a-whole", &has_a_part())
        // Nobody's pods depend on an answer.
        .failure_policy(FailurePolicy::Ignore)
        .timeout_seconds(2)
        .build()
}

/// Lets the ResourceQuotas of a Tenant count up to the whole and no further.
struct SharedQuotas {
    tenants: Tenants,
    together: Index<ResourceQuota, Share>,
    ledger: Mutex<Ledger>,
}

/// The quota of a Tenant that a ResourceQuota is a part of: the Tenant's name, and the index in its list.
type Share = (String, usize);

impl Validator for SharedQuotas {
    type Object = ResourceQuota;

    fn build(caches: &mut Caches<'_>) -> Self {
        let quotas = caches.informer::<ResourceQuota>(Selection::Managed);
        let together = quotas.store().index(|quota: &ResourceQuota| share(quota).into_iter().collect());
        Self { tenants: Tenants::build(caches), together, ledger: Mutex::default() }
    }

    async fn validate(&self, request: &Request<ResourceQuota>) -> Result<Verdict, BoxError> {
        let (Some(old), Some(new)) = (&request.old, &request.new) else { return Ok(Verdict::allow()) };
        let Some(share) = share(old) else { return Ok(Verdict::allow()) };
        // One that cannot be read is an error, not a refusal: the API server goes by each ResourceQuota alone.
        let Some(tenant) = self.tenants.get(&share.0).await? else { return Ok(Verdict::allow()) };
        Ok(self
            .judge(&tenant, &share, old, new)
            .map_or_else(Verdict::allow, |excess| Verdict::deny(Denial::forbidden(told(&share.0, &excess)))))
    }
}

impl SharedQuotas {
    /// What would be too much, if anything.
    fn judge(
        &self,
        tenant: &Tenant,
        share: &Share,
        old: &ResourceQuota,
        new: &ResourceQuota,
    ) -> Option<Excess> {
        // Whoever made up the labels is not the Tenant.
        let is_its_own = |quota: &ResourceQuota| {
            controller_of(quota.meta()).is_some_and(|owner| Some(&owner.uid) == tenant.metadata.uid.as_ref())
        };
        let wanted =
            tenant.spec.resource_quotas.as_ref().filter(|quotas| quotas.scope == QuotaScope::Tenant)?;
        let hard = wanted.items.get(share.1)?.hard.as_ref()?;
        if !is_its_own(old) {
            return None;
        }
        let key = ObjectKey::of(old);
        let together = self.together.get(share);
        let others =
            together.iter().filter(|quota| ObjectKey::of(quota.as_ref()) != key && is_its_own(quota));
        let none = Resources::new();
        let others: Vec<_> = others.map(|quota| count(quota, &none)).collect();
        let asked = used(new).unwrap_or(&none);
        self.ledger.lock().admit(hard, &count(old, &none), asked, &others, Instant::now()).err()
    }
}

fn share(quota: &ResourceQuota) -> Option<Share> {
    let labels = quota.labels();
    Some((labels.get(OBJECT_TENANT_LABEL)?.clone(), labels.get(RESOURCE_QUOTA_LABEL)?.parse().ok()?))
}

fn count<'q>(quota: &'q ResourceQuota, none: &'q Resources) -> Count<'q> {
    Count {
        quota: ObjectKey::of(quota),
        version: quota.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default(),
        used: used(quota).unwrap_or(none),
    }
}

fn used(quota: &ResourceQuota) -> Option<&Resources> {
    quota.status.as_ref()?.used.as_ref()
}

fn told(tenant: &str, excess: &Excess) -> String {
    let Excess { resource, limit, before, after } = excess;
    format!(
        "exceeded quota of Tenant {tenant}: its namespaces use {before} of {limit} {resource} together, and would use \
         {after}"
    )
}

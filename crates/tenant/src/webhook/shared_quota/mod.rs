//! Enforces the quotas that the namespaces of a Tenant share.
//!
//! Before the API server admits an object that counts against a quota, it writes the new usage to
//! the status of the namespace's ResourceQuota. The webhook validates this write: it is admitted as
//! long as the total usage of all namespaces stays within the shared quota. One replica validates
//! concurrent writes one after the other.
//!
//! Two replicas can admit concurrent writes that exceed the quota together. While no replica
//! responds, the API server enforces each ResourceQuota alone. [`crate::quota`] describes how such
//! an excess is limited and corrected.

mod pending_admissions;

use std::time::Instant;

use capsule::api::{
    names::{OBJECT_TENANT_LABEL, QUOTA_HARD_ANNOTATION, RESOURCE_QUOTA_LABEL},
    v1beta2::Tenant,
};
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

use self::pending_admissions::{PendingAdmissions, QuotaExceeded, QuotaUsage};
use super::{has_label, in_tenants, tenant_resolver::TenantReader};
use crate::{quota::Resources, shared_quotas::hard_limits};

/// User of the quota admission of the API server, which writes a usage before it admits an object.
const API_SERVER: &str = "system:apiserver";
/// Also the users of the quota controller, which counts the existing objects. Its writes are never
/// denied.
const BY_KUBERNETES: &str = "request.userInfo.username in ['system:apiserver', 'system:kube-controller-manager', \
    'system:serviceaccount:kube-system:resourcequota-controller']";

/// Returns the match condition for ResourceQuotas with the annotation of a shared quota.
fn has_shared_quota() -> String {
    let hard = QUOTA_HARD_ANNOTATION;
    format!(
        "has(oldObject.metadata.annotations) && oldObject.metadata.annotations.exists(key, key.startsWith('{hard}'))"
    )
}

/// Returns the webhook.
pub(super) fn webhook() -> Webhook {
    Webhook::validating::<SharedQuotaValidator>("shared-quotas")
        .on(target::<ResourceQuota>(UPDATE).subresource("status"))
        .in_namespaces(in_tenants())
        .with_labels(has_label(RESOURCE_QUOTA_LABEL))
        .match_condition("by-kubernetes", BY_KUBERNETES)
        .match_condition("has-shared-quota", &has_shared_quota())
        // Pods can be created while the manager is down.
        .failure_policy(FailurePolicy::Ignore)
        .timeout_seconds(2)
        .build()
}

/// Denies usage beyond the shared quota.
struct SharedQuotaValidator {
    tenants: TenantReader,
    quotas_by_share: Index<ResourceQuota, Share>,
    pending: Mutex<PendingAdmissions>,
}

/// A shared quota: the name of the Tenant, and the key of the quota.
type Share = (String, String);

impl Validator for SharedQuotaValidator {
    type Object = ResourceQuota;

    fn build(caches: &mut Caches<'_>) -> Self {
        let quotas = caches.informer::<ResourceQuota>(Selection::Managed);
        let quotas_by_share =
            quotas.store().index(|quota: &ResourceQuota| share(quota).into_iter().collect());
        Self { tenants: TenantReader::build(caches), quotas_by_share, pending: Mutex::default() }
    }

    async fn validate(&self, request: &Request<ResourceQuota>) -> Result<Verdict, BoxError> {
        let (Some(old), Some(new)) = (&request.old, &request.new) else { return Ok(Verdict::allow()) };
        if request.user_name() != API_SERVER {
            let none = Resources::new();
            let after = used(new).unwrap_or(&none);
            self.pending.lock().recount(&usage(old, &none), after, Instant::now());
            return Ok(Verdict::allow());
        }
        let Some(share) = share(old) else { return Ok(Verdict::allow()) };
        // A failed read is an error, not a denial: the API server then enforces each ResourceQuota
        // alone.
        let Some(tenant) = self.tenants.get(&share.0).await? else { return Ok(Verdict::allow()) };
        let exceeded = self.check(&tenant, &share, old, new);
        let denial = exceeded.map(|exceeded| Denial::forbidden(denial_message(&share.0, &exceeded)));
        Ok(denial.map_or_else(Verdict::allow, Verdict::deny))
    }
}

impl SharedQuotaValidator {
    /// Returns the resource that would exceed the shared quota, if any.
    fn check(
        &self,
        tenant: &Tenant,
        share: &Share,
        old: &ResourceQuota,
        new: &ResourceQuota,
    ) -> Option<QuotaExceeded> {
        // Labels can be forged. Only ResourceQuotas that the Tenant controls count.
        let is_controlled = |quota: &ResourceQuota| {
            controller_of(quota.meta()).is_some_and(|owner| Some(&owner.uid) == tenant.metadata.uid.as_ref())
        };
        let hard = hard_limits(tenant, &share.1)?;
        if !is_controlled(old) {
            return None;
        }
        let key = ObjectKey::of(old);
        let quotas = self.quotas_by_share.get(share);
        let others =
            quotas.iter().filter(|quota| ObjectKey::of(quota.as_ref()) != key && is_controlled(quota));
        let none = Resources::new();
        let others: Vec<_> = others.map(|quota| usage(quota, &none)).collect();
        let requested = used(new).unwrap_or(&none);
        self.pending.lock().admit(&hard, &usage(old, &none), requested, &others, Instant::now()).err()
    }
}

fn share(quota: &ResourceQuota) -> Option<Share> {
    let labels = quota.labels();
    Some((labels.get(OBJECT_TENANT_LABEL)?.clone(), labels.get(RESOURCE_QUOTA_LABEL)?.clone()))
}

fn usage<'q>(quota: &'q ResourceQuota, none: &'q Resources) -> QuotaUsage<'q> {
    QuotaUsage { quota: ObjectKey::of(quota), used: used(quota).unwrap_or(none) }
}

fn used(quota: &ResourceQuota) -> Option<&Resources> {
    quota.status.as_ref()?.used.as_ref()
}

fn denial_message(tenant: &str, exceeded: &QuotaExceeded) -> String {
    let QuotaExceeded { resource, limit, used: before, requested: after } = exceeded;
    format!(
        "exceeded quota of Tenant {tenant}: its namespaces use {before} of {limit} {resource} together, and would use \
         {after}"
    )
}

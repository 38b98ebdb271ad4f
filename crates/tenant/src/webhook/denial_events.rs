//! Events about denied requests.

use std::time::Duration;

use capsule::api::v1beta2::Tenant;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use operator_core::{
    admission::{Caches, Denial, Request, Verdict},
    events::Events,
    fence,
    kind::Kind,
    rate_limit::Rate,
};
use parking_lot::Mutex;

use super::rate_limits::KeyedBuckets;
use crate::policies::Violation;

/// Rate limit for Events about denials, for each Tenant.
const EVENTS_PER_TENANT: Rate = Rate { burst: 10, interval: Duration::from_secs(6) };
/// Rate limit for Events about denials, for all Tenants together.
const EVENTS_TOTAL: Rate = Rate { burst: 100, interval: Duration::from_secs(1) };
/// Action of the Events, as in Capsule.
pub(super) const VALIDATION_DENIED: &str = "ValidationDenied";

/// Publishes Events about denied requests.
///
/// Every client that reaches the webhook port can cause denials, so the Events are rate limited.
/// The webhook must declare its side effects, and dry runs are not recorded.
pub(super) struct DenialEvents {
    events: Events,
    limits: Mutex<KeyedBuckets<String>>,
}

impl DenialEvents {
    pub(super) fn build(caches: &Caches<'_>) -> Self {
        let limits = Mutex::new(KeyedBuckets::new(EVENTS_PER_TENANT, EVENTS_TOTAL));
        Self { events: caches.events(), limits }
    }

    /// Records a denial as an Event of the Tenant.
    pub(super) fn record_on_tenant(&self, tenant: &Tenant, reason: &str, action: &str, note: &str) {
        if self.limits.lock().take(tenant.name_any(), fence::now()) {
            self.events.warning(tenant.object_ref(&()), reason, action, note);
        }
    }

    /// Records a denial as an Event of the object, related to the Tenant.
    pub(super) fn record(&self, tenant: &Tenant, about: ObjectReference, reason: &str, note: &str) {
        if self.limits.lock().take(tenant.name_any(), fence::now()) {
            self.events.warning_with_related(about, tenant.object_ref(&()), reason, VALIDATION_DENIED, note);
        }
    }

    /// Returns the verdict for the result of a check, and records a denial.
    pub(super) fn verdict<K: Kind>(
        &self,
        request: &Request<K>,
        tenant: &Tenant,
        checked: Result<(), Violation>,
    ) -> Verdict {
        let Err(Violation { reason, message }) = checked else { return Verdict::allow() };
        if !request.dry_run {
            let note = format!("denied request of {}: {message}", request.user_name());
            self.record(tenant, reference(request), reason, &note);
        }
        Verdict::deny(Denial::forbidden(message))
    }
}

/// Returns a reference to the object of a request. A new object has no UID. If the API server
/// generates its name, the reference has the prefix of the name.
fn reference<K: Kind>(request: &Request<K>) -> ObjectReference {
    let prefix = request.new.as_ref().and_then(|object| object.meta().generate_name.as_deref());
    let prefix = prefix.map(|prefix| prefix.trim_end_matches('-').to_owned());
    let uid = request.old.as_ref().and_then(|object| object.meta().uid.clone());
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: request.namespace.clone(),
        name: Some(request.name.clone()).filter(|name| !name.is_empty()).or(prefix),
        uid,
        ..ObjectReference::default()
    }
}

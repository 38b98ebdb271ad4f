//! IngressClasses and host names of Ingresses.

mod collisions;
mod route_reservations;

use capsule::api::v1beta2::HostnameCollisionScope;
use k8s_openapi::api::networking::v1::IngressClass;
use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    admission::{BoxError, CREATE, Caches, Request, UPDATE, Validator, Verdict, Webhook, target},
};

use self::collisions::{Collisions, Review};
use super::{
    class_webhooks::ClassMutator,
    classes::{ClassCache, HasClass},
    denial_events::DenialEvents,
    in_tenants,
    policy_reader::PolicyReader,
};
use crate::policies::{
    Violation,
    ingresses::{IngressPolicy, ReviewedIngress},
};

/// Skips updates that keep the class.
const CLASS_CHANGES: &str = "request.operation == 'CREATE' || \
    object.?spec.?ingressClassName.orValue('') != oldObject.?spec.?ingressClassName.orValue('') || \
    object.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('') != \
    oldObject.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('')";
/// Skips updates that keep spec and class.
const INGRESS_CHANGES: &str = "request.operation == 'CREATE' || object.?spec != oldObject.?spec || \
    object.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('') != \
    oldObject.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('')";

/// Returns the webhooks. They exclude no users, because controllers create Ingresses on behalf of
/// the users of a Tenant.
pub(super) fn webhooks() -> [Webhook; 2] {
    let ingresses = || target::<ReviewedIngress>(CREATE | UPDATE);
    [
        Webhook::mutating::<ClassMutator<ReviewedIngress>>("ingress-classes")
            .on(ingresses())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", CLASS_CHANGES)
            .build(),
        Webhook::validating::<IngressValidator>("ingresses")
            .on(ingresses())
            .in_namespaces(in_tenants())
            .match_condition("ingress-changes", INGRESS_CHANGES)
            .side_effects()
            .build(),
    ]
}

struct IngressValidator {
    policies: PolicyReader<IngressPolicy>,
    classes: ClassCache<IngressClass>,
    collisions: Collisions,
    denials: DenialEvents,
}

impl Validator for IngressValidator {
    type Object = ReviewedIngress;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            policies: PolicyReader::build(caches),
            classes: ClassCache::build(caches, ReviewedIngress::SELECTION),
            collisions: Collisions::build(caches),
            denials: DenialEvents::build(caches),
        }
    }

    async fn validate(&self, request: &Request<ReviewedIngress>) -> Result<Verdict, BoxError> {
        let Some(ingress) = &request.new else { return Ok(Verdict::allow()) };
        let (tenant, policy) = match self.policies.of(request.namespace.as_deref()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Verdict::allow()),
            Err(error) => return error.into_denial().map(Verdict::deny),
        };
        let old = request.old.as_ref();
        let mut checked = self.classes.check(&tenant.name_any(), &policy.classes, old, ingress).await;
        checked = checked
            .and_then(|()| policy.check_hosts(old, ingress))
            .and_then(|()| policy.check_wildcards(old, ingress));
        if checked.is_ok() {
            checked = self.check_collisions(request, &tenant.name_any(), &policy, ingress).await?;
        }
        Ok(self.denials.verdict(request, &tenant, checked))
    }
}

impl IngressValidator {
    /// Checks that no other Ingress in the scope has one of the added routes, and reserves them
    /// until the cache contains the Ingress. Last, because a denied Ingress must reserve nothing.
    async fn check_collisions(
        &self,
        request: &Request<ReviewedIngress>,
        tenant: &str,
        policy: &IngressPolicy,
        ingress: &ReviewedIngress,
    ) -> Result<Result<(), Violation>, BoxError> {
        if policy.collision_scope == HostnameCollisionScope::Disabled {
            return Ok(Ok(()));
        }
        let before = request.old.as_ref().map(ReviewedIngress::routes).unwrap_or_default();
        let added = ingress.routes().difference(&before).cloned().collect();
        let key =
            ObjectKey::namespaced(request.namespace.as_deref().unwrap_or_default(), &ingress.name_any());
        let review = Review { key, tenant, scope: policy.collision_scope, added };
        self.collisions.check(&review, request.dry_run).await
    }
}

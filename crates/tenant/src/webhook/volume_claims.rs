//! StorageClasses and PersistentVolumes of PersistentVolumeClaims.

use capsule::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    class_filter::ClassFilters,
};
use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    admission::{
        BoxError, CREATE, Caches, Mutation, Mutator, Operation, Request, UPDATE, Validator, Verdict, Webhook,
        target,
    },
    informer::{Informer, Selection},
};

use super::{
    classes::{ClassCache, HasClass},
    denial_events::DenialEvents,
    in_tenants,
    policy_reader::PolicyReader,
    tenant_resolver::wait_for_cache,
};
use crate::policies::{
    Violation,
    volumes::{
        Volume, check_claim, check_volume, foreign_source, foreign_source_denied, volume_name,
        with_tenant_selector,
    },
};

/// Includes creates, changes of the class, and changes of the volume except those of the volume
/// binder of Kubernetes. A claim without a class can get one later.
const CLAIM_CHANGES: &str = "request.operation == 'CREATE' || \
    object.?spec.?storageClassName.orValue('') != oldObject.?spec.?storageClassName.orValue('') || \
    (object.?spec.?volumeName.orValue('') != oldObject.?spec.?volumeName.orValue('') && \
    request.userInfo.username != 'system:kube-controller-manager' && \
    !('system:serviceaccounts:kube-system' in request.userInfo.?groups.orValue([])))";

/// Returns the webhooks. They exclude no users from creates, because controllers of Kubernetes
/// create claims on behalf of the users of a Tenant, for example those of a StatefulSet.
pub(super) fn webhooks() -> [Webhook; 2] {
    let claims = || target::<PersistentVolumeClaim>(CREATE | UPDATE);
    [
        Webhook::mutating::<ClaimMutator>("volume-claims")
            .on(claims())
            .in_namespaces(in_tenants())
            .match_condition("claim-changes", CLAIM_CHANGES)
            .build(),
        Webhook::validating::<ClaimValidator>("persistentvolumeclaims")
            .on(claims())
            .in_namespaces(in_tenants())
            .match_condition("claim-changes", CLAIM_CHANGES)
            .side_effects()
            .build(),
    ]
}

struct ClaimMutator {
    policies: PolicyReader<ClassFilters>,
    classes: ClassCache<StorageClass>,
}

impl Mutator for ClaimMutator {
    type Object = PersistentVolumeClaim;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            policies: PolicyReader::build(caches),
            classes: ClassCache::build(caches, PersistentVolumeClaim::SELECTION),
        }
    }

    async fn mutate(
        &self,
        request: &Request<PersistentVolumeClaim>,
    ) -> Result<Mutation<PersistentVolumeClaim>, BoxError> {
        let Some(claim) = &request.new else { return Ok(Mutation::keep()) };
        let Some((tenant, filters)) = self.policies.of(request.namespace.as_deref()).await? else {
            return Ok(Mutation::keep());
        };
        let is_create = request.operation == Operation::Create;
        let defaulted = self.classes.with_default(&filters, claim, is_create);
        let selecting = with_tenant_selector(
            request.old.as_ref(),
            defaulted.as_ref().unwrap_or(claim),
            &tenant.name_any(),
        );
        Ok(selecting.or(defaulted).map_or_else(Mutation::keep, Mutation::change))
    }
}

struct ClaimValidator {
    policies: PolicyReader<ClassFilters>,
    classes: ClassCache<StorageClass>,
    namespaces: Informer<Namespace>,
    volumes: Informer<Volume>,
    denials: DenialEvents,
}

impl Validator for ClaimValidator {
    type Object = PersistentVolumeClaim;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            policies: PolicyReader::build(caches),
            classes: ClassCache::build(caches, PersistentVolumeClaim::SELECTION),
            namespaces: caches.informer(Selection::All),
            volumes: caches.informer(Selection::All),
            denials: DenialEvents::build(caches),
        }
    }

    async fn validate(&self, request: &Request<PersistentVolumeClaim>) -> Result<Verdict, BoxError> {
        let Some(claim) = &request.new else { return Ok(Verdict::allow()) };
        let (tenant, filters) = match self.policies.of(request.namespace.as_deref()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Verdict::allow()),
            Err(error) => return error.into_denial().map(Verdict::deny),
        };
        let old = request.old.as_ref();
        let mut checked = self.check_volumes(&tenant, old, claim).await;
        if checked.is_ok() {
            checked = self.classes.check(&tenant.name_any(), &filters, old, claim).await;
        }
        Ok(self.denials.verdict(request, &tenant, checked))
    }
}

impl ClaimValidator {
    /// Checks the volumes of the selector, of the name, and of the data source.
    async fn check_volumes(
        &self,
        tenant: &Tenant,
        old: Option<&PersistentVolumeClaim>,
        new: &PersistentVolumeClaim,
    ) -> Result<(), Violation> {
        let (Some(spec), tenant) = (&new.spec, tenant.name_any()) else { return Ok(()) };
        if old.is_none() {
            let foreign = foreign_source(new).filter(|namespace| !self.belongs(namespace, &tenant));
            if let Some(namespace) = foreign {
                return Err(foreign_source_denied(namespace, &tenant));
            }
            check_claim(spec, &tenant)?;
        }
        let before = old.and_then(|old| volume_name(old.spec.as_ref()?));
        let Some(name) = volume_name(spec).filter(|name| before != Some(*name)) else { return Ok(()) };
        let volume = wait_for_cache(&self.volumes, &ObjectKey::cluster(name), |_| true).await;
        let owner = volume.map(|volume| volume.labels().get(TENANT_LABEL).cloned().unwrap_or_default());
        check_volume(name, owner.as_deref(), &tenant)
    }

    fn belongs(&self, namespace: &str, tenant: &str) -> bool {
        let found = self.namespaces.store().get(&ObjectKey::cluster(namespace));
        found.is_some_and(|found| found.labels().get(TENANT_LABEL).is_some_and(|label| label == tenant))
    }
}

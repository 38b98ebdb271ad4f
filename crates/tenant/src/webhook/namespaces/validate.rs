//! Validates writes of namespaces. Pure.

use std::sync::Arc;

use capsule::{
    api::v1beta2::Tenant,
    membership::{self, MembershipError, referenced_tenants},
    subjects::Role,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;
use operator_core::{
    admission::{Denial, Operation, Request},
    kind::is_deleting,
};

use super::{
    assignment::{choose_tenant, not_owned},
    metadata, metadata_policy, name_rules,
    tenant_references::TenantReferences,
};
use crate::webhook::lookups::AdmissionContext;

/// How a request is admitted.
#[derive(Clone, Debug)]
pub(super) enum Admission {
    /// Without further checks.
    Allowed,
    /// If the namespace quota of the Tenant has room for the namespace.
    NeedsReservation {
        /// The Tenant.
        tenant: Arc<Tenant>,
        /// The name of the namespace.
        namespace: String,
    },
}

/// Returns how the request is admitted, or the denial.
pub(super) fn validate(
    request: &Request<Namespace>,
    context: &AdmissionContext,
) -> Result<Admission, Denial> {
    // A generated name is only in the object.
    let generated = request.new.as_ref().and_then(|new| new.metadata.name.as_deref()).unwrap_or_default();
    let name = if request.name.is_empty() { generated } else { request.name.as_str() };
    let review = NamespaceReview { name, context };
    match (request.operation, &request.old, &request.new) {
        (Operation::Create, _, Some(new)) => review.create(&new.metadata),
        (Operation::Update, Some(old), Some(new)) => review.update(&old.metadata, &new.metadata),
        (Operation::Delete, Some(old), _) => review.delete(&old.metadata),
        _ => Ok(Admission::Allowed),
    }
}

struct NamespaceReview<'c> {
    /// The name of the namespace.
    name: &'c str,
    context: &'c AdmissionContext,
}

impl NamespaceReview<'_> {
    fn create(&self, new: &ObjectMeta) -> Result<Admission, Denial> {
        match (self.context.role, TenantReferences::of(new).is_none()) {
            (Role::CapsuleUser, true) => Err(self.missing_tenant()),
            (_, true) => Ok(Admission::Allowed),
            (Role::Other, _) => Err(self.not_permitted(new)),
            (Role::CapsuleUser, _) => self.create_as_owner(new),
            (Role::Administrator | Role::Manager, _) => {
                let tenant = self.tenant_of(new)?;
                metadata_policy::check_required(tenant, None, new)?;
                self.join(tenant)
            }
        }
    }

    fn create_as_owner(&self, new: &ObjectMeta) -> Result<Admission, Denial> {
        let tenant = self.owned_tenant_of(new)?;
        self.check_cordon(tenant)?;
        name_rules::check(self.name, tenant, &self.context.configuration)?;
        metadata::check(tenant, None, new)?;
        metadata::check_initial_metadata(tenant, new)?;
        metadata_policy::check_forbidden(tenant, None, new)?;
        metadata_policy::check_required(tenant, None, new)?;
        self.join(tenant)
    }

    fn update(&self, old: &ObjectMeta, new: &ObjectMeta) -> Result<Admission, Denial> {
        if TenantReferences::of(old) != TenantReferences::of(new) {
            return self.change_membership(old, new);
        }
        if self.context.role == Role::CapsuleUser {
            let tenant = self.owned_tenant_of(old)?;
            self.check_cordon(tenant)?;
            metadata::check(tenant, Some(old), new)?;
            metadata_policy::check_forbidden(tenant, Some(old), new)?;
        }
        let Ok(tenant) = self.tenant_of(old) else { return Ok(Admission::Allowed) };
        if self.context.role == Role::Other {
            metadata::check_managed(tenant, old, new)?;
        }
        if self.context.role != Role::Manager {
            metadata_policy::check_required(tenant, Some(old), new)?;
        }
        Ok(Admission::Allowed)
    }

    fn change_membership(&self, old: &ObjectMeta, new: &ObjectMeta) -> Result<Admission, Denial> {
        if matches!(self.context.role, Role::CapsuleUser | Role::Other) {
            return Err(self.denial(
                "only administrators of Tenants may change its label capsule.clastix.io/tenant and its owner references to \
                 Tenants; leave them unchanged",
            ));
        }
        if TenantReferences::of(new).is_none() {
            return Ok(Admission::Allowed);
        }
        let tenant = self.tenant_of(new)?;
        let was_member = membership::check_membership(old, tenant, &self.context.manager_namespace).is_ok();
        if was_member { Ok(Admission::Allowed) } else { self.join(tenant) }
    }

    fn delete(&self, old: &ObjectMeta) -> Result<Admission, Denial> {
        if self.context.role == Role::CapsuleUser {
            self.check_cordon(self.owned_tenant_of(old)?)?;
        }
        Ok(Admission::Allowed)
    }

    fn check_cordon(&self, tenant: &Tenant) -> Result<(), Denial> {
        if !tenant.spec.cordoned {
            return Ok(());
        }
        let name = tenant.name_any();
        Err(self.denial(&format!(
            "Tenant {name} is cordoned, so its users cannot change anything; ask an administrator to uncordon it"
        )))
    }

    /// Returns the Tenant of the namespace, whether or not the user owns it.
    fn tenant_of(&self, metadata: &ObjectMeta) -> Result<&Arc<Tenant>, Denial> {
        let tenants = referenced_tenants(metadata);
        let [name] = tenants.as_slice() else {
            return Err(self.denial(&format!(
                "its label and owner references name several Tenants ({}); a namespace can belong to only one",
                tenants.join(", ")
            )));
        };
        let tenant = self.context.referenced.get(name);
        let tenant = tenant.ok_or_else(|| self.denial(&format!("Tenant {name} does not exist")))?;
        let mut named_metadata = metadata.clone();
        named_metadata.name.get_or_insert_with(|| self.name.to_owned());
        match membership::check_membership(&named_metadata, tenant, &self.context.manager_namespace) {
            Ok(()) => Ok(tenant),
            Err(error) => Err(self.mismatch(name, error)),
        }
    }

    /// Returns the Tenant of the namespace, or a denial if the user does not own it.
    fn owned_tenant_of(&self, metadata: &ObjectMeta) -> Result<&Arc<Tenant>, Denial> {
        if TenantReferences::of(metadata).is_none() {
            return Err(self.denial(
                "it belongs to no Tenant, and you may change only namespaces of Tenants that you own",
            ));
        }
        let tenant = self.tenant_of(metadata)?;
        let name = tenant.name_any();
        if self.context.owned.contains_key(&name) {
            return Ok(tenant);
        }
        Err(self.denial(&format!("it belongs to Tenant {name}, which {} does not own", self.context.user)))
    }

    fn join(&self, tenant: &Arc<Tenant>) -> Result<Admission, Denial> {
        if is_deleting(tenant.as_ref()) {
            let name = tenant.name_any();
            return Err(self.denial(&format!("Tenant {name} is being deleted and accepts no new namespaces")));
        }
        Ok(Admission::NeedsReservation { tenant: tenant.clone(), namespace: self.name.to_owned() })
    }

    /// Returns the denial for a new namespace of a tenant user without a Tenant.
    fn missing_tenant(&self) -> Denial {
        choose_tenant(self.name, &self.context.owned).err().unwrap_or_else(|| {
            self.denial("it has no Tenant, because the manager did not answer in time; try again")
        })
    }

    fn not_permitted(&self, metadata: &ObjectMeta) -> Denial {
        match TenantReferences::of(metadata).label {
            Some(label) if !self.context.referenced.contains_key(label) => not_owned(self.name, label, self.context),
            _ => self.denial(&format!(
                "it names a Tenant, and only administrators and owners who are users of CapsuleConfiguration default may \
                 create such namespaces; {} is neither",
                self.context.user
            )),
        }
    }

    fn mismatch(&self, tenant: &str, error: MembershipError) -> Denial {
        self.denial(&format!("it cannot belong to Tenant {tenant}: {error}"))
    }

    fn denial(&self, cause: &str) -> Denial {
        Denial::forbidden(format!("namespace {}: {cause}", self.name))
    }
}

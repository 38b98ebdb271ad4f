//! What may become of a namespace. Pure.

use std::sync::Arc;

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;
use operator_core::{
    admission::{Denial, Operation, Request},
    kind::is_deleting,
};

use super::{
    assign::{choose, not_owned},
    claim::Claim,
    metadata, names,
};
use crate::{
    api::v1beta2::Tenant,
    membership::{self, Mismatch, named},
    subjects::Role,
    webhook::lookups::Facts,
};

/// How something is admitted.
#[derive(Clone, Debug)]
pub(super) enum Admitted {
    /// Without more ado.
    Freely,
    /// If the Tenant has a place for the namespace.
    Joining {
        /// The Tenant.
        tenant: Arc<Tenant>,
        /// The name of the namespace.
        namespace: String,
    },
}

/// Whether the request may go on.
pub(super) fn judge(request: &Request<Namespace>, facts: &Facts) -> Result<Admitted, Denial> {
    // One that the API server made up may stand in the object alone.
    let made_up = request.new.as_ref().and_then(|new| new.metadata.name.as_deref()).unwrap_or_default();
    let name = if request.name.is_empty() { made_up } else { request.name.as_str() };
    let case = Case { name, facts };
    match (request.operation, &request.old, &request.new) {
        (Operation::Create, _, Some(new)) => case.create(&new.metadata),
        (Operation::Update, Some(old), Some(new)) => case.update(&old.metadata, &new.metadata),
        (Operation::Delete, Some(old), _) => case.delete(&old.metadata),
        _ => Ok(Admitted::Freely),
    }
}

struct Case<'c> {
    /// The name of the namespace.
    name: &'c str,
    facts: &'c Facts,
}

impl Case<'_> {
    fn create(&self, new: &ObjectMeta) -> Result<Admitted, Denial> {
        match (self.facts.role, Claim::of(new).is_none()) {
            (Role::CapsuleUser, true) => Err(self.unassigned()),
            (_, true) => Ok(Admitted::Freely),
            (Role::Other, _) => Err(self.no_user(new)),
            (Role::CapsuleUser, _) => self.create_as_owner(new),
            (Role::Administrator | Role::Manager, _) => self.joining(self.rightful(new)?),
        }
    }

    fn create_as_owner(&self, new: &ObjectMeta) -> Result<Admitted, Denial> {
        let tenant = self.own(new)?;
        names::check(self.name, tenant, &self.facts.configuration)?;
        metadata::check(tenant, None, new)?;
        metadata::check_given(tenant, new)?;
        self.joining(tenant)
    }

    fn update(&self, old: &ObjectMeta, new: &ObjectMeta) -> Result<Admitted, Denial> {
        if Claim::of(old) != Claim::of(new) {
            return self.change_membership(old, new);
        }
        match (self.facts.role, self.rightful(old)) {
            (Role::CapsuleUser, _) => metadata::check(self.own(old)?, Some(old), new)?,
            (Role::Other, Ok(tenant)) => metadata::check_kept(tenant, old, new)?,
            _ => {}
        }
        Ok(Admitted::Freely)
    }

    fn change_membership(&self, old: &ObjectMeta, new: &ObjectMeta) -> Result<Admitted, Denial> {
        if matches!(self.facts.role, Role::CapsuleUser | Role::Other) {
            return Err(self.refused(
                "only administrators of Tenants may change its label capsule.clastix.io/tenant and its owner references to \
                 Tenants; leave them as they are",
            ));
        }
        if Claim::of(new).is_none() {
            return Ok(Admitted::Freely);
        }
        let tenant = self.rightful(new)?;
        let was_there = membership::judge(old, tenant, &self.facts.manager_namespace).is_ok();
        if was_there { Ok(Admitted::Freely) } else { self.joining(tenant) }
    }

    fn delete(&self, old: &ObjectMeta) -> Result<Admitted, Denial> {
        if self.facts.role == Role::CapsuleUser {
            self.own(old)?;
        }
        Ok(Admitted::Freely)
    }

    /// The Tenant to which the namespace belongs, whoever asks.
    fn rightful(&self, metadata: &ObjectMeta) -> Result<&Arc<Tenant>, Denial> {
        let tenants = named(metadata);
        let [name] = tenants.as_slice() else {
            return Err(self.refused(&format!(
                "it names several Tenants by its label and owner references ({}); it can belong to one only",
                tenants.join(", ")
            )));
        };
        let tenant = self.facts.named.get(name);
        let tenant = tenant.ok_or_else(|| self.refused(&format!("there is no Tenant {name}")))?;
        let mut whole = metadata.clone();
        whole.name.get_or_insert_with(|| self.name.to_owned());
        match membership::judge(&whole, tenant, &self.facts.manager_namespace) {
            Ok(()) => Ok(tenant),
            Err(why) => Err(self.mismatch(name, why)),
        }
    }

    /// The Tenant to which the namespace belongs, if they who ask own it.
    fn own(&self, metadata: &ObjectMeta) -> Result<&Arc<Tenant>, Denial> {
        if Claim::of(metadata).is_none() {
            return Err(self.refused(
                "it belongs to no Tenant, and you may change only namespaces of Tenants that you own",
            ));
        }
        let tenant = self.rightful(metadata)?;
        let name = tenant.name_any();
        if self.facts.owned.contains_key(&name) {
            return Ok(tenant);
        }
        Err(self.refused(&format!("it belongs to Tenant {name}, which {} does not own", self.facts.who)))
    }

    fn joining(&self, tenant: &Arc<Tenant>) -> Result<Admitted, Denial> {
        if is_deleting(tenant.as_ref()) {
            let name = tenant.name_any();
            return Err(self.refused(&format!("Tenant {name} is being deleted and takes no more namespaces")));
        }
        Ok(Admitted::Joining { tenant: tenant.clone(), namespace: self.name.to_owned() })
    }

    /// Why a namespace of one of the Tenants' people is still nobody's.
    fn unassigned(&self) -> Denial {
        choose(self.name, &self.facts.owned).err().unwrap_or_else(|| {
            self.refused("it was not given its Tenant, since the manager did not answer in time; try again")
        })
    }

    fn no_user(&self, metadata: &ObjectMeta) -> Denial {
        match Claim::of(metadata).label {
            Some(label) if !self.facts.named.contains_key(label) => not_owned(self.name, label, self.facts),
            _ => self.refused(&format!(
                "it names a Tenant, and only owners who are among the users of CapsuleConfiguration default, and \
                 administrators, may create such namespaces; {} is neither",
                self.facts.who
            )),
        }
    }

    fn mismatch(&self, tenant: &str, why: Mismatch) -> Denial {
        self.refused(&format!("it cannot belong to Tenant {tenant}: {why}"))
    }

    fn refused(&self, why: &str) -> Denial {
        Denial::forbidden(format!("namespace {}: {why}", self.name))
    }
}

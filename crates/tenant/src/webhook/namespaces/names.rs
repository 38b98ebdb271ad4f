//! The names that namespaces may have. Pure.

use kube::{ResourceExt, core::ObjectMeta};
use operator_core::admission::Denial;

use crate::{
    api::v1beta2::{CapsuleConfigurationSpec, Tenant},
    pattern,
};

/// The longest name of a namespace.
const LONGEST: usize = 63;

/// The name of a namespace; of one whose name the API server is to make up, one that it could be.
pub(super) fn expected(metadata: &ObjectMeta) -> String {
    let made_up = || format!("{}xxxxx", metadata.generate_name.as_deref().unwrap_or_default());
    metadata.name.clone().unwrap_or_else(made_up)
}

/// What follows the name of the Tenant and a dash, if the name of a namespace begins so.
pub(super) fn within<'n>(tenant: &str, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(tenant)?.strip_prefix('-').filter(|rest| !rest.is_empty())
}

/// Whether the owners of a Tenant may give a namespace this name.
pub(super) fn check(
    name: &str,
    tenant: &Tenant,
    configuration: &CapsuleConfigurationSpec,
) -> Result<(), Denial> {
    if let Some(pattern) = &configuration.protected_namespace_regex {
        let pattern = pattern::compile(pattern).map_err(|_| {
            Denial::forbidden(
                "no namespace can be created in a Tenant: spec.protectedNamespaceRegex of CapsuleConfiguration default \
                 is no pattern that can be used; an administrator has to correct it",
            )
        })?;
        if let Some(pattern) = pattern.filter(|pattern| pattern.is_match(name)) {
            return Err(Denial::forbidden(format!(
                "namespace {name}: names that match {:?} are protected, by spec.protectedNamespaceRegex of \
                 CapsuleConfiguration default; choose another name",
                pattern.as_str()
            )));
        }
    }
    let is_forced = tenant.spec.force_tenant_prefix.unwrap_or(configuration.force_tenant_prefix);
    let of = tenant.name_any();
    if is_forced && within(&of, name).is_none() {
        return Err(Denial::forbidden(prefix_missing(name, &of)));
    }
    Ok(())
}

fn prefix_missing(name: &str, tenant: &str) -> String {
    let better = format!("{tenant}-{name}");
    let advice = if better.len() <= LONGEST {
        format!("call it {better}")
    } else {
        format!("{better} would be too long, a name has at most {LONGEST} characters; choose a shorter one")
    };
    format!(
        "namespace {name}: the names of namespaces of Tenant {tenant} must begin with {tenant}-; {advice}"
    )
}

//! Rules for the names of namespaces. Pure.

use capsule::{
    api::v1beta2::{CapsuleConfigurationSpec, Tenant},
    pattern,
};
use kube::{ResourceExt, core::ObjectMeta};
use operator_core::admission::Denial;

/// Maximum length of the name of a namespace.
const MAX_LENGTH: usize = 63;

/// Returns the name of a namespace, or an example if the API server has yet to generate the name.
pub(super) fn provisional_name(metadata: &ObjectMeta) -> String {
    let generated = || format!("{}xxxxx", metadata.generate_name.as_deref().unwrap_or_default());
    metadata.name.clone().unwrap_or_else(generated)
}

/// Returns the name without the prefix `<tenant>-`, or `None` if it does not have the prefix.
pub(super) fn name_without_prefix<'n>(tenant: &str, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(tenant)?.strip_prefix('-').filter(|rest| !rest.is_empty())
}

/// Returns an error if owners of the Tenant may not use this name.
pub(super) fn check(
    name: &str,
    tenant: &Tenant,
    configuration: &CapsuleConfigurationSpec,
) -> Result<(), Denial> {
    if let Some(pattern) = &configuration.protected_namespace_regex {
        let pattern = pattern::compile(pattern).map_err(|_| {
            Denial::forbidden(
                "cannot create a namespace in a Tenant: spec.protectedNamespaceRegex of CapsuleConfiguration default is \
                 not a valid pattern; ask an administrator to correct it",
            )
        })?;
        if let Some(pattern) = pattern.filter(|pattern| pattern.is_match(name)) {
            return Err(Denial::forbidden(format!(
                "namespace {name}: names that match {:?} are protected by spec.protectedNamespaceRegex of \
                 CapsuleConfiguration default; choose another name",
                pattern.as_str()
            )));
        }
    }
    let requires_prefix = tenant.spec.force_tenant_prefix.unwrap_or(configuration.force_tenant_prefix);
    let tenant = tenant.name_any();
    if requires_prefix && name_without_prefix(&tenant, name).is_none() {
        return Err(Denial::forbidden(missing_prefix_message(name, &tenant)));
    }
    Ok(())
}

fn missing_prefix_message(name: &str, tenant: &str) -> String {
    let valid = format!("{tenant}-{name}");
    let remedy = if valid.len() <= MAX_LENGTH {
        format!("use the name {valid}")
    } else {
        format!("{valid} would be longer than {MAX_LENGTH} characters; choose a shorter name")
    };
    format!(
        "namespace {name}: the names of namespaces of Tenant {tenant} must begin with {tenant}-; {remedy}"
    )
}

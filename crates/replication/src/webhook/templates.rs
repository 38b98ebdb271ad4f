//! Rejects specs whose templates do not compile, with the path of each template.

use std::marker::PhantomData;

use capsule::api::v1beta2::ReplicationScope;
use operator_core::admission::{
    BoxError, CREATE, Caches, Denial, Request, UPDATE, Validator, Verdict, Webhook, target,
};

use crate::{
    gather::template_errors,
    resource::{Reach, Replication},
};

/// Skips updates of finalizers and status, so that the controller works without the webhook.
const SPEC_CHANGES: &str = "request.operation != 'UPDATE' || object.spec != oldObject.spec";

/// Returns the webhook.
pub(super) fn webhook<K: Replication>() -> Webhook {
    Webhook::validating::<TemplateValidator<K>>("templates")
        .on(target::<K>(CREATE | UPDATE))
        .match_condition("spec-changes", SPEC_CHANGES)
        .build()
}

struct TemplateValidator<K>(PhantomData<fn() -> K>);

impl<K: Replication> Validator for TemplateValidator<K> {
    type Object = K;

    fn build(_: &mut Caches<'_>) -> Self {
        Self(PhantomData)
    }

    async fn validate(&self, request: &Request<K>) -> Result<Verdict, BoxError> {
        Ok(validate(request))
    }
}

/// Denies new errors only, so that a stored spec with an error can be corrected step by step.
fn validate<K: Replication>(request: &Request<K>) -> Verdict {
    let Some(new) = &request.new else { return Verdict::allow() };
    let old = request.old.as_ref().map(|old| template_errors(old.fields().resources)).unwrap_or_default();
    let errors = template_errors(new.fields().resources);
    let errors: Vec<_> = errors.into_iter().filter(|error| !old.contains(error)).collect();
    if !errors.is_empty() {
        return Verdict::deny(Denial::invalid(errors.join("; ")));
    }
    let copies = new.fields().resources.iter().any(|resource| !resource.namespaced_items.is_empty());
    match new.reach() {
        Reach::Tenants(_, scope) if copies && scope != ReplicationScope::Namespace => Verdict::allow()
            .warn("spec.resources[].namespacedItems has no effect: copies need the scope Namespace"),
        _ => Verdict::allow(),
    }
}

#[cfg(test)]
mod tests {
    use capsule::api::v1beta2::{GlobalTenantResource, TenantResource};
    use k8s_openapi::api::authentication::v1::UserInfo;
    use operator_core::admission::Operation;
    use serde_json::{Value, json};

    use super::*;

    fn request<K: Replication>(old: Option<Value>, new: Value) -> Request<K> {
        let object = |spec: Value| {
            serde_json::from_value::<K>(
                json!({ "metadata": { "name": "a", "namespace": "b" }, "spec": spec }),
            )
            .unwrap()
        };
        Request {
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            name: "a".to_owned(),
            namespace: None,
            subresource: None,
            resource: "tenantresources".to_owned(),
            group: "capsule.clastix.io".to_owned(),
            user: UserInfo::default(),
            dry_run: false,
            old: old.map(object),
            new: Some(object(new)),
            options: Value::Null,
        }
    }

    fn generators(templates: &[&str]) -> Value {
        let generators: Vec<_> = templates.iter().map(|template| json!({ "template": template })).collect();
        json!({ "resources": [{}, { "generators": generators }] })
    }

    fn denial(old: Option<Value>, new: Value) -> String {
        validate(&request::<TenantResource>(old, new))
            .denial
            .map_or_else(String::new, |denial| denial.message)
    }

    #[test]
    fn names_the_path_of_each_invalid_template() {
        assert_eq!(denial(None, generators(&["a: {{ .tenant.metadata.name | upper }}"])), "");
        let message = denial(None, generators(&["a", "{{ env \"HOME\" }}", "{{ if }}"]));
        assert!(
            message.contains("spec.resources[1].generators[1].template") && message.contains("env"),
            "{message}"
        );
        assert!(message.contains("spec.resources[1].generators[2].template"), "{message}");
    }

    #[test]
    fn an_update_is_judged_for_what_it_changes() {
        let bad = || generators(&["{{ env }}"]);
        assert_eq!(denial(Some(bad()), bad()), "");
        assert_ne!(denial(Some(generators(&["a"])), bad()), "");
        assert_ne!(denial(Some(bad()), generators(&["{{ env }}", "{{ now }}"])), "");
    }

    #[test]
    fn warns_of_copies_without_a_target() {
        let spec = |scope: &str| json!({ "scope": scope, "resources": [{ "namespacedItems": [{ "kind": "Secret" }] }] });
        let warnings = |scope| validate(&request::<GlobalTenantResource>(None, spec(scope))).warnings.len();
        assert_eq!((warnings("Namespace"), warnings("Tenant"), warnings("None")), (0, 1, 1));
    }
}

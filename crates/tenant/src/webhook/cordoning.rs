//! Denies changes by users of a Tenant in its cordoned namespaces.

use capsule::{
    api::names::{CORDONED_LABEL, TENANT_LABEL},
    match_conditions::{EXCLUDE_SYSTEM_MASTERS, EXCLUDE_SYSTEM_USERS},
    subjects::Role,
};
use k8s_openapi::{
    api::core::v1::{Namespace, Pod},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use operator_core::{
    ObjectKey,
    admission::{
        BoxError, CONNECT, CREATE, Caches, DELETE, Denial, Metadata, Operation, Request, UPDATE, Validator,
        Verdict, Webhook, any_namespaced, target,
    },
    informer::{Informer, Selection},
    kind::is_deleting,
};

use super::{
    denial_events::{DenialEvents, VALIDATION_DENIED},
    lookups::Lookups,
    tenant_resolver::TenantResolver,
};
use crate::reasons::CORDONED;

/// Returns the webhook. The API server calls it only for cordoned namespaces.
pub(super) fn webhook() -> Webhook {
    let pod = |operations, subresource| target::<Pod>(operations).subresource(subresource);
    Webhook::validating::<CordonValidator>("cordoned-namespaces")
        .on(any_namespaced(CREATE | UPDATE | DELETE))
        .on(any_namespaced(UPDATE).subresource("scale"))
        .on(pod(UPDATE, "ephemeralcontainers"))
        .on(pod(CREATE, "eviction"))
        .on(pod(CONNECT, "exec"))
        .on(pod(CONNECT, "attach"))
        .on(pod(CONNECT, "portforward"))
        .on(pod(CONNECT, "proxy"))
        .in_namespaces(cordoned_in_tenants())
        .match_condition("exclude-system-users", EXCLUDE_SYSTEM_USERS)
        .match_condition("exclude-system-masters", EXCLUDE_SYSTEM_MASTERS)
        .side_effects()
        .build()
}

/// Selects the cordoned namespaces of Tenants. Only the value `true` counts.
fn cordoned_in_tenants() -> LabelSelector {
    let requirement = |key: &str, operator: &str, values| LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values,
    };
    LabelSelector {
        match_expressions: Some(vec![
            requirement(TENANT_LABEL, "Exists", None),
            requirement(CORDONED_LABEL, "In", Some(vec!["true".to_owned()])),
        ]),
        match_labels: None,
    }
}

struct CordonValidator {
    lookups: Lookups,
    resolver: TenantResolver,
    namespaces: Informer<Namespace>,
    denials: DenialEvents,
}

impl Validator for CordonValidator {
    type Object = Metadata;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            lookups: Lookups::build(caches),
            resolver: TenantResolver::build(caches),
            namespaces: caches.informer(Selection::All),
            denials: DenialEvents::build(caches),
        }
    }

    async fn validate(&self, request: &Request<Metadata>) -> Result<Verdict, BoxError> {
        if is_cleanup(request) || self.is_terminating(request.namespace.as_deref()) {
            return Ok(Verdict::allow());
        }
        if self.lookups.role(&request.user).await? != Role::CapsuleUser {
            return Ok(Verdict::allow());
        }
        let message = message(request);
        if let (false, Ok(Some(tenant))) =
            (request.dry_run, self.resolver.resolve(request.namespace.as_deref().unwrap_or_default()).await)
        {
            let note = format!("denied request of {}: {message}", request.user_name());
            self.denials.record_on_tenant(&tenant, CORDONED, VALIDATION_DENIED, &note);
        }
        Ok(Verdict::deny(Denial::forbidden(message)))
    }
}

impl CordonValidator {
    /// Returns whether the namespace is being deleted. Its deletion must not wait.
    fn is_terminating(&self, namespace: Option<&str>) -> bool {
        let found = self.namespaces.store().get(&ObjectKey::cluster(namespace.unwrap_or_default()));
        found.is_some_and(|namespace| is_deleting(namespace.as_ref()))
    }
}

/// Returns whether the request updates an object that is being deleted, for example to remove a
/// finalizer.
fn is_cleanup(request: &Request<Metadata>) -> bool {
    let is_deleted = |object: &Metadata| object.metadata.deletion_timestamp.is_some();
    request.operation == Operation::Update && request.old.as_ref().is_some_and(is_deleted)
}

fn message(request: &Request<Metadata>) -> String {
    let resource = match &request.subresource {
        Some(subresource) => format!("{}/{subresource}", request.resource),
        None => request.resource.clone(),
    };
    let generated = request.new.as_ref().and_then(|new| new.metadata.name.as_deref()).unwrap_or_default();
    let name = if request.name.is_empty() { generated } else { request.name.as_str() };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    format!(
        "{resource} {namespace}/{name}: namespace {namespace} is cordoned, so users of its Tenant cannot change anything \
         in it; ask an administrator to uncordon it"
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;
    use serde_json::{Value, json};

    use super::*;

    fn request(operation: Operation, old: Option<Value>) -> Request<Metadata> {
        Request {
            operation,
            name: "web".to_owned(),
            namespace: Some("oil-dev".to_owned()),
            subresource: Some("scale".to_owned()),
            resource: "deployments".to_owned(),
            group: "apps".to_owned(),
            user: UserInfo::default(),
            dry_run: false,
            old: old.map(|metadata| serde_json::from_value(json!({ "metadata": metadata })).unwrap()),
            new: None,
            options: Value::Null,
        }
    }

    #[test]
    fn only_updates_of_objects_in_deletion_are_cleanup() {
        let deleted = || Some(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
        assert!(is_cleanup(&request(Operation::Update, deleted())));
        for other in [
            request(Operation::Update, Some(json!({}))),
            request(Operation::Delete, deleted()),
            request(Operation::Create, None),
        ] {
            assert!(!is_cleanup(&other), "{other:?}");
        }
    }

    #[test]
    fn denial_names_resource_and_namespace() {
        let message = message(&request(Operation::Update, None));
        assert!(
            message.starts_with("deployments/scale oil-dev/web: namespace oil-dev is cordoned"),
            "{message}"
        );
    }
}

//! Denies writes to the objects that the controller manages in the namespaces of Tenants.

use capsule::{
    api::names::{OBJECT_MANAGER, OBJECT_MANAGER_LABEL},
    match_conditions::{EXCLUDE_SYSTEM_MASTERS, EXCLUDE_SYSTEM_USERS},
    subjects::Role,
};
use k8s_openapi::{
    api::{
        core::v1::{LimitRange, ResourceQuota},
        networking::v1::NetworkPolicy,
        rbac::v1::RoleBinding,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use operator_core::admission::{
    BoxError, CREATE, Caches, DELETE, Denial, Metadata, Operation, Request, UPDATE, Validator, Verdict,
    Webhook, target,
};

use super::{in_tenants, lookups::Lookups};

/// Returns the webhook. For an update, the API server matches the label on the old and the new
/// object, so removing the label does not bypass the webhook.
pub(super) fn webhook() -> Webhook {
    let all = CREATE | UPDATE | DELETE;
    Webhook::validating::<ManagedObjectValidator>("managed-objects")
        .on(target::<LimitRange>(all))
        .on(target::<NetworkPolicy>(all))
        .on(target::<ResourceQuota>(all))
        // Only the API server writes the status.
        .on(target::<ResourceQuota>(UPDATE).subresource("status"))
        .on(target::<RoleBinding>(all))
        .in_namespaces(in_tenants())
        .with_labels(LabelSelector {
            match_labels: Some([(OBJECT_MANAGER_LABEL.to_owned(), OBJECT_MANAGER.to_owned())].into()),
            ..LabelSelector::default()
        })
        .match_condition("exclude-system-users", EXCLUDE_SYSTEM_USERS)
        .match_condition("exclude-system-masters", EXCLUDE_SYSTEM_MASTERS)
        .build()
}

struct ManagedObjectValidator {
    lookups: Lookups,
}

impl Validator for ManagedObjectValidator {
    type Object = Metadata;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { lookups: Lookups::build(caches) }
    }

    async fn validate(&self, request: &Request<Metadata>) -> Result<Verdict, BoxError> {
        Ok(authorize(request, self.lookups.role(&request.user).await?).into())
    }
}

fn authorize(request: &Request<Metadata>, role: Role) -> Result<(), Denial> {
    if matches!(role, Role::Manager | Role::Administrator) {
        return Ok(());
    }
    let kind = request.states().last().map_or("object", |object| object.kind.as_str());
    let name = format!("{kind} {}/{}", request.namespace.as_deref().unwrap_or_default(), request.name);
    let was_managed = request.old.as_ref().is_some_and(is_managed);
    Err(Denial::forbidden(if request.operation == Operation::Create || !was_managed {
        format!(
            "{name}: the label {OBJECT_MANAGER_LABEL} is reserved for objects of the Tenant controller; remove it"
        )
    } else {
        format!(
            "{name} is managed by the Tenant controller and cannot be changed; ask an administrator to change the \
             Tenant, or create an object with another name"
        )
    }))
}

fn is_managed(object: &Metadata) -> bool {
    let label = object.metadata.labels.as_ref().and_then(|labels| labels.get(OBJECT_MANAGER_LABEL));
    label.is_some_and(|manager| manager == OBJECT_MANAGER)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;
    use serde_json::{Value, json};

    use super::*;

    fn object(labels: Value) -> Metadata {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "limits", "labels": labels },
        }))
        .unwrap()
    }

    fn request(old: Option<Value>, new: Option<Value>) -> Request<Metadata> {
        let operation = match (&old, &new) {
            (None, _) => Operation::Create,
            (_, None) => Operation::Delete,
            _ => Operation::Update,
        };
        Request {
            operation,
            name: "limits".to_owned(),
            namespace: Some("oil-dev".to_owned()),
            subresource: None,
            resource: "limitranges".to_owned(),
            group: String::new(),
            user: UserInfo::default(),
            dry_run: false,
            old: old.map(object),
            new: new.map(object),
            options: Value::Null,
        }
    }

    fn denial(old: Option<Value>, new: Option<Value>, role: Role) -> String {
        authorize(&request(old, new), role).err().map_or_else(String::new, |denial| denial.message)
    }

    #[test]
    fn only_the_manager_and_administrators_write_managed_objects() {
        let managed = || Some(json!({ "projectcapsule.dev/managed-by": "controller" }));
        let own = || Some(json!({ "team": "a" }));
        for (old, new) in [
            (None, managed()),
            (managed(), managed()),
            (managed(), own()),
            (managed(), None),
            (own(), managed()),
        ] {
            for role in [Role::CapsuleUser, Role::Other] {
                let denial = denial(old.clone(), new.clone(), role);
                assert!(denial.starts_with("LimitRange oil-dev/limits"), "{denial}");
                let is_new = denial.contains("remove it");
                assert_eq!(is_new, old != managed(), "{denial}");
            }
            for role in [Role::Manager, Role::Administrator] {
                assert_eq!(denial(old.clone(), new.clone(), role), "");
            }
        }
    }
}

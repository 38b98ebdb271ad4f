//! The objects that the controller keeps in the namespaces of Tenants: nobody else writes them.

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

use super::{
    in_tenants,
    lookups::Lookups,
    match_conditions::{NOT_A_MASTER, NOT_THE_SYSTEM},
};
use crate::{
    api::names::{OBJECT_MANAGER, OBJECT_MANAGER_LABEL},
    subjects::Role,
};

/// Guards them. Of an update the API server looks for the label in either state, so it cannot be taken off first.
pub(super) fn guard() -> Webhook {
    let all = CREATE | UPDATE | DELETE;
    Webhook::validating::<Guard>("managed-objects")
        .on(target::<LimitRange>(all))
        .on(target::<NetworkPolicy>(all))
        .on(target::<ResourceQuota>(all))
        // Its other writer is the API server.
        .on(target::<ResourceQuota>(UPDATE).subresource("status"))
        .on(target::<RoleBinding>(all))
        .in_namespaces(in_tenants())
        .with_labels(LabelSelector {
            match_labels: Some([(OBJECT_MANAGER_LABEL.to_owned(), OBJECT_MANAGER.to_owned())].into()),
            ..LabelSelector::default()
        })
        .match_condition("not-by-the-system", NOT_THE_SYSTEM)
        .match_condition("not-by-a-master", NOT_A_MASTER)
        .build()
}

struct Guard {
    known: Lookups,
}

impl Validator for Guard {
    type Object = Metadata;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { known: Lookups::build(caches) }
    }

    async fn validate(&self, request: &Request<Metadata>) -> Result<Verdict, BoxError> {
        Ok(judge(request, self.known.role(&request.user).await?).into())
    }
}

fn judge(request: &Request<Metadata>, role: Role) -> Result<(), Denial> {
    if matches!(role, Role::Manager | Role::Administrator) {
        return Ok(());
    }
    let kind = request.states().last().map_or("object", |object| object.kind.as_str());
    let name = format!("{kind} {}/{}", request.namespace.as_deref().unwrap_or_default(), request.name);
    let was_managed = request.old.as_ref().is_some_and(is_managed);
    Err(Denial::forbidden(if request.operation == Operation::Create || !was_managed {
        format!(
            "{name}: the label {OBJECT_MANAGER_LABEL} is for what the Tenant controller makes; leave it out"
        )
    } else {
        format!(
            "{name} is kept by the Tenant controller as the Tenant says, and nobody else may write it; have an \
             administrator change the Tenant, or make an object of another name"
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

    fn refused(old: Option<Value>, new: Option<Value>, role: Role) -> String {
        judge(&request(old, new), role).err().map_or_else(String::new, |denial| denial.message)
    }

    #[test]
    fn nobody_but_the_manager_and_administrators_writes_what_is_managed() {
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
                let said = refused(old.clone(), new.clone(), role);
                assert!(said.starts_with("LimitRange oil-dev/limits"), "{said}");
                let is_theirs = said.contains("leave it out");
                assert_eq!(is_theirs, old != managed(), "{said}");
            }
            for role in [Role::Manager, Role::Administrator] {
                assert_eq!(refused(old.clone(), new.clone(), role), "");
            }
        }
    }
}

//! Users who may own Tenants. Pure.

use capsule::api::v1beta2::{CapsuleConfigurationSpec, TenantOwner, UserSpec};

/// Returns the users who may own Tenants, sorted and each once: the users in the configuration, and
/// every `TenantOwner` that is aggregated.
pub fn users<'o>(
    spec: &CapsuleConfigurationSpec,
    owners: impl IntoIterator<Item = &'o TenantOwner>,
) -> Vec<UserSpec> {
    let aggregated = owners.into_iter().filter(|owner| owner.spec.aggregate);
    let aggregated =
        aggregated.map(|owner| UserSpec { kind: owner.spec.kind, name: owner.spec.name.clone() });
    let mut users: Vec<_> = spec.owners().into_iter().chain(aggregated).collect();
    users.sort();
    users.dedup();
    users
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn owner(spec: Value) -> TenantOwner {
        TenantOwner::new("one", serde_json::from_value(spec).unwrap())
    }

    fn names(spec: Value, owners: &[TenantOwner]) -> Vec<String> {
        let users = users(&serde_json::from_value(spec).unwrap(), owners);
        users.iter().map(|user| format!("{:?} {}", user.kind, user.name)).collect()
    }

    #[test]
    fn default_group_is_used_if_the_configuration_lists_no_users() {
        let alice = owner(json!({ "kind": "User", "name": "alice" }));
        assert_eq!(names(json!({}), &[]), ["Group projectcapsule.dev"]);
        assert_eq!(names(json!({}), &[alice]), ["User alice", "Group projectcapsule.dev"]);
    }

    #[test]
    fn users_are_unique_and_owners_can_opt_out_of_aggregation() {
        let alice = owner(json!({ "kind": "User", "name": "alice" }));
        let bob = owner(json!({ "kind": "User", "name": "bob", "aggregate": false }));
        let spec = json!({ "userNames": ["alice"], "userGroups": ["devs"], "users": [{ "kind": "Group", "name": "devs" }] });
        assert_eq!(names(spec, &[alice, bob]), ["User alice", "Group devs"]);
    }
}

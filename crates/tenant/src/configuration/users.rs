//! Who may own Tenants. Pure.

use crate::api::v1beta2::{CapsuleConfigurationSpec, TenantOwner, UserSpec};

/// Everybody who may own Tenants, each once, sorted: whom the configuration lists, and every `TenantOwner` that is to
/// count as one of them.
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
    fn the_default_group_counts_where_nobody_is_listed_whoever_is_aggregated() {
        let alice = owner(json!({ "kind": "User", "name": "alice" }));
        assert_eq!(names(json!({}), &[]), ["Group projectcapsule.dev"]);
        assert_eq!(names(json!({}), &[alice]), ["User alice", "Group projectcapsule.dev"]);
    }

    #[test]
    fn each_is_there_once_and_an_owner_may_stay_out() {
        let alice = owner(json!({ "kind": "User", "name": "alice" }));
        let bob = owner(json!({ "kind": "User", "name": "bob", "aggregate": false }));
        let spec = json!({ "userNames": ["alice"], "userGroups": ["devs"], "users": [{ "kind": "Group", "name": "devs" }] });
        assert_eq!(names(spec, &[alice, bob]), ["User alice", "Group devs"]);
    }
}

//! What others made under a name that is reserved for what a Tenant keeps, before it was reserved.

use k8s_openapi::api::{
    core::v1::{ConfigMap, LimitRange},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kube::{Resource, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::support::{Namespaced, World, label, reference};

impl World {
    async fn stored<K: Namespaced>(&self, object: Value) -> K {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>(&self.named("a")).create(&PostParams::default(), &object).await.unwrap()
    }

    /// Holds an object to being the Tenant's alone.
    async fn assert_taken<K: Namespaced>(&self, name: &str, uid: &str) -> K {
        let taken = self.api::<K>(&self.named("a")).get(name).await.unwrap();
        let owners = taken.owner_references();
        assert_eq!(owners.len(), 1, "{owners:?}");
        assert_eq!((owners[0].uid.as_str(), owners[0].controller), (uid, Some(true)));
        assert_eq!(taken.labels()["projectcapsule.dev/managed-by"], "controller");
        taken
    }
}

#[tokio::test]
async fn what_stands_under_a_reserved_name_is_taken_over() {
    let world = World::new().await;
    world.namespace("a", json!({})).await;
    let name = format!("capsule-{}-0", world.name);
    let map: ConfigMap = world.stored(json!({ "metadata": { "name": "owner" } })).await;
    // It keeps the name, lets everything through, and belongs to something else.
    let mut owner = serde_json::to_value(map.controller_owner_ref(&()).unwrap()).unwrap();
    owner["controller"] = true.into();
    let open = json!({
        "metadata": { "name": name, "ownerReferences": [owner], "labels": { "team": "a" } },
        "spec": { "podSelector": {}, "ingress": [{}], "policyTypes": ["Ingress"] },
    });
    let squatter: NetworkPolicy = world.stored(open).await;
    world.stored::<LimitRange>(json!({ "metadata": { "name": name }, "spec": { "limits": [] } })).await;
    let other = json!({ "metadata": { "name": "theirs" }, "spec": { "limits": [] } });
    let other = world.stored::<LimitRange>(other).await;
    let tenant = world
        .create(json!({
            "additionalRoleBindings": [{
                "clusterRoleName": "view",
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol" }],
            }],
            "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
            "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
        }))
        .await;
    // The name of a RoleBinding can be worked out, and its role cannot be changed.
    world.namespace("b", json!({})).await;
    let join = json!({ "labels": label(&world.name), "ownerReferences": [reference(&tenant)] });
    world.patch_namespace("b", join.clone()).await;
    world.until_ready(&["b"]).await;
    let bindings = world.api::<RoleBinding>(&world.named("b"));
    let binding = bindings.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0).name_any();
    let edit = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" });
    world.stored::<RoleBinding>(json!({ "metadata": { "name": binding }, "roleRef": edit })).await;

    world.patch_namespace("a", join).await;
    world.until_ready(&["a", "b"]).await;
    let uid = tenant.uid().unwrap();
    let policy = world.assert_taken::<NetworkPolicy>(&name, &uid).await;
    assert_eq!(policy.uid(), squatter.uid(), "there is no moment without it");
    assert!(policy.spec.as_ref().unwrap().ingress.as_ref().is_none_or(Vec::is_empty));
    assert_eq!(policy.labels()["team"], "a");
    let range = world.assert_taken::<LimitRange>(&name, &uid).await;
    assert_eq!(range.spec.unwrap().limits.len(), 1);
    let binding = world.assert_taken::<RoleBinding>(&binding, &uid).await;
    assert_eq!((binding.role_ref.name.as_str(), binding.subjects.unwrap().len()), ("view", 1));
    // Another name is another matter.
    let api = world.api::<LimitRange>(&world.named("a"));
    assert_eq!(api.get("theirs").await.unwrap().resource_version(), other.resource_version());
}

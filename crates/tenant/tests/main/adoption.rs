//! Adoption of existing objects with the name of a managed object.

use k8s_openapi::api::{
    core::v1::{ConfigMap, LimitRange},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kube::{Resource, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::support::{Namespaced, TestEnv, label, reference};

impl TestEnv {
    async fn stored<K: Namespaced>(&self, object: Value) -> K {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>(&self.prefixed("a")).create(&PostParams::default(), &object).await.unwrap()
    }

    /// Asserts that the Tenant is the only owner of an object.
    async fn assert_adopted<K: Namespaced>(&self, name: &str, uid: &str) -> K {
        let adopted = self.api::<K>(&self.prefixed("a")).get(name).await.unwrap();
        let owners = adopted.owner_references();
        assert_eq!(owners.len(), 1, "{owners:?}");
        assert_eq!((owners[0].uid.as_str(), owners[0].controller), (uid, Some(true)));
        assert_eq!(adopted.labels()["projectcapsule.dev/managed-by"], "controller");
        adopted
    }
}

#[tokio::test]
async fn adopts_existing_objects_with_reserved_names() {
    let env = TestEnv::new().await;
    env.namespace("a", json!({})).await;
    let name = format!("capsule-{}-0", env.name);
    let map: ConfigMap = env.stored(json!({ "metadata": { "name": "owner" } })).await;
    // A NetworkPolicy that allows all ingress and has another controller.
    let mut owner = serde_json::to_value(map.controller_owner_ref(&()).unwrap()).unwrap();
    owner["controller"] = true.into();
    let open = json!({
        "metadata": { "name": name, "ownerReferences": [owner], "labels": { "team": "a" } },
        "spec": { "podSelector": {}, "ingress": [{}], "policyTypes": ["Ingress"] },
    });
    let existing: NetworkPolicy = env.stored(open).await;
    env.stored::<LimitRange>(json!({ "metadata": { "name": name }, "spec": { "limits": [] } })).await;
    let other = json!({ "metadata": { "name": "theirs" }, "spec": { "limits": [] } });
    let other = env.stored::<LimitRange>(other).await;
    let tenant = env
        .create(json!({
            "additionalRoleBindings": [{
                "clusterRoleName": "view",
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol" }],
            }],
            "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
            "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
        }))
        .await;
    // The name of a RoleBinding is predictable, and its role cannot be updated.
    env.namespace("b", json!({})).await;
    let join = json!({ "labels": label(&env.name), "ownerReferences": [reference(&tenant)] });
    env.patch_namespace("b", join.clone()).await;
    env.until_ready(&["b"]).await;
    let bindings = env.api::<RoleBinding>(&env.prefixed("b"));
    let binding = bindings.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0).name_any();
    let edit = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" });
    env.stored::<RoleBinding>(json!({ "metadata": { "name": binding }, "roleRef": edit })).await;

    env.patch_namespace("a", join).await;
    env.until_ready(&["a", "b"]).await;
    let uid = tenant.uid().unwrap();
    let policy = env.assert_adopted::<NetworkPolicy>(&name, &uid).await;
    assert_eq!(policy.uid(), existing.uid(), "it is updated, not recreated");
    assert!(policy.spec.as_ref().unwrap().ingress.as_ref().is_none_or(Vec::is_empty));
    assert_eq!(policy.labels()["team"], "a");
    let range = env.assert_adopted::<LimitRange>(&name, &uid).await;
    assert_eq!(range.spec.unwrap().limits.len(), 1);
    let binding = env.assert_adopted::<RoleBinding>(&binding, &uid).await;
    assert_eq!((binding.role_ref.name.as_str(), binding.subjects.unwrap().len()), ("view", 1));
    // An object with another name is not changed.
    let api = env.api::<LimitRange>(&env.prefixed("a"));
    assert_eq!(api.get("theirs").await.unwrap().resource_version(), other.resource_version());
}

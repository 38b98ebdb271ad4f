//! `spec.deletionProtection`: the API server refuses to delete the object, with the remedy.

use std::time::Duration;

use cluster::wait::eventually;
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use operator_core::{manifests::webhooks, register};
use postgres::PostgresClusterController;
use serde_json::json;

use crate::support::TestEnv;

const PATIENCE: Duration = Duration::from_mins(1);

/// Installs the policies of the controller, and creates a cluster that is protected by them.
async fn protected() -> TestEnv {
    let env = TestEnv::new().await;
    for (policy, binding) in webhooks::policies(&register::<PostgresClusterController>(), "ensemble-system") {
        let params = PatchParams::apply("test").force();
        let name = policy.name_any();
        let (policies, bindings) = (Api::all(env.client.clone()), Api::all(env.client.clone()));
        let _: ValidatingAdmissionPolicy =
            policies.patch(&name, &params, &Patch::Apply(&policy)).await.unwrap();
        let _: ValidatingAdmissionPolicyBinding =
            bindings.patch(&name, &params, &Patch::Apply(&binding)).await.unwrap();
    }
    env.create("db", json!({"deletionProtection": true})).await.unwrap();
    // The API server enforces a policy a moment after it was created.
    eventually("the policy to be enforced", PATIENCE, async || {
        let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
        Ok(env.api.delete("db", &params).await.is_err())
    })
    .await
    .unwrap();
    env
}

#[tokio::test]
async fn protected_cluster_is_deleted_only_after_the_protection_is_lifted() {
    let env = protected().await;
    env.create("other", json!({})).await.unwrap();
    for error in [
        env.api.delete("db", &DeleteParams::default()).await.unwrap_err(),
        env.api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap_err(),
    ] {
        let message = error.to_string();
        assert!(message.contains(r#"--patch='{"spec":{"deletionProtection":false}}'"#), "{message}");
    }
    env.change("db", json!({"deletionProtection": false})).await.unwrap();
    env.api.delete("db", &DeleteParams::default()).await.unwrap();
    assert!(env.api.get_opt("db").await.unwrap().is_none());
}

/// What the documentation says: the namespace stays in deletion, and only the object survives.
#[tokio::test]
async fn deletion_of_the_namespace_takes_all_but_the_protected_object() {
    let env = protected().await;
    let maps: Api<ConfigMap> = Api::namespaced(env.client.clone(), &env.namespace);
    let map = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(env.client.clone());
    namespaces.delete(&env.namespace, &DeleteParams::default()).await.unwrap();
    eventually("the namespace to say why it stays", PATIENCE, async || {
        let namespace = namespaces.get(&env.namespace).await?;
        let conditions = namespace.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|condition| {
            let message = condition.message.as_deref().unwrap_or_default();
            condition.type_ == "NamespaceDeletionContentFailure" && message.contains("deletionProtection")
        }))
    })
    .await
    .unwrap();
    eventually("the other objects to be gone", PATIENCE, async || Ok(maps.get_opt("other").await?.is_none()))
        .await
        .unwrap();
    assert!(env.api.get("db").await.unwrap().metadata.deletion_timestamp.is_none());
    env.change("db", json!({"deletionProtection": false})).await.unwrap();
    eventually("the namespace to be gone", PATIENCE, async || {
        Ok(namespaces.get_opt(&env.namespace).await?.is_none())
    })
    .await
    .unwrap();
}

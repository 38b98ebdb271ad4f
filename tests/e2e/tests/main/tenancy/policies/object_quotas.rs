//! Annotations that limit the number of objects in all namespaces of a Tenant.

use cluster::wait::eventually;
use futures::future::join_all;
use serde_json::{Value, json};

use super::{create_tenant, shared_env};
use crate::support::{PATIENCE, TestEnv};

const QUOTA: &str = "quota.resources.capsule.clastix.io/widgets.counted.example.com_v1";
const COUNT: &str = "used.resources.capsule.clastix.io/widgets.counted.example.com_v1";

fn widget(namespace: &str, name: &str) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    json!({ "apiVersion": "counted.example.com/v1", "kind": "Widget", "metadata": metadata })
}

async fn create(env: &TestEnv, widget: &Value) -> Result<(), String> {
    env.cluster.apply_yaml(&widget.to_string()).await.map(drop).map_err(|error| format!("{error:#}"))
}

async fn until_count(env: &TestEnv, expected: Value) {
    eventually(&format!("{expected} widgets to be counted"), PATIENCE, async || {
        let found = env.read(&["get", "tenant", "counted"]).await["metadata"]["annotations"][COUNT].clone();
        Ok(if found == expected { Ok(()) } else { Err(found) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn annotation_limits_custom_resources_of_all_namespaces_together() {
    let env = shared_env().await;
    env.install_foreign_crd("counted.example.com", "v1", "Widget", "widgets").await;
    let (owner, first) = create_tenant(env, "counted", json!({})).await;
    // One replica reviews both: several replicas observe each other's admissions late.
    let second = "counted-prod".to_owned();
    owner.create(env, &second).await.unwrap();
    env.until_tenant_ready("counted", 2).await;
    let annotate = async |value: &str| {
        let annotation = format!("{QUOTA}{value}");
        let annotated = env.kubectl(&["annotate", "--overwrite", "tenant", "counted", &annotation]).await;
        annotated.map_err(|error| format!("{error:#}"))
    };
    let refused = annotate("=many").await.unwrap_err();
    assert!(refused.contains("the value must be a number from 0 to 4294967295"), "{refused}");
    annotate("=3").await.unwrap();
    until_count(env, "0".into()).await;
    for (namespace, name) in [(&first, "a"), (&second, "b")] {
        // Kubernetes needs half a minute to count a kind that is new.
        let widget = widget(namespace, name);
        eventually("Kubernetes to count the kind", PATIENCE * 2, async || Ok(create(env, &widget).await))
            .await
            .unwrap();
    }
    until_count(env, "2".into()).await;
    let more = (0..6).map(|at| widget(if at % 2 == 0 { &first } else { &second }, &format!("more-{at}")));
    let more: Vec<_> = more.collect();
    let created = join_all(more.iter().map(|widget| create(env, widget))).await;
    assert!(created.iter().filter(|created| created.is_ok()).count() <= 1, "{created:?}");
    eventually("the quota to be used up", PATIENCE, async || {
        Ok(match create(env, &widget(&first, "last")).await {
            Err(refused) if refused.contains("exceeded quota") => Ok(()),
            other => Err(other),
        })
    })
    .await
    .unwrap();
    until_count(env, "3".into()).await;
    // Objects that are deleted make room.
    env.kubectl(&["delete", "widgets", "a", &format!("--namespace={first}")]).await.unwrap();
    until_count(env, "2".into()).await;
    eventually("room for another object", PATIENCE, async || Ok(create(env, &widget(&second, "next")).await))
        .await
        .unwrap();
    // Without the annotation, there is no limit, and no count.
    annotate("-").await.unwrap();
    until_count(env, Value::Null).await;
    eventually("the end of the quota", PATIENCE, async || Ok(create(env, &widget(&first, "free")).await))
        .await
        .unwrap();
}

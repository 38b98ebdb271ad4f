//! Adoption and release of Pods.

use cluster::wait::eventually;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::support::{TIMEOUT, TestEnv, orphan};

#[tokio::test]
async fn adopts_and_counts_orphans_with_matching_labels() {
    let env = TestEnv::new().await;
    env.pods().create(&PostParams::default(), &orphan("stray", "web")).await.unwrap();
    env.create("web", json!({"replicas": 2})).await;
    let names = env.until_ready("web", 2).await.status.unwrap().pod_names;
    assert_eq!(names, ["stray", "web-pod-1"]);
    let owner = env.pods().get("stray").await.unwrap().owner_references()[0].clone();
    assert_eq!((owner.kind.as_str(), owner.controller), ("PodSet", Some(true)));
}

#[tokio::test]
async fn ignores_pods_of_other_controllers() {
    let env = TestEnv::new().await;
    let mut foreign = orphan("foreign", "web");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000",
        "controller": true});
    foreign.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    foreign.metadata.finalizers = Some(vec!["example.com/keep".into()]);
    env.pods().create(&PostParams::default(), &foreign).await.unwrap();
    env.pods().create(&PostParams::default(), &orphan("other", "another")).await.unwrap();
    env.create("web", json!({"replicas": 1})).await;
    let names = env.until_ready("web", 1).await.status.unwrap().pod_names;
    assert_eq!(names, ["web-pod-1"]);
    let requests = env.harness.requests_in(&env.namespace).unwrap().writes();
    assert!(requests.entries.iter().all(|entry| entry.name != "foreign" && entry.name != "other"));
    env.remove_finalizers("foreign").await;
}

#[tokio::test]
async fn releases_and_replaces_relabelled_pods() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 1})).await;
    env.until_ready("web", 1).await;
    env.kubectl(&["label", "pod", "web-pod-1", "app=debug", "--overwrite"]).await.unwrap();
    eventually("the Pod to be released", TIMEOUT, async || {
        let owners = env.pods().get("web-pod-1").await?.owner_references().to_vec();
        Ok(if owners.is_empty() { Ok(()) } else { Err(owners) })
    })
    .await
    .unwrap();
    let set = env
        .until("web", "a new Pod", |set| {
            set.status.as_ref().is_some_and(|status| status.pod_names == ["web-pod-2"])
        })
        .await;
    assert_eq!(set.status.unwrap().available_replicas, 1);
}

#[tokio::test]
async fn adopts_pods_with_owners_but_without_a_controller() {
    let env = TestEnv::new().await;
    let set = env.create("web", json!({"replicas": 3})).await;
    env.until_ready("web", 3).await;
    env.kubectl(&["create", "configmap", "x"]).await.unwrap();
    let x = env.kubectl(&["get", "configmap", "x", "--output=jsonpath={.metadata.uid}"]).await.unwrap();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": x});
    let this =
        json!({"apiVersion": "app.example.com/v1alpha1", "kind": "PodSet", "name": "web", "uid": set.uid()});
    for (name, owners, after) in [
        ("without-owner", vec![], vec!["PodSet"]),
        ("owned-without-control", vec![this], vec!["PodSet"]),
        ("owned-by-another", vec![other], vec!["ConfigMap", "PodSet"]),
    ] {
        // The PodSet deletes the surplus Pod immediately. The finalizer keeps it.
        let mut pod = orphan(name, "web");
        pod.metadata.owner_references =
            Some(owners.into_iter().map(|owner: Value| serde_json::from_value(owner).unwrap()).collect());
        pod.metadata.finalizers = Some(vec!["example.com/keep".into()]);
        env.pods().create(&PostParams::default(), &pod).await.unwrap();
        let owners = eventually(&format!("{name} to be adopted"), TIMEOUT, async || {
            let owners = env.pods().get(name).await?.owner_references().to_vec();
            Ok(if owners.iter().any(|owner| owner.controller == Some(true)) {
                Ok(owners)
            } else {
                Err(owners)
            })
        })
        .await
        .unwrap();
        let mut kinds: Vec<_> = owners.iter().map(|owner: &OwnerReference| owner.kind.as_str()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, after, "{name}");
        env.remove_finalizers(name).await;
    }
    env.until_ready("web", 3).await;
}

#[tokio::test]
async fn does_not_adopt_finished_pods() {
    let env = TestEnv::new().await;
    env.pods().create(&PostParams::default(), &orphan("done", "web")).await.unwrap();
    let patch = r#"{"status":{"phase":"Succeeded"}}"#;
    env.kubectl(&["patch", "pod", "done", "--subresource=status", "--type=merge", "-p", patch])
        .await
        .unwrap();
    env.create("web", json!({"replicas": 1})).await;
    let names = env.until_ready("web", 1).await.status.unwrap().pod_names;
    assert_eq!(names, ["web-pod-1"]);
    assert_eq!(env.pods().get("done").await.unwrap().owner_references(), []);
}

#[tokio::test]
async fn deletes_surplus_pods_after_adoption() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 2})).await;
    env.until_ready("web", 2).await;
    for name in ["extra-1", "extra-2", "extra-3"] {
        env.pods().create(&PostParams::default(), &orphan(name, "web")).await.unwrap();
    }
    eventually("two adopted Pods to remain", TIMEOUT, async || {
        let requests = env.harness.requests_in(&env.namespace)?;
        let adopted = requests.filter(|entry| entry.verb == "patch" && entry.resource == "pods").entries;
        let names = env.pod_names().await;
        Ok(if names.len() == 2 && adopted.len() >= 3 { Ok(()) } else { Err(names) })
    })
    .await
    .unwrap();
    env.until_ready("web", 2).await;
}

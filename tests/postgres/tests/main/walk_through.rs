//! The walk-through of the workshop from which the API comes.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use postgres::PostgresCluster;

use crate::support::{TestEnv, members, names, status};

/// The manifest of the workshop. The last line keeps its Pods from the simulated nodes.
const SAMPLE: &str =
    concat!(include_str!("example-postgres-cluster.yaml"), "\n  nodeSelector: {processes: 'true'}\n");
const NAME: &str = "example-postgresql-cluster";

impl TestEnv {
    /// Runs kubectl with a manifest.
    async fn with_manifest(&self, verb: &str, manifest: &str) {
        let dir = std::env::temp_dir().join(format!("{}-{verb}.yaml", self.namespace.name()));
        std::fs::write(&dir, manifest).unwrap();
        self.kubectl(&[verb, "--filename", dir.to_str().unwrap()]).await.unwrap();
        std::fs::remove_file(dir).unwrap();
    }

    /// Waits until the Service selects this number of ready Pods. The API server accepts no loopback
    /// addresses for a Service.
    async fn until_selected(&mut self, service: &str, count: usize) {
        let (services, pods) = (self.api::<Service>(), self.api::<Pod>());
        self.eventually(&format!("{service} to select {count} Pods"), async || {
            let selector =
                services.get(service).await?.spec.and_then(|spec| spec.selector).unwrap_or_default();
            let labels: Vec<_> = selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let found = pods.list(&ListParams::default().labels(&labels.join(","))).await?;
            let ready = found.iter().filter(|pod| is_pod_ready(pod)).count();
            Ok(if ready == count { Ok(()) } else { Err(ready) })
        })
        .await;
    }
}

fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[tokio::test]
async fn walk_through_of_the_workshop_works() {
    let mut env = TestEnv::new().await;
    let discovery = env.kubectl(&["get", "--raw", "/apis/lukeb0nd.com/v1"]).await.unwrap();
    let discovery: serde_json::Value = serde_json::from_str(&discovery).unwrap();
    let resources = discovery["resources"].as_array().unwrap();
    let kind = resources.iter().find(|resource| resource["name"] == "postgresclusters").unwrap();
    assert_eq!(
        kind["verbs"],
        serde_json::json!([
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch"
        ])
    );

    env.with_manifest("create", SAMPLE).await;
    let cluster = env.until_ready(NAME, 3).await;
    assert_eq!(members(&cluster), [1, 2, 3].map(|serial| format!("{NAME}-{serial}")));
    assert_eq!(status(&cluster).primary.current, format!("{NAME}-1"));
    env.event(NAME, "SeedLaunched", &format!("{NAME}-1 creates the database")).await;
    env.event(NAME, "MemberJoined", &format!("{NAME}-3 has joined the cluster")).await;
    for (service, count) in [("rw", 1), ("ro", 2), ("r", 3), ("pods", 3)] {
        env.until_selected(&format!("{NAME}-{service}"), count).await;
    }
    env.until_condition(NAME, "VersionSupported", ("False", "EndOfLife")).await;

    env.with_manifest("replace", &SAMPLE.replace("size: 3", "size: 5")).await;
    env.until_ready(NAME, 5).await;
    assert_eq!(env.pods(NAME).await.len(), 5);

    // A lost member returns on its volume.
    for member in [2, 1].map(|serial| format!("{NAME}-{serial}")) {
        let uid = env.api::<Pod>().get(&member).await.unwrap().uid();
        let volume = env.api::<PersistentVolumeClaim>().get(&member).await.unwrap().uid();
        env.kubectl(&["delete", "pod", &member, "--wait=false"]).await.unwrap();
        env.until(&member, "the Pod to be replaced", |pod: &Pod| pod.uid() != uid).await;
        env.until_ready(NAME, 5).await;
        assert_eq!(env.api::<PersistentVolumeClaim>().get(&member).await.unwrap().uid(), volume);
    }

    env.kubectl(&["scale", "postgrescluster", NAME, "--replicas=2"]).await.unwrap();
    let cluster = env.until_ready(NAME, 2).await;
    let primary = status(&cluster).primary.current;
    assert!(members(&cluster).contains(&primary), "the primary stays");
    assert_eq!(env.volumes(NAME).await.len(), 5, "volumes stay");

    env.kubectl(&["delete", "postgrescluster", NAME]).await.unwrap();
    env.until_no_pods(NAME).await;
    assert_eq!(env.volumes(NAME).await.len(), 5, "volumes stay");
}

#[tokio::test]
async fn members_join_one_after_the_other() {
    let mut env = TestEnv::new().await;
    env.ready("db", 3).await;
    let requests = env.harness.requests_in(&env.namespace).unwrap().entries;
    let writes = requests.iter().filter(|entry| entry.verb == "create");
    let members: Vec<_> = writes
        .filter(|entry| ["pods", "persistentvolumeclaims"].contains(&entry.resource.as_ref()))
        .map(|entry| (&*entry.resource, &*entry.name))
        .collect();
    let expected = ["db-1", "db-2", "db-3"]
        .into_iter()
        .flat_map(|name| [("persistentvolumeclaims", name), ("pods", name)]);
    assert_eq!(members, expected.collect::<Vec<_>>());
    let pods = env.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let ready = |name: &str| {
        let pod = pods.iter().find(|pod| pod.name_any() == name).unwrap();
        let conditions = pod.status.clone().unwrap().conditions.unwrap();
        conditions.into_iter().find(|one| one.type_ == "Ready").unwrap().last_transition_time.unwrap().0
    };
    for (before, after) in [("db-1", "db-2"), ("db-2", "db-3")] {
        let created =
            pods.iter().find(|pod| pod.name_any() == after).unwrap().creation_timestamp().unwrap().0;
        assert!(ready(before) <= created, "{after} was created before {before} was ready");
    }
}

#[tokio::test]
async fn kubectl_get_prints_columns_for_short_name() {
    let mut env = TestEnv::new().await;
    env.ready("db", 1).await;
    let table = env.kubectl(&["get", "pgc", "db"]).await.unwrap();
    let words: Vec<_> = table.split_whitespace().collect();
    assert_eq!(&words[..7], ["NAME", "SIZE", "READY", "PRIMARY", "VERSION", "PHASE", "AGE"]);
    assert_eq!(&words[7..11], ["db", "1", "1", "db-1"]);
    assert_eq!(words[12], "Running");
}

#[tokio::test]
async fn surplus_volumes_are_deleted_if_the_spec_says_so() {
    let mut env = TestEnv::new().await;
    env.create("db", serde_json::json!({"size": 3, "retention": {"whenScaled": "Delete"}})).await;
    env.until_ready("db", 3).await;
    env.change("db", serde_json::json!({"size": 1})).await;
    env.until_ready("db", 1).await;
    let volumes = env.api::<PersistentVolumeClaim>();
    env.eventually("the volumes to be deleted", async || {
        let volumes = names(&volumes, "db").await;
        Ok(if volumes == ["db-1"] { Ok(()) } else { Err(volumes) })
    })
    .await;
    // The number of a removed member is not used again.
    env.change("db", serde_json::json!({"size": 2})).await;
    assert_eq!(members(&env.until_ready("db", 2).await), ["db-1", "db-4"]);
}

#[tokio::test]
async fn paused_cluster_is_only_watched() {
    let mut env = TestEnv::new().await;
    env.ready("db", 2).await;
    env.change("db", serde_json::json!({"paused": true})).await;
    env.until("db", "the pause to be observed", |cluster: &PostgresCluster| status(cluster).control_paused)
        .await;
    let pods: Api<Pod> = env.api();
    pods.delete("db-2", &DeleteParams::default().grace_period(0)).await.unwrap();
    env.until_condition("db", "Ready", ("False", "PodsNotReady")).await;
    assert_eq!(env.pods("db").await, ["db-1"]);
    env.change("db", serde_json::json!({"paused": false})).await;
    env.until_ready("db", 2).await;
}

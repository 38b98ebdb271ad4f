//! Installation with Helm and kustomize, upgrade, and removal, as the documentation describes them.
//!
//! The definitions belong to the whole cluster, so each test has a cluster of its own.

use std::{fs, path::Path};

use ::manager::NAMESPACE as MANAGER;
use cluster::{Cluster, Options, program::workspace, wait::eventually};
use serde_json::json;
use tokio::{
    process::Command,
    sync::{Mutex, MutexGuard},
};

use crate::support::{PATIENCE, image};

/// A PodSet and a Memcached.
const OBJECTS: &str = "
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  template:
    spec:
      containers: [{name: nginx, image: 'nginx:1.27', readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}}]
---
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache, namespace: default}
spec: {size: 1}
";

/// One such cluster runs at a time, because the kernel limits what all nodes of a machine can watch.
static ONE: Mutex<()> = Mutex::const_new(());

/// A cluster with one real node that has the image.
struct OwnCluster {
    cluster: Cluster,
    _one: MutexGuard<'static, ()>,
}

impl OwnCluster {
    async fn start() -> Self {
        let one = ONE.lock().await;
        let options = Options { nodes: 0, real_nodes: 1, ..Options::default() };
        let cluster = Cluster::start(options).await.unwrap();
        cluster.load_image(&image()).unwrap();
        Self { cluster, _one: one }
    }

    async fn kubectl(&self, line: &str) -> anyhow::Result<String> {
        self.cluster.kubectl(&line.split(' ').collect::<Vec<_>>()).await
    }

    /// Runs Helm with these words. Returns all its output, as the error if it fails.
    async fn helm(&self, line: &str) -> Result<String, String> {
        let home = tempfile::tempdir().unwrap();
        let mut helm = Command::new(go_tools::HELM.locate().unwrap());
        helm.args(line.split(' ')).current_dir(workspace());
        helm.env_clear().env("HOME", home.path()).env("KUBECONFIG", self.cluster.kubeconfig());
        let output = helm.output().await.unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        if output.status.success() { Ok(text) } else { Err(format!("helm {line}: {text}")) }
    }

    /// Runs `helm test`.
    async fn helm_test(&self) -> Result<String, String> {
        self.helm(&format!("test ensemble --namespace {MANAGER} --logs")).await
    }

    /// Checks that `helm test` fails, and that both it and the logs of its Pod contain all of these.
    async fn helm_test_fails(&self, expected: &[&str]) {
        let failure = self.helm_test().await.unwrap_err();
        let logs = self.kubectl(&format!("logs ensemble-check --namespace {MANAGER}")).await.unwrap();
        for expected in expected {
            assert!(failure.contains(expected) && logs.contains(expected), "{expected:?}: {failure}\n{logs}");
        }
    }

    /// Checks that `helm test` says why the manager does not work, and passes after the repair.
    async fn break_and_repair(&self) {
        let scale = format!("scale deployment ensemble-manager --namespace {MANAGER}");
        self.kubectl(&format!("{scale} --replicas=0")).await.unwrap();
        let managers = "app.kubernetes.io/component=manager";
        self.until(&format!("get pods --namespace {MANAGER} -l {managers} -o name"), "").await;
        self.helm_test_fails(&[&format!("no manager runs in namespace {MANAGER}")]).await;

        // The API server keeps connections to Pods, so the Service is broken before there are new ones.
        self.select("broken").await;
        self.kubectl(&format!("{scale} --replicas=2")).await.unwrap();
        self.rollout().await;
        let failure = "webhook tenants.tenant.ensemble does not review the dry run of a Tenant: ";
        self.helm_test_fails(&[failure, "failed calling webhook"]).await;

        self.select("manager").await;
        self.helm_test().await.unwrap();
        self.until("get clusterroles ensemble-check-tenant --ignore-not-found -o name", "").await;
    }

    /// Lets the Service of the webhooks select Pods of this component.
    async fn select(&self, component: &str) {
        let patch =
            json!({ "spec": { "selector": { "app.kubernetes.io/component": component } } }).to_string();
        let service = ["patch", "service", "ensemble-webhook", "--namespace", MANAGER, "--patch", &patch];
        self.cluster.kubectl(&service).await.unwrap();
    }

    async fn rollout(&self) {
        let status = format!("rollout status deployment/ensemble-manager -n {MANAGER} --timeout=120s");
        self.kubectl(&status).await.unwrap();
    }

    /// Waits until kubectl prints this.
    async fn until(&self, line: &str, expected: &str) {
        eventually(&format!("kubectl {line} to print {expected:?}"), PATIENCE, async || {
            let output = self.kubectl(line).await?;
            Ok(if output.trim() == expected { Ok(()) } else { Err(output) })
        })
        .await
        .unwrap();
    }

    /// Creates objects, and waits until their containers work.
    async fn create_objects(&self) {
        eventually("the definitions to be served", PATIENCE, async || {
            Ok(self.cluster.apply_yaml(OBJECTS).await.map_err(|error| format!("{error:#}")))
        })
        .await
        .unwrap();
        self.until("get podset web -o jsonpath={.status.readyReplicas}", "2").await;
        self.kubectl("wait --for=condition=Available memcached/cache --timeout=120s").await.unwrap();
    }

    /// Returns the UIDs of the Pods of the objects, and their restarts.
    async fn pods(&self) -> String {
        let pods = "{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount},{end}";
        self.cluster.kubectl(&["get", "pods", "-o", &format!("jsonpath={pods}")]).await.unwrap()
    }

    /// Checks that the manager acts on a change.
    async fn scale(&self, replicas: usize) {
        self.kubectl(&format!("scale podset web --replicas={replicas}")).await.unwrap();
        let ready = "get podset web -o jsonpath={.status.readyReplicas}";
        self.until(ready, &replicas.to_string()).await;
    }
}

#[tokio::test]
async fn helm_installs_upgrades_and_uninstalls() {
    let cluster = OwnCluster::start().await;
    let release = format!("ensemble deploy/helm/ensemble --namespace {MANAGER}");
    cluster.helm(&format!("install {release} --create-namespace")).await.unwrap();
    cluster.rollout().await;
    let logs = cluster.helm_test().await.unwrap();
    assert!(logs.contains("the installation works"), "{logs}");
    cluster.create_objects().await;

    let pods = cluster.pods().await;
    let values = "podAnnotations.team=platform,extraEnv[0].name=ENSEMBLE_CHECK_WAIT,extraEnv[0].value=5s";
    cluster.helm(&format!("upgrade {release} --reset-values --set {values}")).await.unwrap();
    cluster.rollout().await;
    assert_eq!(cluster.pods().await, pods, "an upgrade of the manager must not touch Pods");
    let annotated = format!(
        "get deployment ensemble-manager -n {MANAGER} -o jsonpath={{.spec.template.metadata.annotations.team}}"
    );
    assert_eq!(cluster.kubectl(&annotated).await.unwrap(), "platform");
    cluster.scale(3).await;
    cluster.break_and_repair().await;

    // The Job of the chart runs in a container, too.
    let pods = cluster.pods().await;
    cluster.helm(&format!("uninstall ensemble --namespace {MANAGER}")).await.unwrap();
    assert_eq!(cluster.kubectl("get memcached cache -o jsonpath={.metadata.finalizers}").await.unwrap(), "");
    assert_eq!(cluster.pods().await, pods, "the objects stay");
    cluster.kubectl("delete podset/web memcached/cache --timeout=60s").await.unwrap();
    cluster.until("get pods -o name", "").await;
    cluster.cluster.stop().unwrap();
}

#[tokio::test]
async fn kustomize_installs_upgrades_and_uninstalls() {
    let cluster = OwnCluster::start().await;
    cluster.kubectl(&apply(&workspace().join("deploy/overlays/subset"))).await.unwrap();
    cluster.rollout().await;
    cluster.create_objects().await;

    let pods = cluster.pods().await;
    let overlay = overlay();
    cluster.kubectl(&apply(overlay.path())).await.unwrap();
    cluster.rollout().await;
    let replicas = format!("get pods -n {MANAGER} -o jsonpath={{.items[*].metadata.annotations.team}}");
    cluster.until(&replicas, "platform").await;
    assert_eq!(cluster.pods().await, pods, "an upgrade of the manager must not touch Pods");
    cluster.scale(3).await;

    let deploy = workspace().join("deploy").display().to_string();
    cluster.kubectl(&format!("delete --ignore-not-found --filename {deploy}/crds")).await.unwrap();
    cluster.kubectl(&format!("delete namespace {MANAGER} --timeout=120s")).await.unwrap();
    let rest = format!("delete --ignore-not-found --filename {deploy}/rbac --filename {deploy}/webhooks");
    cluster.kubectl(&rest).await.unwrap();
    cluster.until("get pods -o name", "").await;
    let kinds = "customresourcedefinitions,clusterroles,clusterrolebindings,namespaces";
    cluster.until(&format!("get {kinds} -l app.kubernetes.io/part-of=ensemble -o name"), "").await;
    cluster.cluster.stop().unwrap();
}

/// Returns the words that apply an overlay.
fn apply(overlay: &Path) -> String {
    format!("apply --server-side -k {}", overlay.display())
}

/// Returns an overlay that changes another one. Kustomize accepts only relative paths of bases.
fn overlay() -> tempfile::TempDir {
    let overlay = tempfile::tempdir().unwrap();
    let depth = overlay.path().canonicalize().unwrap().components().count() - 1;
    let base = format!("{}{}", "../".repeat(depth), workspace().join("deploy/overlays/subset").display());
    let change = format!(
        "resources: ['{base}']\nreplicas: [{{name: ensemble-manager, count: 1}}]\n\
         commonAnnotations: {{team: platform}}\n"
    );
    fs::write(overlay.path().join("kustomization.yaml"), change).unwrap();
    overlay
}

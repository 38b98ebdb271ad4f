//! The part of the kubelets while Helm uninstalls: pods that go when their process has ended, and a Job that is what its process is.

use std::time::Duration;

use cluster::wait::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    deploy::{Deployed, Helm, RELEASE, Started},
    support::{Manager, PATIENCE, TestEnv},
};

/// Where the chart is installed.
pub(super) const PLATFORM: &str = "platform";
const WITHIN: &str = "--namespace=platform";
const MANAGERS: &str = "--selector=app.kubernetes.io/name=ensemble,app.kubernetes.io/component=manager";
const JOB: &str = "--selector=batch.kubernetes.io/job-name=ensemble-release";
/// What holds a pod for as long as its process runs.
const KUBELET: &str = "example.com/kubelet";
/// How long a process may take to end.
const GRACE: Duration = Duration::from_secs(30);

/// Keeps the pods of managers until [`let_pods_go`].
pub(super) async fn hold_pods(stage: &TestEnv) {
    set_finalizers(stage, &json!([KUBELET])).await;
}

pub(super) async fn let_pods_go(stage: &TestEnv) {
    set_finalizers(stage, &Value::Null).await;
}

async fn set_finalizers(stage: &TestEnv, finalizers: &Value) {
    let patch = json!({ "metadata": { "finalizers": finalizers } }).to_string();
    for pod in stage.names(&["pods", WITHIN, MANAGERS]).await {
        stage.kubectl(&["patch", "pod", &pod, WITHIN, "--type=merge", "--patch", &patch]).await.unwrap();
    }
}

/// Ends a manager as its kubelet does. Returns its log.
pub(super) async fn end(manager: Manager) -> String {
    manager.signal(Signal::TERM);
    let (end, log) = manager.until_exit(GRACE).await;
    assert!(end.contains("exit code 0"), "{end}");
    log
}

/// Starts `helm uninstall`.
pub(super) fn ask_helm(stage: &TestEnv) -> Started {
    Helm::with(stage.cluster.kubeconfig()).start(&["uninstall", RELEASE, WITHIN])
}

/// Uninstalls the release under managers that run. Helm's Job begins before they have ended. Holds all of them to success and
/// the Job to asking for nothing that it may not; returns what it has logged.
pub(super) async fn uninstall(stage: &TestEnv, managers: impl IntoIterator<Item = Manager>) -> String {
    hold_pods(stage).await;
    // Simulated nodes end the pods of Jobs at once, so this one gets none.
    stage.kubectl(&["cordon", "--selector=kubernetes.io/os=linux"]).await.unwrap();
    let helm = ask_helm(stage);
    let pod = until_the_job_has_a_pod(stage).await;
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let deployed = Deployed::of_job(PLATFORM, &name, pod);
    let release = Manager::new(deployed.launch(stage, &[]).await, 0);
    release.until_logged("waiting for managers to end").await;
    for manager in managers {
        end(manager).await;
    }
    let_pods_go(stage).await;
    let (end, log) = release.until_exit(GRACE).await;
    assert!(end.contains("exit code 0"), "{end}");
    deployed.assert_no_forbidden_requests(stage);

    let succeeded = json!({ "status": { "phase": "Succeeded" } }).to_string();
    let patch =
        ["patch", "pod", &name, WITHIN, "--subresource=status", "--type=merge", "--patch", &succeeded];
    stage.kubectl(&patch).await.unwrap();
    let told = helm.until_exit().await.unwrap();
    assert!(told.contains("release \"controllers\" uninstalled"), "{told}");
    stage.kubectl(&["uncordon", "--selector=kubernetes.io/os=linux"]).await.unwrap();
    log
}

async fn until_the_job_has_a_pod(stage: &TestEnv) -> Value {
    eventually("Helm's Job to have a pod", PATIENCE, async || {
        let pods = stage.read(&["get", "pods", WITHIN, JOB]).await;
        Ok(pods["items"].as_array().and_then(|pods| pods.first()).cloned())
    })
    .await
    .unwrap()
}

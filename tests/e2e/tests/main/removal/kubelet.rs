//! Simulation of the kubelet during `helm uninstall`: a Pod is gone when its process has ended, and
//! the Pod of the Job succeeds with its process.

use std::time::Duration;

use cluster::wait::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    deploy::{Deployed, Helm, HelmProcess, RELEASE},
    support::{Manager, PATIENCE, TestEnv},
};

/// Namespace of the chart.
pub(super) const PLATFORM: &str = "platform";
const WITHIN: &str = "--namespace=platform";
const MANAGERS: &str = "--selector=app.kubernetes.io/name=ensemble,app.kubernetes.io/component=manager";
const JOB: &str = "--selector=batch.kubernetes.io/job-name=ensemble-cleanup";
/// Finalizer of a Pod whose process runs.
const PROCESS_FINALIZER: &str = "example.com/kubelet";
/// Timeout for a process to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps the Pods of managers until [`finalize_pods`].
pub(super) async fn keep_pods(stage: &TestEnv) {
    set_finalizers(stage, &json!([PROCESS_FINALIZER])).await;
}

pub(super) async fn finalize_pods(stage: &TestEnv) {
    set_finalizers(stage, &Value::Null).await;
}

async fn set_finalizers(stage: &TestEnv, finalizers: &Value) {
    let patch = json!({ "metadata": { "finalizers": finalizers } }).to_string();
    for pod in stage.names(&["pods", WITHIN, MANAGERS]).await {
        stage.kubectl(&["patch", "pod", &pod, WITHIN, "--type=merge", "--patch", &patch]).await.unwrap();
    }
}

/// Stops a manager as the kubelet does. Returns its log.
pub(super) async fn stop(manager: Manager) -> String {
    manager.signal(Signal::TERM);
    let (end, log) = manager.until_exit(EXIT_TIMEOUT).await;
    assert!(end.contains("exit code 0"), "{end}");
    log
}

/// Starts `helm uninstall`.
pub(super) fn start_uninstall(stage: &TestEnv) -> HelmProcess {
    Helm::with(stage.cluster.kubeconfig()).start(&["uninstall", RELEASE, WITHIN])
}

/// Uninstalls the chart while managers run, so that the Job starts before they have ended. Asserts
/// that all processes succeed and that no request of the Job is forbidden. Returns the log of the
/// Job.
pub(super) async fn uninstall(stage: &TestEnv, managers: impl IntoIterator<Item = Manager>) -> String {
    keep_pods(stage).await;
    // A simulated node would complete the Pod of the Job immediately, so it must stay unscheduled.
    stage.kubectl(&["cordon", "--selector=kubernetes.io/os=linux"]).await.unwrap();
    let helm = start_uninstall(stage);
    let pod = wait_for_pod_of_job(stage).await;
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let deployed = Deployed::of_job(PLATFORM, &name, pod);
    let cleanup = Manager::new(deployed.launch(stage, &[]).await, 0);
    cleanup.until_logged("waiting for managers to stop").await;
    for manager in managers {
        stop(manager).await;
    }
    finalize_pods(stage).await;
    let (end, log) = cleanup.until_exit(EXIT_TIMEOUT).await;
    assert!(end.contains("exit code 0"), "{end}");
    deployed.assert_no_forbidden_requests(stage);

    let succeeded = json!({ "status": { "phase": "Succeeded" } }).to_string();
    let patch =
        ["patch", "pod", &name, WITHIN, "--subresource=status", "--type=merge", "--patch", &succeeded];
    stage.kubectl(&patch).await.unwrap();
    let output = helm.wait().await.unwrap();
    assert!(output.contains("release \"controllers\" uninstalled"), "{output}");
    stage.kubectl(&["uncordon", "--selector=kubernetes.io/os=linux"]).await.unwrap();
    log
}

async fn wait_for_pod_of_job(stage: &TestEnv) -> Value {
    eventually("the cleanup Job to have a Pod", PATIENCE, async || {
        let pods = stage.read(&["get", "pods", WITHIN, JOB]).await;
        Ok(pods["items"].as_array().and_then(|pods| pods.first()).cloned())
    })
    .await
    .unwrap()
}

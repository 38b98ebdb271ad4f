//! A Pod object that represents the manager, which runs as a process on this machine. It lets a
//! test delete the manager's namespace as if the manager ran in it.

use std::time::Duration;

use cluster::wait::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Manager, NAMESPACE, PATIENCE, TestEnv};

/// Finalizer that keeps the Pod while the manager runs.
const KUBELET: &str = "example.com/kubelet";
/// Time that the manager has to stop: a kubelet's default grace period.
const GRACE: Duration = Duration::from_secs(30);

impl TestEnv {
    /// Creates the Pod.
    pub(crate) async fn create_manager_pod(&self) {
        self.cluster.apply_yaml(&pod().to_string()).await.unwrap();
    }

    /// Deletes the manager's namespace and stops the manager when its Pod is deleted, as a kubelet
    /// does. Other objects of the namespace remain until the Pod is removed. Returns the manager's
    /// log.
    pub(crate) async fn delete_manager_namespace(&self, manager: Manager) -> String {
        self.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await.unwrap();
        eventually("the pod of the manager to be deleted", PATIENCE, async || {
            let pod = self.read(&["get", "pod", "manager", "--namespace", NAMESPACE]).await;
            Ok(pod["metadata"]["deletionTimestamp"].is_string())
        })
        .await
        .unwrap();
        manager.signal(Signal::TERM);
        let (end, log) = manager.until_exit(GRACE).await;
        assert!(end.contains("exit code 0"), "{end}");
        log
    }

    /// Removes the Pod of a manager that has stopped.
    pub(crate) async fn remove_manager_pod(&self) {
        let (pod, within) = (["pod", "manager"], ["--namespace", NAMESPACE]);
        let patch = json!({ "metadata": { "finalizers": null } }).to_string();
        let patch = [&["patch"], &pod[..], &within, &["--type=merge", "--patch", &patch]].concat();
        self.kubectl(&patch).await.unwrap();
        let delete = [&["delete"], &pod[..], &within, &["--wait=false", "--ignore-not-found"]].concat();
        self.kubectl(&delete).await.unwrap();
    }
}

fn pod() -> Value {
    let container = json!({
        "name": "manager", "image": "manager",
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "manager", "namespace": NAMESPACE, "finalizers": [KUBELET] },
        "spec": {
            // The namespace controller starts after 5 s and checks again after half of the
            // remaining grace period.
            "terminationGracePeriodSeconds": 7,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [container],
        },
    })
}

//! A pod that stands for the manager, which is no container here: its namespace is deleted as if the manager ran in it.

use std::time::Duration;

use cluster::wait::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Manager, NAMESPACE, PATIENCE, Stage};

/// What holds the pod for as long as the manager runs.
const KUBELET: &str = "example.com/kubelet";
/// How long the manager may take when it lets go: the time that a kubelet leaves by default.
const GRACE: Duration = Duration::from_secs(30);

impl Stage {
    /// Makes the pod.
    pub(crate) async fn stand_in(&self) {
        self.cluster.apply_yaml(&pod().to_string()).await.unwrap();
    }

    /// Deletes the manager's namespace, whose pods go first, and does as a kubelet when that of the manager is to go. Returns the
    /// manager's log. Everything else in the namespace stays until the pod is removed.
    pub(crate) async fn end_with_namespace(&self, manager: Manager) -> String {
        self.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await.unwrap();
        eventually("the pod of the manager to be deleted", PATIENCE, async || {
            let pod = self.read(&["get", "pod", "manager", "--namespace", NAMESPACE]).await;
            Ok(pod["metadata"]["deletionTimestamp"].is_string())
        })
        .await
        .unwrap();
        manager.signal(Signal::TERM);
        let (end, log) = manager.until_ended(GRACE).await;
        assert!(end.contains("exit code 0"), "{end}");
        log
    }

    /// Removes the pod of a manager that has ended.
    pub(crate) async fn remove_stand_in(&self) {
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
            // Not much longer than the 5 s after which a namespace begins to go: it looks again after half of the rest.
            "terminationGracePeriodSeconds": 7,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [container],
        },
    })
}

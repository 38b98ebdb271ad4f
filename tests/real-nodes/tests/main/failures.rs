//! Nodes that are cut off, lose a program, or lose power.

use cluster::real_nodes::NodeProgram;

use crate::support::{Exclusive, Kubectl, exclusive};

const NODE: &str = "worker-2";

impl Exclusive {
    /// Returns kubectl, with a Pod on the node that writes a file with the number of its starts.
    async fn with_pod(&self, prefix: &str) -> Kubectl {
        let kubectl = Kubectl::new(self.cluster, prefix).await;
        kubectl
            .apply(&format!(
                "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, namespace: NAMESPACE}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: pod, namespace: NAMESPACE}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {NODE}}}
  terminationGracePeriodSeconds: 0
  tolerations: [{{operator: Exists}}]
  containers:
    - name: pod
      image: busybox:1.36
      command: [sh, -c, 'echo started >> /data/starts; sleep 3600']
      volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]
"
            ))
            .await;
        kubectl.ready("pod").await;
        kubectl
    }
}

impl Kubectl {
    async fn node_is(&self, ready: &str) {
        let status =
            format!(r#"get node {NODE} -o jsonpath={{.status.conditions[?(@.type=="Ready")].status}}"#);
        self.until(&status, |status| status == ready).await;
    }

    async fn starts(&self) -> usize {
        self.exec("pod", "cat /data/starts").await.unwrap().lines().count()
    }

    /// Waits until the Pod has restarted once, on the volume that it had.
    async fn assert_restarted(&self) {
        let restarts = "get pod pod -o jsonpath={.status.containerStatuses[0].restartCount}";
        self.until(restarts, |count| count == "1").await;
        self.ready("pod").await;
        assert_eq!(self.starts().await, 2);
    }
}

#[tokio::test]
async fn cut_node_is_noticed_and_its_pods_go_on() {
    let exclusive = exclusive().await;
    let kubectl = exclusive.with_pod("cut").await;
    exclusive.cluster.cut_node(NODE).unwrap();
    kubectl.node_is("Unknown").await;
    exclusive.cluster.heal_node(NODE).unwrap();
    kubectl.node_is("True").await;
    kubectl.ready("pod").await;
    assert_eq!(kubectl.starts().await, 1);
    exclusive.repaired().await;
}

#[tokio::test]
async fn containers_go_on_without_kubelet() {
    let exclusive = exclusive().await;
    let kubectl = exclusive.with_pod("kubelet").await;
    exclusive.cluster.kill_on_node(NODE, NodeProgram::Kubelet).unwrap();
    kubectl.node_is("Unknown").await;
    exclusive.cluster.start_on_node(NODE, NodeProgram::Kubelet).unwrap();
    kubectl.node_is("True").await;
    kubectl.ready("pod").await;
    assert_eq!(kubectl.starts().await, 1);
    exclusive.repaired().await;
}

#[tokio::test]
async fn node_boots_right_after_a_power_loss() {
    let exclusive = exclusive().await;
    let kubectl = exclusive.with_pod("reboot").await;
    exclusive.cluster.power_off_node(NODE).unwrap();
    exclusive.cluster.power_on_node(NODE).unwrap();
    kubectl.assert_restarted().await;
    exclusive.repaired().await;
}

#[tokio::test]
async fn power_loss_restarts_pods_on_their_volumes() {
    let exclusive = exclusive().await;
    let kubectl = exclusive.with_pod("power").await;
    exclusive.cluster.power_off_node(NODE).unwrap();
    let error = exclusive.cluster.power_off_node(NODE).unwrap_err().to_string();
    assert!(error.contains("is off"), "{error}");
    kubectl.node_is("Unknown").await;
    exclusive.cluster.power_on_node(NODE).unwrap();
    kubectl.node_is("True").await;
    kubectl.assert_restarted().await;
    exclusive.repaired().await;
}

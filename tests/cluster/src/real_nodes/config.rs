//! Configuration files of the programs on a node. JSON is also YAML.

use std::path::Path;

use serde_json::{Value, json};

use crate::{addresses, cgroups};

const CONTAINERD: &str = include_str!("../../manifests/real-nodes/containerd.toml");

/// Returns the configuration of the API server's egress selector, which connects through `proxy`.
pub(super) fn egress_selector(proxy: &Path) -> Value {
    json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{
            "name": "cluster",
            "connection": {
                "proxyProtocol": "HTTPConnect",
                "transport": { "uds": { "udsName": proxy } },
            },
        }],
    })
}

/// Returns the configuration of the kubelet.
pub(super) fn kubelet(cluster: &str, node: &str, ca: &Path, resolv_conf: &Path) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": ca },
        },
        "authorization": { "mode": "Webhook" },
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups::kubelet_root(cluster, node),
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "failSwapOn": false,
        // A container may not lower it.
        "oomScoreAdj": 0,
        "localStorageCapacityIsolation": false,
        "clusterDNS": [addresses::DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": resolv_conf,
        "imageGCHighThresholdPercent": 100,
        // One unknown image would delay all others of the node.
        "serializeImagePulls": false,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
        // Waits of tests are shorter than the default of a minute.
        "syncFrequency": "10s",
    })
}

/// Returns the configuration of kube-proxy.
pub(super) fn kube_proxy(node: &str, kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": addresses::PODS,
        "hostnameOverride": node,
        "clientConnection": { "kubeconfig": kubeconfig },
        // Other values are settings of the whole machine.
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    })
}

/// Returns the list of CNI plugins. `ptp` routes the packets of Pods, so that network policies see
/// those between Pods of one node as well.
pub(super) fn cni(index: usize) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": addresses::pods(index) }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                    "dataDir": "/run/cni-ipam",
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

/// Returns the configuration of containerd. `registries` is the directory of [`registry`].
pub(super) fn containerd(cni_plugins: &Path, registries: &Path) -> String {
    CONTAINERD
        .replace("{cni_plugins}", &cni_plugins.display().to_string())
        .replace("{registries}", &registries.display().to_string())
}

/// Returns `_default/hosts.toml`: all images come from the registry in the switch.
pub(super) fn registry() -> String {
    let url = format!("http://{}:{}", addresses::SWITCH, addresses::REGISTRY_PORT);
    format!("server = \"{url}\"\n\n[host.\"{url}\"]\ncapabilities = [\"pull\", \"resolve\"]\n")
}

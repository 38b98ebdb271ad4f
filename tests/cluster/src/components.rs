//! Components of a control plane and their command lines.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Options;
use crate::addresses::SIMULATED_PODS;
use crate::ports::Ports;
use crate::release::Release;
use crate::snapshot;

/// A component of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// Stores the objects.
    Etcd,
    /// Serves the API.
    KubeApiserver,
    /// Runs the controllers for namespaces, ServiceAccounts, quotas, garbage collection, and
    /// workloads.
    KubeControllerManager,
    /// Binds pods to nodes.
    KubeScheduler,
    /// Simulates nodes and their kubelets.
    Kwok,
}

impl Component {
    /// Order in which components stop: clients first, then the API server, then etcd. An API server
    /// hangs without its etcd.
    pub(crate) const STOP_ORDER: [Self; 5] =
        [Self::KubeScheduler, Self::KubeControllerManager, Self::Kwok, Self::KubeApiserver, Self::Etcd];

    /// Returns the name of the binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Paths of the files in a cluster's directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    dir: PathBuf,
}

impl Layout {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.path("pki")
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.path("audit.log")
    }

    /// Returns the path of the tokens of users.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.path("tokens.csv")
    }

    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.path(&format!("{component}.log"))
    }

    /// Returns the path of the administrator's kubeconfig. The administrator is in
    /// `system:masters`.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    pub(crate) fn kubeconfig_of(&self, component: Component) -> PathBuf {
        self.path(&format!("{component}.kubeconfig"))
    }

    fn flag(&self, flag: &str, file: &str) -> String {
        format!("--{flag}={}", self.path(file).display())
    }
}

/// Returns the command-line arguments of `component`.
pub(crate) fn arguments(
    component: Component,
    layout: &Layout,
    ports: Ports,
    options: &Options,
    release: Release,
) -> Vec<String> {
    match component {
        Component::Etcd => etcd(layout, ports),
        Component::KubeApiserver => {
            let mut arguments = api_server(layout, ports);
            arguments.extend(release.emulation_argument());
            if options.real_nodes > 0 {
                arguments.extend(api_server_with_real_nodes(layout));
            }
            arguments.extend(options.api_server_args.iter().cloned());
            arguments
        }
        Component::KubeControllerManager => {
            let mut arguments = controller_manager(layout, ports);
            arguments.extend(release.emulation_argument());
            if options.real_nodes > 0 {
                // A node that does not answer is noticed after ten seconds. The default is 50 s.
                arguments.extend(
                    ["--node-monitor-period=1s", "--node-monitor-grace-period=10s"].map(str::to_owned),
                );
            }
            arguments.extend(options.controller_manager_args.iter().cloned());
            arguments
        }
        Component::KubeScheduler => {
            let mut arguments = scheduler(layout, ports);
            arguments.extend(release.emulation_argument());
            arguments
        }
        Component::Kwok => kwok(layout, options.real_nodes > 0),
    }
}

fn etcd(layout: &Layout, ports: Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    vec![
        layout.flag("data-dir", snapshot::DATA),
        "--name=etcd".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=etcd={peer}"),
        // The data is discarded when the cluster stops.
        "--unsafe-no-fsync=true".to_owned(),
        // Enough for benchmarks with 100,000 pods. The default is 2 GiB.
        "--quota-backend-bytes=8589934592".to_owned(),
        "--auto-compaction-mode=periodic".to_owned(),
        "--auto-compaction-retention=30m".to_owned(),
    ]
}

fn api_server(layout: &Layout, ports: Ports) -> Vec<String> {
    let mut arguments = serving_flags(ports.api_server);
    arguments.extend([
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--advertise-address=127.0.0.1".to_owned(),
        // No client uses the API server's Service. 127.0.0.1 is not a valid endpoint address.
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement,PodNodeSelector"
            .to_owned(),
        layout.flag("tls-cert-file", "pki/apiserver.crt"),
        layout.flag("tls-private-key-file", "pki/apiserver.key"),
        layout.flag("client-ca-file", "pki/ca.crt"),
        layout.flag("token-auth-file", "tokens.csv"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        layout.flag("service-account-key-file", "pki/service-account.pub"),
        layout.flag("service-account-signing-key-file", "pki/service-account.key"),
        layout.flag("requestheader-client-ca-file", "pki/front-proxy-ca.crt"),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        layout.flag("proxy-client-cert-file", "pki/front-proxy-client.crt"),
        layout.flag("proxy-client-key-file", "pki/front-proxy-client.key"),
        layout.flag("audit-policy-file", "audit-policy.yaml"),
        layout.flag("audit-log-path", "audit.log"),
        // A test may need the first entries, so the log must not rotate.
        "--audit-log-maxsize=4096".to_owned(),
    ]);
    arguments
}

/// Connections to kubelets and Pods go through the proxy in the switch. The API server resolves
/// Services to Pods itself, because the switch has no kube-proxy.
fn api_server_with_real_nodes(layout: &Layout) -> Vec<String> {
    vec![
        layout.flag("kubelet-client-certificate", "pki/kubelet-client.crt"),
        layout.flag("kubelet-client-key", "pki/kubelet-client.key"),
        layout.flag("egress-selector-config-file", "egress-selector.json"),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--enable-aggregator-routing=true".to_owned(),
    ]
}

fn controller_manager(layout: &Layout, ports: Ports) -> Vec<String> {
    let mut arguments = serving_flags(ports.controller_manager);
    arguments.extend(client_flags(layout, Component::KubeControllerManager));
    arguments.extend([
        layout.flag("root-ca-file", "pki/ca.crt"),
        layout.flag("service-account-private-key-file", "pki/service-account.key"),
        layout.flag("cluster-signing-cert-file", "pki/ca.crt"),
        layout.flag("cluster-signing-key-file", "pki/ca.key"),
        "--use-service-account-credentials=true".to_owned(),
        // With the default limits, its controllers wait for seconds to get their own tokens.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
        // The default is 15 s. An autoscaler has no effect before the first sync.
        "--horizontal-pod-autoscaler-sync-period=2s".to_owned(),
    ]);
    arguments
}

fn scheduler(layout: &Layout, ports: Ports) -> Vec<String> {
    let mut arguments = serving_flags(ports.scheduler);
    arguments.extend(client_flags(layout, Component::KubeScheduler));
    arguments.extend(["--kube-api-qps=1000".to_owned(), "--kube-api-burst=2000".to_owned()]);
    arguments
}

fn kwok(layout: &Layout, beside_real_nodes: bool) -> Vec<String> {
    let (nodes, pods) = if beside_real_nodes {
        ("--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", SIMULATED_PODS)
    } else {
        ("--manage-all-nodes=true", "10.244.0.1/16")
    };
    vec![
        format!("--kubeconfig={}", layout.kubeconfig_of(Component::Kwok).display()),
        layout.flag("config", "kwok-stages.yaml"),
        nodes.to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
        format!("--cidr={pods}"),
        "--node-ip=127.0.0.1".to_owned(),
        // Port 0 disables kwok's server, which would listen on all addresses.
        "--node-port=0".to_owned(),
    ]
}

/// Returns the serving flags of the Kubernetes components.
fn serving_flags(port: u16) -> Vec<String> {
    vec!["--bind-address=127.0.0.1".to_owned(), format!("--secure-port={port}")]
}

fn client_flags(layout: &Layout, component: Component) -> Vec<String> {
    let kubeconfig = layout.kubeconfig_of(component);
    let mut arguments: Vec<_> = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
        .map(|flag| format!("--{flag}={}", kubeconfig.display()))
        .into();
    arguments.push("--leader-elect=false".to_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { etcd: 1, etcd_peer: 2, api_server: 3, controller_manager: 4, scheduler: 5 };

    fn all_arguments(options: &Options) -> Vec<(Component, Vec<String>)> {
        arguments_of(options, Release::default())
    }

    fn arguments_of(options: &Options, release: Release) -> Vec<(Component, Vec<String>)> {
        let layout = Layout::new(Path::new("/state/x"));
        Component::STOP_ORDER
            .map(|component| (component, arguments(component, &layout, PORTS, options, release)))
            .into()
    }

    #[test]
    fn components_of_kubernetes_emulate_a_version() {
        let emulating = |version: &str| {
            let all = arguments_of(&Options::default(), version.parse().unwrap());
            let flag = |arguments: &[String]| arguments.iter().any(|one| one == "--emulated-version=1.33");
            all.iter().filter(|(_, arguments)| flag(arguments)).count()
        };
        assert_eq!((emulating("emulated-1.33"), emulating("1.33")), (3, 0));
    }

    #[test]
    fn every_command_line_contains_the_directory() {
        for (component, arguments) in all_arguments(&Options::default()) {
            assert!(arguments.iter().any(|argument| argument.contains("/state/x/")), "{component}");
        }
    }

    #[test]
    fn all_components_listen_on_localhost() {
        for (component, arguments) in all_arguments(&Options::default()) {
            let local = arguments.iter().any(|argument| argument.contains("127.0.0.1"));
            assert!(local && !arguments.iter().any(|argument| argument.contains("0.0.0.0")), "{component}");
        }
    }

    #[test]
    fn extra_arguments_override_defaults() {
        let options = Options { api_server_args: vec!["--v=4".to_owned()], ..Options::default() };
        let (_, arguments) = all_arguments(&options)
            .into_iter()
            .find(|(component, _)| *component == Component::KubeApiserver)
            .unwrap();
        assert_eq!(arguments.last().unwrap(), "--v=4");
    }
}

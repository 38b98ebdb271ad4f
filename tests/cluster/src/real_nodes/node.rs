//! One node: its namespaces, containerd, kubelet, and kube-proxy.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::config;
use super::namespaces::Namespaces;
use super::requirements::cni_plugins;
use super::switch::Switch;
use crate::kubeconfig::{self, Credential};
use crate::lifeline::Lifeline;
use crate::pki::{Authority, write_private};
use crate::private_dir::private_dir;
use crate::process::Process;
use crate::{addresses, cgroups};

const INIT: &str = include_str!("../../manifests/real-nodes/node-init.sh");
const CONTAINERD_PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Time that a program has to stop after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Joins the cgroups of the node, and runs a program in its namespaces. The arguments are the files
/// of the cgroups up to `--`, and then those of `nsenter`.
const ENTER: &str = r#"
while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done
shift
exec nsenter "$@"
"#;

/// Runs a program until it succeeds, for at least 30 s, as the service manager of a machine does.
///
/// The kubelet fails while containerd restores its state after a power loss. containerd fails if what its
/// killed predecessor left is not complete.
const RESTART: &str = r#"
tries=0
until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 150 ] || exit 1
    sleep 0.2
done
"#;

/// A program of a node that can be killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeProgram {
    /// Runs containers.
    Containerd,
    /// Runs the Pods of the node.
    Kubelet,
    /// Implements Services.
    KubeProxy,
}

impl NodeProgram {
    fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }
}

/// What all nodes of a cluster share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// Directory of the cluster.
    pub(super) cluster_dir: PathBuf,
    /// Parent of the cluster's cgroups.
    pub(super) cgroup: String,
    /// Directory of the kubelet and kube-proxy.
    pub(super) binaries: PathBuf,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    shared: Shared,
    index: usize,
    name: String,
    namespaces: Option<Namespaces>,
    programs: Vec<(NodeProgram, Process)>,
}

impl Node {
    /// Writes the files of a node. Starts nothing.
    pub(super) fn prepare(shared: Shared, index: usize, authority: &Authority) -> Result<Self> {
        let node =
            Self { name: format!("worker-{index}"), index, shared, namespaces: None, programs: Vec::new() };
        let dir = node.dir();
        for sub in ["", "cgroups", "lib", "log", "registries", "registries/_default"] {
            private_dir(&dir.join(sub))?;
        }
        let plugins = cni_plugins().context("the CNI plugins have been removed")?;
        let ca = node.shared.cluster_dir.join("pki/ca.crt");
        let kubelet = config::kubelet(&node.shared.cgroup, &node.name, &ca, &dir.join("resolv.conf"));
        let proxy = config::kube_proxy(&node.name, &dir.join("kube-proxy.kubeconfig"));
        for (file, text) in [
            ("init.sh", INIT.to_owned()),
            // Nobody resolves names for a node.
            ("resolv.conf", "nameserver 127.0.0.1\n".to_owned()),
            ("kubelet.json", kubelet.to_string()),
            ("kube-proxy.json", proxy.to_string()),
            ("cni.conflist", config::cni(index).to_string()),
            ("containerd.toml", config::containerd(&plugins, &dir.join("registries"))),
            ("registries/_default/hosts.toml", config::registry()),
        ] {
            write_private(&dir.join(file), &text)?;
        }
        let server = format!("https://{}:{}", addresses::SWITCH, addresses::API_SERVER_PORT);
        for (file, user, groups) in [
            ("kubelet.kubeconfig", format!("system:node:{}", node.name), &["system:nodes"][..]),
            ("kube-proxy.kubeconfig", "system:kube-proxy".to_owned(), &[]),
        ] {
            let issued = authority.client(&user, groups)?;
            let credential = Credential::Certificate(&issued);
            kubeconfig::write(&dir.join(file), &user, &server, &authority.certificate(), &credential)?;
        }
        Ok(node)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the node's interface in the switch.
    pub(super) fn interface(&self) -> String {
        format!("node{}", self.index)
    }

    /// Returns the ID of the node's first process.
    pub(super) fn init(&self) -> Result<u32> {
        let namespaces =
            self.namespaces.as_ref().with_context(|| format!("the node {} is off", self.name))?;
        Ok(namespaces.init())
    }

    /// Creates the namespaces, connects the node, and starts containerd. Does not wait for
    /// containerd, see [`Node::join`].
    ///
    /// # Errors
    /// Returns an error if the node is on.
    pub(super) fn boot(&mut self, switch: &Switch, lifeline: &Lifeline) -> Result<()> {
        if self.namespaces.is_some() {
            bail!("cannot boot the node {}: it is on", self.name);
        }
        let dir = self.dir();
        // The cgroups of containers from before a power loss would delay the kubelet.
        cgroups::remove(&self.shared.cgroup, Some(&self.name))?;
        let namespaces = Namespaces::create(
            &self.name,
            &["--uts", "--ipc"],
            &dir.join("init.sh"),
            &[&dir.display().to_string(), &self.name],
            &dir.join("booted"),
            &dir.join("log/init.log"),
            lifeline,
        )?;
        switch.connect(&self.interface(), namespaces.init())?;
        namespaces.run(&["ip", "-batch", "-"], &network(self.index))?;
        self.namespaces = Some(namespaces);
        self.start(NodeProgram::Containerd, lifeline)
    }

    /// Waits for containerd, and starts the kubelet and kube-proxy. The API server must be ready.
    pub(super) fn join(&mut self, lifeline: &Lifeline) -> Result<()> {
        self.wait_for_containerd()?;
        self.start(NodeProgram::Kubelet, lifeline)?;
        self.start(NodeProgram::KubeProxy, lifeline)
    }

    fn wait_for_containerd(&mut self) -> Result<()> {
        let socket = format!("/proc/{}/root/run/containerd/containerd.sock", self.init()?);
        let start = Instant::now();
        while !Path::new(&socket).exists() {
            self.ensure_running()?;
            if start.elapsed() > CONTAINERD_PATIENCE {
                bail!(
                    "containerd on {} was not ready after {} s; its log is {}",
                    self.name,
                    CONTAINERD_PATIENCE.as_secs(),
                    self.log(NodeProgram::Containerd).display()
                );
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Starts a program of the node.
    ///
    /// # Errors
    /// Returns an error if the program runs, or the node is off.
    pub(super) fn start(&mut self, program: NodeProgram, lifeline: &Lifeline) -> Result<()> {
        if self.programs.iter().any(|(running, _)| *running == program) {
            bail!("cannot start {} on {}: it runs already", program.name(), self.name);
        }
        let arguments = self.arguments(program)?;
        let name = format!("{} on {}", program.name(), self.name);
        let process =
            Process::start(&name, Path::new("/bin/sh"), &arguments, &[], self.log(program), lifeline)?;
        self.programs.push((program, process));
        Ok(())
    }

    /// Kills a program of the node. Containers go on running.
    ///
    /// # Errors
    /// Returns an error if the program does not run.
    pub(super) fn kill(&mut self, program: NodeProgram, lifeline: &Lifeline) -> Result<()> {
        let running = self.programs.iter().position(|(running, _)| *running == program);
        let position = running
            .with_context(|| format!("cannot kill {} on {}: it does not run", program.name(), self.name))?;
        self.programs.remove(position).1.kill(lifeline)
    }

    /// Ends everything on the node at once, as a power loss does.
    ///
    /// # Errors
    /// Returns an error if the node is off.
    pub(super) fn power_off(&mut self, lifeline: &Lifeline) -> Result<()> {
        let namespaces = self.namespaces.take().with_context(|| format!("the node {} is off", self.name))?;
        namespaces.kill(lifeline)?;
        self.programs.drain(..).try_for_each(|(_, process)| process.stop(STOP_PATIENCE, lifeline))
    }

    pub(super) fn ensure_running(&mut self) -> Result<()> {
        if let Some(namespaces) = &mut self.namespaces {
            namespaces.ensure_running()?;
        }
        self.programs.iter_mut().try_for_each(|(_, process)| process.ensure_running())
    }

    /// Waits for processes that the lifeline has killed.
    pub(super) fn reap(&mut self) {
        self.programs.iter_mut().for_each(|(_, process)| process.reap());
        if let Some(namespaces) = &mut self.namespaces {
            namespaces.reap();
        }
    }

    fn dir(&self) -> PathBuf {
        self.shared.cluster_dir.join("nodes").join(&self.name)
    }

    fn log(&self, program: NodeProgram) -> PathBuf {
        self.dir().join("log").join(format!("{}.log", program.name()))
    }

    /// Returns the arguments of `sh` that run a program on the node.
    fn arguments(&self, program: NodeProgram) -> Result<Vec<String>> {
        let mut arguments = vec!["-c".to_owned(), ENTER.to_owned(), "ensemble-node".to_owned()];
        for procs in cgroups::create(&self.shared.cgroup, &self.name)? {
            arguments.push(procs.display().to_string());
        }
        arguments.extend(["--", "-m", "-n", "-p", "-u", "-i", "-t"].map(str::to_owned));
        arguments.push(self.init()?.to_string());
        arguments.push("--".to_owned());
        arguments.extend(self.command(program));
        Ok(arguments)
    }

    /// Returns the command line of a program. All paths are absolute: `nsenter` changes the working
    /// directory.
    fn command(&self, program: NodeProgram) -> Vec<String> {
        let dir = self.dir();
        let flag = |name: &str, file: &str| format!("--{name}={}", dir.join(file).display());
        let binary = self.shared.binaries.join(program.name()).display().to_string();
        match program {
            NodeProgram::Containerd => {
                restarted(vec!["containerd".to_owned(), flag("config", "containerd.toml")])
            }
            NodeProgram::Kubelet => restarted(vec![
                binary,
                flag("config", "kubelet.json"),
                flag("kubeconfig", "kubelet.kubeconfig"),
                format!("--hostname-override={}", self.name),
                format!("--node-ip={}", addresses::node(self.index)),
                "--root-dir=/var/lib/kubelet".to_owned(),
                format!("--node-labels=topology.kubernetes.io/zone={}", crate::nodes::zone(self.index)),
            ]),
            NodeProgram::KubeProxy => vec![binary, flag("config", "kube-proxy.json")],
        }
    }
}

/// Returns the command line that runs a program with [`RESTART`].
fn restarted(command: Vec<String>) -> Vec<String> {
    let shell = ["/bin/sh", "-c", RESTART, "restarted"].map(str::to_owned);
    shell.into_iter().chain(command).collect()
}

/// Returns the commands of `ip` that set up the network of a node.
fn network(index: usize) -> String {
    let mut commands = String::from("link set lo up\n");
    let _ = writeln!(commands, "addr add {}/24 dev eth0", addresses::node(index));
    let _ = writeln!(commands, "link set eth0 up");
    let _ = writeln!(commands, "route add default via {}", addresses::SWITCH);
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_fails_is_restarted() {
        let dir = tempfile::tempdir().unwrap();
        let starts = dir.path().join("starts");
        let program = format!("echo started >> {0}; [ $(wc -l < {0}) = 3 ]", starts.display());
        let status = std::process::Command::new("/bin/sh")
            .args(&restarted(["/bin/sh", "-c", &program].map(str::to_owned).to_vec())[1..])
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(std::fs::read_to_string(starts).unwrap().lines().count(), 3);
    }

    #[test]
    fn nodes_route_through_the_switch() {
        assert_eq!(
            network(1),
            "link set lo up\naddr add 10.89.0.12/24 dev eth0\nlink set eth0 up\nroute add default via 10.89.0.1\n"
        );
    }
}

//! Nodes and Pods in network namespaces.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, which exists until it is dropped, or this process ends.
pub(crate) struct NetworkNamespace {
    /// Holds the namespace until its standard input is closed.
    process: Child,
}

impl NetworkNamespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        let process = command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut process = process.expect("cannot run unshare; install util-linux");
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        while fs::read_link(link(&process)).is_ok_and(|link| link == own) {
            let ended = process.try_wait().unwrap();
            assert!(ended.is_none(), "cannot create a network namespace; run this test as root");
            thread::sleep(Duration::from_millis(1));
        }
        let namespace = Self { process };
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs a function on a thread in this namespace.
    pub(crate) fn run<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        let link = fs::File::open(link(&self.process)).unwrap();
        let run = || {
            move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("cannot enter a network namespace; run this test as root");
            function()
        };
        thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    /// Applies a script of nft.
    pub(crate) fn apply(&self, script: &str) {
        let mut nft = self.command("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        nft.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "nft refused the script; is nftables installed?\n{script}");
    }

    fn ip(&self, arguments: &str) {
        let status = self.command("ip").args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "ip {arguments} failed; are iproute2 and nsenter installed?");
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", link(&self.process))).arg(program);
        command
    }

    /// Connects this namespace with another one by a pair of interfaces.
    fn connect(&self, interface: &str, other: &Self, other_interface: &str) {
        let other_process = other.process.id();
        self.ip(&format!("link add {interface} type veth peer name {other_interface} netns {other_process}"));
        self.ip(&format!("link set {interface} up"));
        other.ip(&format!("link set {other_interface} up"));
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        // Both fail if the process ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn link(process: &Child) -> String {
    format!("/proc/{}/ns/net", process.id())
}

/// Routed nodes with routed Pods.
pub(crate) struct Network {
    nodes: BTreeMap<String, NetworkNamespace>,
    pods: BTreeMap<String, NetworkNamespace>,
}

impl Network {
    /// Creates nodes with the addresses 10.89.0.1, 10.89.0.2, and so on, and their Pods.
    pub(crate) fn new(nodes: &[(&str, &[&str])]) -> Self {
        let mut network = Self { nodes: BTreeMap::new(), pods: BTreeMap::new() };
        for (node, pods) in nodes {
            let namespace = NetworkNamespace::new();
            namespace.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
            for (index, address) in pods.iter().enumerate() {
                network.pods.insert((*address).to_owned(), pod(&namespace, index, address));
            }
            network.nodes.insert((*node).to_owned(), namespace);
        }
        if let [(first, first_pods), (second, second_pods)] = nodes {
            network.join((first, first_pods), (second, second_pods));
        }
        network
    }

    /// Connects two nodes, and routes the addresses of their Pods.
    fn join(&self, first: (&str, &[&str]), second: (&str, &[&str])) {
        let (one, two) = (self.node(first.0), self.node(second.0));
        one.connect("eth0", two, "eth0");
        one.ip("address add 10.89.0.1/24 dev eth0");
        two.ip("address add 10.89.0.2/24 dev eth0");
        first.1.iter().for_each(|pod| two.ip(&format!("route add {pod}/32 via 10.89.0.1")));
        second.1.iter().for_each(|pod| one.ip(&format!("route add {pod}/32 via 10.89.0.2")));
    }

    /// Returns a node by its name.
    pub(crate) fn node(&self, name: &str) -> &NetworkNamespace {
        &self.nodes[name]
    }

    /// Returns a Pod by its address.
    pub(crate) fn pod(&self, address: &str) -> &NetworkNamespace {
        &self.pods[address]
    }
}

/// Creates a Pod as the CNI plugin `ptp` does: an interface pair, and routes on both sides.
fn pod(node: &NetworkNamespace, index: usize, address: &str) -> NetworkNamespace {
    let pod = NetworkNamespace::new();
    let interface = format!("veth{index}");
    node.connect(&interface, &pod, "eth0");
    node.ip(&format!("address add 169.254.1.1/32 dev {interface}"));
    node.ip(&format!("route add {address}/32 dev {interface}"));
    pod.ip(&format!("address add {address}/32 dev eth0"));
    pod.ip("route add 169.254.1.1 dev eth0 scope link");
    pod.ip("route add default via 169.254.1.1");
    pod
}

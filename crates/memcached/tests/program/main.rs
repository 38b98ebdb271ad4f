//! A real memcached that is started with the Pods' command line behaves as the spec says.
//!
//! These tests run only by their name, because they need memcached on the PATH:
//! `cargo test -p memcached --test program`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, TcpStream, UdpSocket},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use cluster::{TestNamespace, reserve_address, wait::eventually};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, discovery::v1::EndpointSlice};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use memcached::{Memcached, MemcachedController};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);
/// UID of `nobody`: memcached does not run as root.
const NOBODY: u32 = 65534;

/// A running memcached process, and the Memcached `real` that owns its simulated Pod. Stops on
/// drop.
struct Program {
    child: Child,
    port: u16,
    home: TestNamespace,
    client: Client,
}

impl Program {
    /// Starts the process as a Pod of a Memcached with this spec would.
    async fn of(mut spec: Value) -> Self {
        let port = reserve_address().unwrap().port();
        spec["containerPort"] = port.into();
        let harness = harness::controller::<MemcachedController>().await.unwrap();
        let home = harness.cluster.namespace("program").await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        let line = command_line(&client, &home, spec).await;
        println!("{}", line.join(" "));
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command.spawn().expect("memcached should be on the PATH: apt-get install memcached");
        let program = Self { child, port, home, client };
        eventually("memcached to answer", TIMEOUT, async || {
            Ok(TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string()))
        })
        .await
        .unwrap();
        program
    }

    fn connect(&self) -> Connection {
        Connection::to("127.0.0.1".parse().unwrap(), self.port)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.home)
    }

    /// Resolves the name of a Pod as cluster DNS does: to the Service's address that has this form
    /// with dashes.
    async fn resolve(&self, host: &str) -> Option<IpAddr> {
        let names: Vec<_> = host.split('.').collect();
        let [pod, service, namespace, "svc"] = names[..] else { panic!("{host} is not the name of a Pod") };
        assert_eq!(namespace, self.home.name());
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let slices = self.api::<EndpointSlice>().list(&of_service).await.unwrap();
        let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        let mut addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
        let found = addresses.find(|address| address.replace(['.', ':'], "-") == pod)?;
        Some(found.parse().unwrap())
    }
}

/// Returns an address under which others reach this machine. Sends nothing.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").expect("this machine should have a network");
    socket.local_addr().unwrap().ip()
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Returns the command line in the Deployment that the controller creates.
async fn command_line(client: &Client, namespace: &str, spec: Value) -> Vec<String> {
    let cache: Memcached = serde_json::from_value(json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "metadata": { "name": "real" }, "spec": spec,
    }))
    .unwrap();
    let caches = Api::<Memcached>::namespaced(client.clone(), namespace);
    caches.create(&PostParams::default(), &cache).await.unwrap();
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let made = eventually("the Deployment to be created", TIMEOUT, async || {
        deployments.get_opt("real").await.map_err(Into::into)
    });
    let mut containers = made.await.unwrap().spec.unwrap().template.spec.unwrap().containers;
    let container = containers.remove(0);
    [container.command.unwrap_or_default(), container.args.unwrap_or_default()].concat()
}

/// A connection that uses memcached's text protocol.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn to(address: IpAddr, port: u16) -> Self {
        let stream = TcpStream::connect((address, port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, text: &[u8]) {
        self.0.get_mut().write_all(text).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the result of `stats settings`.
    fn settings(&mut self) -> HashMap<String, String> {
        self.send(b"stats settings\r\n");
        let mut settings = HashMap::new();
        loop {
            let line = self.line();
            if line == "END" {
                return settings;
            }
            let (name, value) = line.strip_prefix("STAT ").unwrap().split_once(' ').unwrap();
            settings.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Stores an item of this size. Returns the response.
    fn store(&mut self, size: usize) -> String {
        self.send(format!("set item 0 0 {size}\r\n").as_bytes());
        self.send(&vec![b'x'; size]);
        self.send(b"\r\n");
        self.line()
    }

    fn fetch(&mut self) -> usize {
        self.send(b"get item\r\n");
        let head = self.line();
        let size: usize = head.rsplit_once(' ').unwrap().1.parse().unwrap();
        let mut value = vec![0; size + 2];
        self.0.read_exact(&mut value).unwrap();
        assert!(value[..size].iter().all(|byte| *byte == b'x'));
        assert_eq!(self.line(), "END");
        size
    }
}

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn has_the_limits_of_the_spec() {
    for (spec, expected) in [
        (json!({}), [64, 1024, 4, MIB]),
        (
            json!({ "memoryMegabytes": 256, "maxConnections": 200, "threads": 2, "maxItemSize": "8m" }),
            [256, 200, 2, 8 * MIB],
        ),
        (
            json!({ "memoryMegabytes": 32, "maxItemSize": "512k", "extraArgs": ["-o", "no_hashexpand"] }),
            [32, 1024, 4, MIB / 2],
        ),
    ] {
        let program = Program::of(spec).await;
        let settings = program.connect().settings();
        let number = |name: &str| settings[name].parse::<usize>().unwrap();
        let [memory, connections, threads, item] = expected;
        assert_eq!(number("maxbytes"), memory * MIB);
        assert_eq!((number("maxconns"), number("num_threads")), (connections, threads));
        assert_eq!((number("item_size_max"), number("udpport")), (item, 0));
    }
}

#[tokio::test]
async fn stores_items_up_to_the_limit() {
    let program = Program::of(json!({ "memoryMegabytes": 64, "maxItemSize": "2m" })).await;
    let mut connection = program.connect();
    // The key and the header of an item count as well.
    let largest = 2 * MIB - 1024;
    assert_eq!(connection.store(largest), "STORED");
    assert_eq!(connection.fetch(), largest);
    assert_eq!(connection.store(2 * MIB + 1), "SERVER_ERROR object too large for cache");
}

#[tokio::test]
async fn refuses_only_connections_beyond_the_limit() {
    let (limit, beyond) = (100, 10);
    let program = Program::of(json!({ "maxConnections": limit, "threads": 1 })).await;
    let mut connections: Vec<_> = (0..limit + beyond).map(|_| program.connect()).collect();
    let (mut served, mut refused) = (0, 0);
    for connection in &mut connections {
        // The server may close a refused connection before this write.
        let _ = connection.0.get_mut().write_all(b"version\r\n");
        let mut line = String::new();
        match connection.0.read_line(&mut line) {
            Ok(_) if line.starts_with("VERSION") => served += 1,
            Ok(_) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(served > 0 && served <= limit, "{served} served");
    assert_eq!(served + refused, limit + beyond);
}

#[tokio::test]
async fn endpoint_in_status_reaches_the_pod() {
    let program = Program::of(json!({})).await;
    let own = own_address();
    // Moves the simulated Pod to the address of the process.
    let (pods, caches) = (program.api::<Pod>(), program.api::<Memcached>());
    let at_own = Patch::Merge(json!({ "status": { "podIP": own, "podIPs": [{ "ip": own }] } }));
    let expected = [format!(
        "{}.real.{}.svc:{}",
        own.to_string().replace(['.', ':'], "-"),
        program.home.name(),
        program.port
    )];
    let endpoint = eventually("the status to contain the Pod's address", TIMEOUT, async || {
        let ready = caches.get("real").await?.status.unwrap_or_default();
        if let (Some(pod), false) = (ready.nodes.first(), ready.endpoints == expected) {
            pods.patch_status(pod, &PatchParams::default(), &at_own).await?;
        }
        Ok(if ready.endpoints == expected { Ok(ready.endpoints[0].clone()) } else { Err(ready.endpoints) })
    })
    .await
    .unwrap();

    let (host, port) = endpoint.rsplit_once(':').unwrap();
    let address =
        eventually("cluster DNS to serve the Pod", TIMEOUT, async || Ok(program.resolve(host).await));
    let mut connection = Connection::to(address.await.unwrap(), port.parse().unwrap());
    assert_eq!(connection.store(1000), "STORED");
    assert_eq!(connection.fetch(), 1000);
    assert_eq!(program.connect().fetch(), 1000, "it is the same memcached");
}

#[tokio::test]
async fn exits_cleanly_on_sigterm() {
    let mut program = Program::of(json!({})).await;
    let mut connection = program.connect();
    assert_eq!(connection.store(10), "STORED");
    let desired = Command::new("kill").arg(program.child.id().to_string()).status().unwrap();
    assert!(desired.success());
    let status =
        eventually("memcached to end", TIMEOUT, async || Ok(program.child.try_wait()?)).await.unwrap();
    assert!(status.success(), "{status}");
}

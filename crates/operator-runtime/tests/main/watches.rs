//! Watches share a connection to the API server.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, routing::get};
use futures::{Stream, StreamExt, future::try_join_all, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{ListParams, WatchEvent, WatchParams},
};
use operator_core::metrics::NoMetrics;
use operator_runtime::connect::connect_to;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinSet,
    time::timeout,
};

/// Watches of a client that share a connection.
const SHARED: usize = 80;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Forwards connections to a server, and counts them.
struct Forwarder {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    breaks: broadcast::Sender<()>,
    _accepting: JoinSet<()>,
}

impl Forwarder {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, breaks) = (Arc::<AtomicUsize>::default(), broadcast::Sender::new(1));
        let (count, broken) = (accepted.clone(), breaks.clone());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let mut broken = broken.subscribe();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = broken.recv() => {}
                    }
                });
            }
        });
        Self { address, accepted, breaks, _accepting: accepting }
    }

    /// Returns the number of connections until now.
    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Closes all connections.
    fn break_connections(&self) {
        self.breaks.send(()).unwrap();
    }
}

/// Returns a forwarder to the API server, and a client that connects through it.
async fn api_server() -> (Forwarder, Client) {
    let mut config = cluster::shared().await.unwrap().config().await.unwrap();
    let port = config.cluster_url.port_u16().unwrap();
    let forwarder = Forwarder::to(([127, 0, 0, 1], port).into()).await;
    config.cluster_url = format!("https://{}", forwarder.address).parse().unwrap();
    (forwarder, connect_to(config, Arc::new(NoMetrics)).unwrap())
}

type Events = BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

/// Opens watches at the same time.
async fn watch(client: &Client, count: usize) -> Vec<Events> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let params = WatchParams::default().timeout(280);
    let opened = (0..count).map(|_| async { Ok(api.watch(&params, "0").await?.boxed()) });
    timeout(TIMEOUT, try_join_all::<_>(opened)).await.unwrap().map_err(|error: kube::Error| error).unwrap()
}

/// Returns whether a watch of the API server ends, after the events that it has.
async fn ends(events: &mut (impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin)) -> bool {
    let mut events = events.skip_while(|event| std::future::ready(event.is_ok()));
    timeout(TIMEOUT, events.next()).await.is_ok()
}

#[tokio::test]
async fn watches_share_a_connection_up_to_its_limit() {
    let (forwarder, client) = api_server().await;
    let mut watches = watch(&client, SHARED).await;
    assert_eq!(forwarder.accepted(), 1);
    let more = watch(&client, 2).await;
    assert_eq!(forwarder.accepted(), 3);
    // Other requests do not wait for the end of a watch.
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    timeout(TIMEOUT, api.list(&ListParams::default())).await.unwrap().unwrap();
    let accepted = forwarder.accepted();
    watches.truncate(SHARED / 2);
    watches.extend(watch(&client, SHARED / 2).await);
    assert_eq!(forwarder.accepted(), accepted);
    drop((watches, more));
}

#[tokio::test]
async fn watches_share_another_connection_after_one_broke() {
    let (forwarder, client) = api_server().await;
    let mut watches = watch(&client, SHARED).await;
    forwarder.break_connections();
    for watch in &mut watches {
        assert!(ends(watch).await);
    }
    drop(watches);
    let watches = watch(&client, SHARED).await;
    assert_eq!(forwarder.accepted(), 2);
    drop(watches);
}

#[tokio::test]
async fn each_watch_has_a_connection_without_http2() {
    let silent = || async { Body::from_stream(futures::stream::pending::<Result<Vec<u8>, axum::Error>>()) };
    let router = Router::new().route("/api/v1/namespaces/default/configmaps", get(silent));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let forwarder = Forwarder::to(listener.local_addr().unwrap()).await;
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let config = Config::new(format!("http://{}", forwarder.address).parse().unwrap());
    let client = connect_to(config, Arc::new(NoMetrics)).unwrap();
    let watches = watch(&client, SHARED + 2).await;
    assert_eq!(forwarder.accepted(), SHARED + 2);
    drop(watches);
    server.abort();
}

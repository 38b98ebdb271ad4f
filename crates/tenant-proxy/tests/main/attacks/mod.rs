//! Attacks: requests that try to get more than their user may see.
//!
//! Each test sends bytes over TLS, and looks at what the API server got. [`Setup::received`] checks the
//! guarantees of the proxy for every request, so a test says only what is special.

mod bounds;
mod client;
mod client_certificates;
mod frames;
mod framing;
mod guarantees;
mod http2;
mod identity;
mod leaks;
mod logs;
mod new_namespaces;
mod path_and_method;
mod properties;
mod query;
mod settings;
mod stale_caches;
mod switched;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use clap::Parser;
use client::{Response, Stream, http1, read_all};
use parking_lot::Mutex;
use rustls::{ClientConfig, pki_types::CertificateDer};
use tempfile::TempDir;
use tenant_proxy::{flags::Flags, run};
use tokio::{
    io::AsyncWriteExt,
    time::{self, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::upstream::{Objects, Recorded, Upstream};

/// Time after which something that must happen has not happened.
const PATIENCE: Duration = Duration::from_secs(20);
const NAMESPACES: &str = "/api/v1/namespaces";
const TENANTS: &str = "/apis/capsule.clastix.io/v1beta2/tenants";
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Query of the view of alice, who owns the Tenant oil.
const OF_ALICE: &str = "labelSelector=capsule.clastix.io%2Ftenant%20in%20%28oil%29";
const BY_ALICE: &str = "Authorization: Bearer alice";

/// A proxy before an API server that records.
struct Setup {
    upstream: Upstream,
    address: SocketAddr,
    client: Arc<ClientConfig>,
    /// The serving certificate of the proxy.
    serving: CertificateDer<'static>,
    /// Everything that was sent to the proxy.
    sent: Mutex<Vec<u8>>,
    /// Number of requests that were returned.
    returned: Mutex<usize>,
    _files: TempDir,
    _stop: DropGuard,
}

/// Starts a proxy whose caches are filled.
async fn start() -> Setup {
    start_with(&[]).await
}

async fn start_with(flags: &[&str]) -> Setup {
    start_before(Objects::default(), flags).await
}

/// Starts a proxy before an API server with these objects.
async fn start_before(objects: Objects, flags: &[&str]) -> Setup {
    logs::start();
    let (upstream, config) = Upstream::start(objects).await;
    let identity = rcgen::generate_simple_self_signed(["proxy.example".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, contents: String| {
        let path = files.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let chain = write("tls.crt", identity.cert.pem());
    let key = write("tls.key", identity.signing_key.serialize_pem());
    let args = [
        "ensemble-proxy",
        "--bind-address=127.0.0.1:0",
        "--health-probe-bind-address=0",
        "--metrics-bind-address=0",
    ];
    let tls = ["--tls-cert-file", &chain, "--tls-private-key-file", &key];
    let flags = Flags::parse_from([&args[..], &tls, flags].concat());
    let stop = CancellationToken::new();
    let running = run::start(&flags, config, stop.clone()).await.unwrap();
    // A cache watches after it was filled.
    let is_watch = |request: &&Recorded| {
        request.is_of_cache()
            && request.target.contains("watch=true")
            && !request.target.contains("sendInitialEvents")
    };
    let are_synced = upstream.wait_for(|requests| requests.iter().filter(is_watch).count() == 5);
    let result = timeout(PATIENCE, are_synced).await;
    assert!(result.is_ok(), "the caches are not filled: {:?}", upstream.requests());
    Setup {
        upstream,
        address: running.address,
        client: client::trusting(identity.cert.der()),
        serving: identity.cert.der().clone(),
        sent: Mutex::default(),
        returned: Mutex::default(),
        _files: files,
        _stop: stop.drop_guard(),
    }
}

/// Lets time pass at once, for the proxy too. What takes time in between, such as a request, goes on afterwards.
async fn advance(by: Duration) {
    time::pause();
    time::advance(by).await;
    time::resume();
}

/// Returns whether a request is one of a view.
fn is_view(request: &Recorded) -> bool {
    let is_by_proxy = !request.is_of_cache() && request.all("x-forwarded-for").is_empty();
    is_by_proxy && ![REVIEWS, ACCESS_REVIEWS].contains(&&*request.target)
}

impl Setup {
    /// Opens a connection for HTTP/1.1.
    async fn connect(&self) -> Stream {
        client::connect(self.address, &self.client, "http/1.1").await.unwrap()
    }

    /// Sends bytes on an open connection.
    async fn write(&self, stream: &mut Stream, bytes: &[u8]) {
        self.sent.lock().extend_from_slice(bytes);
        // The proxy may have closed the connection: what it did before is what counts.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
    }

    /// Sends bytes on a connection of their own, and returns everything that comes back until its end.
    async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        self.exchange_as(&self.client, bytes).await
    }

    /// Sends bytes like [`Setup::exchange`], as a client with this configuration. Returns nothing if the proxy
    /// refuses the connection.
    async fn exchange_as(&self, client: &Arc<ClientConfig>, bytes: &[u8]) -> Vec<u8> {
        let Ok(mut stream) = client::connect(self.address, client, "http/1.1").await else {
            return Vec::new();
        };
        self.write(&mut stream, bytes).await;
        read_all(&mut stream).await
    }

    /// Sends one request, such as `GET /path`, with these headers. Returns its response.
    async fn send(&self, request: &str, headers: &[&str]) -> Response {
        Response::parse(&self.exchange(&http1(request, headers)).await)
    }

    /// Sends one request of alice.
    async fn send_by_alice(&self, request: &str) -> Response {
        self.send(request, &[BY_ALICE]).await
    }

    /// Returns what the API server got since the last call, but for the requests of caches. Checks that all
    /// of it is within the guarantees of the proxy.
    fn received(&self) -> Vec<Recorded> {
        let all = self.upstream.requests();
        let first = std::mem::replace(&mut *self.returned.lock(), all.len());
        let new = &all[first..];
        let sent = self.sent.lock();
        for request in new {
            guarantees::assert_met(request, &sent);
        }
        new.iter().filter(|request| !request.is_of_cache()).cloned().collect()
    }

    /// Sends a GET of alice. Returns the response, and the target of the view that it got, if any. Asserts
    /// that the API server got the target of alice as she wrote it, and nothing else.
    async fn get_by_alice(&self, target: &str) -> (Response, Option<String>) {
        let response = self.send_by_alice(&format!("GET {target}")).await;
        let (views, others): (Vec<_>, Vec<_>) = self.received().into_iter().partition(is_view);
        let as_user: Vec<_> = others.iter().filter(|request| request.target != REVIEWS).collect();
        assert!(
            as_user.iter().all(|request| request.is_by("alice") && request.target == target),
            "{others:?}"
        );
        assert!(views.len() <= 1 && as_user.len() <= 1, "{target}: {views:?} {others:?}");
        (response, views.into_iter().next().map(|view| view.target))
    }

    /// Asserts that the API server got nothing.
    #[track_caller]
    fn assert_nothing_received(&self, attack: &str) {
        assert_eq!(self.received(), [], "{attack}");
    }

    /// Asserts that the API server got this target once, from a user.
    #[track_caller]
    fn assert_only_received(&self, attack: &str, target: &str, token: &str) -> Recorded {
        let received = self.received();
        assert_eq!(received.len(), 1, "{attack}: {received:?}");
        assert!(received[0].is_by(token) && received[0].target == target, "{attack}: {received:?}");
        received[0].clone()
    }

    /// Asserts that the proxy still serves, and that everything so far was within its guarantees.
    async fn assert_serves(&self) {
        let response = timeout(PATIENCE, self.send_by_alice("GET /version")).await.unwrap();
        assert_eq!(response.status, 200);
        assert!(self.received().last().is_some_and(|last| last.target == "/version" && last.is_by("alice")));
    }
}

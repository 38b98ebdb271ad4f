//! Connections to the API server.

mod closed_connection;
mod watches;

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::{Body, retry::RetryPolicy},
};
use operator_core::{
    client::RequestInfo,
    endpoint::{Connect, Endpoint},
    fence::Fence,
    metrics::{Metrics, NoMetrics},
};
use tower::{ServiceBuilder, retry::RetryLayer, service_fn};
use watches::Watches;

/// How long another address may take to connect, and to send the next part of a response. Less than a reconcile
/// may take, so that its status says what did not respond.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a client for the cluster of `KUBECONFIG` or `~/.kube/config`, or otherwise of the Pod's
/// ServiceAccount. Sends no request.
///
/// # Errors
/// Returns an error if no configuration exists or the kubeconfig is not readable.
pub async fn connect() -> Result<Client> {
    connect_to(configuration().await?, Arc::new(NoMetrics))
}

/// Returns a client for the cluster of `config` that reports every retried response to `metrics`.
///
/// # Errors
/// Returns an error if the address, the certificates, or the credentials are invalid.
pub fn connect_to(config: Config, metrics: Arc<dyn Metrics>) -> Result<Client> {
    let connected = Watches::new(&config).and_then(|watches| client(config, watches, metrics));
    connected.context("cannot use the cluster configuration")
}

/// Returns a function that connects to other addresses of the API server of `config`, with the same
/// credentials. Its clients report every retried response to `metrics`, and give up an address that does not
/// respond within 20 s, so they cannot watch.
pub fn connect_to_endpoints(config: Config, metrics: Arc<dyn Metrics>) -> Connect {
    Arc::new(move |endpoint| client(at_endpoint(config.clone(), endpoint), None, metrics.clone()))
}

/// Returns a client like [`connect`] with its own connections and without retries, for callers that
/// must know when each request was sent.
///
/// # Errors
/// Returns the errors of [`connect`].
pub async fn connect_apart() -> Result<Client> {
    let mut config = configuration().await?;
    config.default_retry = false;
    Client::try_from(config).context("cannot use the cluster configuration")
}

/// Returns the configuration that [`connect`] uses.
///
/// # Errors
/// Returns an error if no configuration exists or the kubeconfig is not readable.
pub async fn configuration() -> Result<Config> {
    Config::infer().await.context(
        "no usable cluster configuration; set KUBECONFIG to a valid kubeconfig, or run in a Pod with a ServiceAccount",
    )
}

fn at_endpoint(mut config: Config, endpoint: &Endpoint) -> Config {
    if let Some(url) = &endpoint.url {
        config.cluster_url = url.clone();
        config.tls_server_name = None;
        config.connect_timeout = Some(ENDPOINT_TIMEOUT);
        config.read_timeout = Some(ENDPOINT_TIMEOUT);
    }
    if let Some(authorities) = &endpoint.authorities {
        config.root_cert = Some(authorities.clone());
        config.accept_invalid_certs = false;
    }
    if endpoint.skip_tls_verify {
        config.root_cert = None;
        config.accept_invalid_certs = true;
    }
    config
}

/// Creates kube's client with its retries outside of the layer that counts responses. Sends watches by `watches`.
fn client(mut config: Config, watches: Option<Watches>, metrics: Arc<dyn Metrics>) -> kube::Result<Client> {
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let watches = watches.map(Arc::new);
    let inner = Client::try_from(config)?;
    let counted = service_fn(move |request: Request<Body>| {
        let (inner, watches, metrics) = (inner.clone(), watches.clone(), metrics.clone());
        async move {
            // Checked for each attempt, because the first can be long ago.
            if let Some(fence) = request.extensions().get::<Fence>() {
                fence.check()?;
            }
            let is_watch = RequestInfo::of(&request).is_watch();
            let (head, body) = request.into_parts();
            let shared = match watches.filter(|_| is_watch) {
                Some(watches) => watches.send(head.clone()).await?,
                None => None,
            };
            let (response, watch) = match shared {
                Some((response, watch)) => (response, Some(watch)),
                None => (closed_connection::send(&inner, Request::from_parts(head, body)).await?, None),
            };
            if is_retried(response.status()) {
                metrics.retried(response.status().as_u16());
            }
            // The watch ends with its response.
            Ok::<_, tower::BoxError>(response.map(|body| {
                body.map_frame(move |frame| {
                    let _open = &watch;
                    frame
                })
            }))
        }
    });
    let retry = RetryLayer::new(RetryPolicy::server_retry());
    Ok(Client::new(ServiceBuilder::new().layer(retry).service(counted), namespace))
}

/// Returns whether [`RetryPolicy`] retries after this status.
fn is_retried(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::{Router, extract::State, routing::get};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::PostParams};
    use operator_core::{client::Clients, error::chain};
    use parking_lot::Mutex;
    use tokio::net::TcpListener;

    use super::*;

    #[derive(Default)]
    struct RetryRecorder(Mutex<Vec<u16>>);

    impl Metrics for RetryRecorder {
        fn retried(&self, code: u16) {
            self.0.lock().push(code);
        }
    }

    /// Responds twice with a status that is retried.
    async fn busy(State(requests): State<Arc<AtomicUsize>>) -> (StatusCode, String) {
        let failures = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        let status =
            failures.get(requests.fetch_add(1, Ordering::Relaxed)).copied().unwrap_or(StatusCode::OK);
        (status, "{\"major\": \"1\", \"minor\": \"36\", \"gitVersion\": \"\", \"gitCommit\": \"\", \"gitTreeState\": \"\",
            \"buildDate\": \"\", \"goVersion\": \"\", \"compiler\": \"\", \"platform\": \"\"}".to_owned())
    }

    #[tokio::test]
    async fn retries_and_counts_throttled_requests() {
        let router = Router::new().route("/version", get(busy)).with_state(Arc::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let metrics = Arc::new(RetryRecorder::default());
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let version = client(config, None, metrics.clone()).unwrap().apiserver_version().await.unwrap();
        assert_eq!(version.minor, "36");
        assert_eq!(*metrics.0.lock(), [429, 503]);
        server.abort();
    }

    #[test]
    fn other_address_has_a_time_limit() {
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        let same = at_endpoint(config.clone(), &Endpoint { skip_tls_verify: true, ..Endpoint::default() });
        assert_eq!(same.read_timeout, config.read_timeout);
        let url = Some("https://127.0.0.1:2".parse().unwrap());
        let other = at_endpoint(config, &Endpoint { url, ..Endpoint::default() });
        assert_eq!(other.cluster_url.port_u16(), Some(2));
        assert_eq!(
            (other.connect_timeout, other.read_timeout),
            (Some(ENDPOINT_TIMEOUT), Some(ENDPOINT_TIMEOUT))
        );
    }

    #[tokio::test]
    async fn authorities_that_are_no_certificates_are_an_error() {
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        let connect = connect_to_endpoints(config, Arc::new(NoMetrics));
        let endpoint =
            |authority: &[u8]| Endpoint { authorities: Some(vec![authority.into()]), ..Endpoint::default() };
        for authority in [&b"garbage"[..], b"", &[0x30; 4096]] {
            assert!(connect(&endpoint(authority)).is_err(), "{authority:?}");
        }
    }

    #[tokio::test]
    async fn closed_fence_prevents_retry_of_write() {
        let (fence, requests) = (Fence::open(), Arc::new(AtomicUsize::new(0)));
        let (server_fence, server_requests) = (fence.clone(), requests.clone());
        let busy = async move || {
            server_requests.fetch_add(1, Ordering::Relaxed);
            server_fence.close();
            (StatusCode::TOO_MANY_REQUESTS, "")
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, Router::new().fallback(busy)).await });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = Clients::new(client(config, None, Arc::new(NoMetrics)).unwrap()).fenced("test", fence);
        let maps = Api::<ConfigMap>::namespaced(client, "default");
        let error = maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
        assert!(chain(&error).contains("another replica may lead"), "{}", chain(&error));
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        server.abort();
    }
}

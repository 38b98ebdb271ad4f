//! Replica that rotates and serves the certificates.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router, body::Bytes, extract::State, http::header::CONTENT_TYPE, response::IntoResponse, routing::post,
};
use cluster::wait::eventually;
use kube::Client;
use operator_core::Environment;
use operator_runtime::{
    certificates::{self, Config},
    https::{self, Identity},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_rustls::TlsConnector;

use super::support::{SecretContents, TIMEOUT};

pub(super) struct Replica {
    pub(super) address: SocketAddr,
    pub(super) identity: Identity,
    reviews: Arc<AtomicUsize>,
    environment: Environment,
    rotation: JoinHandle<()>,
}

impl Replica {
    pub(super) async fn start(client: Client, config: Config) -> Self {
        let (environment, identity) = (Environment::new(client), Identity::default());
        let reviews = Arc::<AtomicUsize>::default();
        let router = Router::new().route("/validate", post(allow)).with_state(reviews.clone());
        let server =
            https::serve(([127, 0, 0, 1], 0).into(), router, identity.clone(), 16, environment.stop.clone());
        let address = server.await.unwrap().address;
        let (task_environment, task_identity) = (environment.clone(), identity.clone());
        let rotation = tokio::spawn(async move {
            certificates::run(config, &task_environment, task_identity).await.unwrap();
        });
        Self { address, identity, reviews, environment, rotation }
    }

    /// Returns the number of answered reviews.
    pub(super) fn review_count(&self) -> usize {
        self.reviews.load(Ordering::Relaxed)
    }

    /// Waits until the replica has a certificate.
    pub(super) async fn until_certificate_present(&self) {
        eventually("a certificate", TIMEOUT, async || Ok(self.identity.is_present())).await.unwrap();
    }

    /// Connects with the bundle of the Secret as root certificates, and returns the serving
    /// certificate.
    pub(super) async fn served_certificate(
        &self,
        contents: &SecretContents,
    ) -> anyhow::Result<CertificateDer<'static>> {
        let mut roots = RootCertStore::empty();
        for authority in &contents.authorities {
            roots.add(authority.clone())?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        Ok(chain.first().unwrap().clone().into_owned())
    }

    /// Waits until the replica serves the certificate of the Secret.
    pub(super) async fn until_served(&self, contents: &SecretContents) {
        eventually("the certificate of the Secret to be served", TIMEOUT, async || {
            Ok(Some(self.served_certificate(contents).await?) == contents.serving)
        })
        .await
        .unwrap();
    }

    /// Stops the replica.
    ///
    /// # Panics
    /// Panics if it does not stop within 5 s.
    pub(super) async fn stop(self) {
        self.environment.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.rotation).await.unwrap().unwrap();
    }
}

/// Allows every request.
async fn allow(State(reviews): State<Arc<AtomicUsize>>, body: Bytes) -> impl IntoResponse {
    reviews.fetch_add(1, Ordering::Relaxed);
    let review: Value = serde_json::from_slice(&body).unwrap();
    let response = json!({
        "apiVersion": review["apiVersion"],
        "kind": "AdmissionReview",
        "response": { "uid": review["request"]["uid"], "allowed": true },
    });
    ([(CONTENT_TYPE, "application/json")], response.to_string())
}

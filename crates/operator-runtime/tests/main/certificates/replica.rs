//! One replica: it keeps the certificates, and serves with them.

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

use super::stage::{Held, PATIENCE};

pub(super) struct Replica {
    pub(super) address: SocketAddr,
    pub(super) identity: Identity,
    asked: Arc<AtomicUsize>,
    environment: Environment,
    keeping: JoinHandle<()>,
}

impl Replica {
    pub(super) async fn start(client: Client, config: Config) -> Self {
        let (environment, identity) = (Environment::new(client), Identity::default());
        let asked = Arc::<AtomicUsize>::default();
        let router = Router::new().route("/validate", post(allow)).with_state(asked.clone());
        let server =
            https::serve(([127, 0, 0, 1], 0).into(), router, identity.clone(), 16, environment.stop.clone());
        let address = server.await.unwrap().address;
        let (kept_in, shown) = (environment.clone(), identity.clone());
        let keeping = tokio::spawn(async move { certificates::run(config, &kept_in, shown).await.unwrap() });
        Self { address, identity, asked, environment, keeping }
    }

    /// How many reviews it has answered.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits until there is a certificate.
    pub(super) async fn until_present(&self) {
        eventually("a certificate", PATIENCE, async || Ok(self.identity.is_present())).await.unwrap();
    }

    /// The certificate that a client gets who trusts what the Secret says.
    pub(super) async fn shown(&self, held: &Held) -> anyhow::Result<CertificateDer<'static>> {
        let mut roots = RootCertStore::empty();
        for authority in &held.authorities {
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

    /// Waits until it shows what the Secret holds.
    pub(super) async fn until_shows(&self, held: &Held) {
        eventually("the Secret's certificate to be shown", PATIENCE, async || {
            Ok(Some(self.shown(held).await?) == held.serving)
        })
        .await
        .unwrap();
    }

    /// Ends it and holds it to doing so in time.
    pub(super) async fn end(self) {
        self.environment.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.keeping).await.unwrap().unwrap();
    }
}

/// Allows whatever is asked.
async fn allow(State(asked): State<Arc<AtomicUsize>>, body: Bytes) -> impl IntoResponse {
    asked.fetch_add(1, Ordering::Relaxed);
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({
        "apiVersion": review["apiVersion"],
        "kind": "AdmissionReview",
        "response": { "uid": review["request"]["uid"], "allowed": true },
    });
    ([(CONTENT_TYPE, "application/json")], answer.to_string())
}

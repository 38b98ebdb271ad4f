//! Hooks over TLS: trusted and untrusted certificates, and retries.

use std::{
    io::Write,
    net::TcpListener,
    path::Path,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use axum::{Router, http::StatusCode};
use axum_server::tls_rustls::RustlsConfig;
use namespaceplus::{HookState, HookStatus};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::{TestEnv, condition, hook_statuses, until_delivered};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// The authority that the manager trusts from the start.
static KNOWN: LazyLock<Authority> = LazyLock::new(|| authority("known"));

/// Returns the path of the CA bundle of the manager.
pub(crate) fn bundle() -> &'static Path {
    static BUNDLE: LazyLock<NamedTempFile> = LazyLock::new(|| {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(KNOWN.pem().as_bytes()).unwrap();
        file
    });
    BUNDLE.path()
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A receiver that accepts and counts all calls.
struct HookReceiver {
    port: u16,
    calls: Arc<AtomicUsize>,
}

impl HookReceiver {
    /// Starts a receiver with a certificate for a name, signed by an authority. The certificate
    /// expires in `year`.
    fn start(authority: &Authority, name: &str, year: i32) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let chain = vec![CertificateDer::from(params.signed_by(&key, authority).unwrap())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = RustlsConfig::from_config(Arc::new(config.with_single_cert(chain, key).unwrap()));
        let calls = Arc::<AtomicUsize>::default();
        let counted = calls.clone();
        let router = Router::new().fallback(async move || {
            counted.fetch_add(1, SeqCst);
            StatusCode::NO_CONTENT
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = axum_server::from_tcp_rustls(listener, config).unwrap();
        tokio::spawn(server.serve(router.into_make_service()));
        Self { port, calls }
    }

    fn hook(&self, name: &str) -> Value {
        json!({ "name": name, "on": ["Created"], "url": format!("https://127.0.0.1:{}/", self.port) })
    }

    fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }
}

#[tokio::test]
async fn reports_invalid_certificate_without_sending_call() {
    let env = TestEnv::new().await;
    let right = HookReceiver::start(&KNOWN, "127.0.0.1", 2500);
    let elsewhere = HookReceiver::start(&KNOWN, "elsewhere.example.com", 2500);
    let old = HookReceiver::start(&KNOWN, "127.0.0.1", 2001);
    let hooks = [right.hook("right"), elsewhere.hook("elsewhere"), old.hook("old")];
    env.create(json!({ "hooks": hooks })).await;
    let object = env
        .until("all three calls to be reported", |object| {
            let statuses = hook_statuses(object);
            let is_known = |one: &HookStatus| {
                one.attempt_deadline.is_none() && (one.attempts > 1 || one.state == HookState::Delivered)
            };
            statuses.len() == 3 && statuses.values().all(is_known)
        })
        .await;
    let statuses = hook_statuses(&object);
    for (name, expected) in [
        ("right", "the receiver answered 204"),
        ("elsewhere", "the certificate is not accepted: it is not valid for the host of the url"),
        ("old", "the certificate is not accepted: it has expired"),
    ] {
        assert_eq!(statuses[&(name.to_owned(), "Created")].message, expected, "{name}");
    }
    assert_eq!((right.calls(), elsewhere.calls(), old.calls()), (1, 0, 0));
    env.change(json!({ "hooks": [right.hook("right")] })).await;
    until_delivered(&env).await;
}

#[tokio::test]
async fn trusts_new_authority_in_ca_bundle_at_once() {
    let env = TestEnv::new().await;
    let private = authority("private");
    let receiver = HookReceiver::start(&private, "127.0.0.1", 2500);
    env.create(json!({ "hooks": [receiver.hook("chat")] })).await;
    let object = env
        .until("the untrusted certificate to be reported", |object| {
            hook_statuses(object)
                .values()
                .any(|one| one.message.contains("authority that the manager does not trust"))
        })
        .await;
    let (status, reason, message) = condition(&object, "HooksDelivered").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "HookPending"));
    assert!(message.contains("--namespaceplus-ca-bundle"), "{message}");
    assert_eq!(receiver.calls(), 0);

    let mut file = std::fs::OpenOptions::new().append(true).open(bundle()).unwrap();
    file.write_all(private.pem().as_bytes()).unwrap();
    let object = until_delivered(&env).await;
    assert!(hook_statuses(&object).values().all(|one| one.attempts > 1), "{:?}", hook_statuses(&object));
    assert_eq!(receiver.calls(), 1);
}

//! Attacks with client certificates, which the proxy turns into impersonation.

use std::sync::Arc;

use cluster::wait::eventually;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, date_time_ymd,
};
use rustls::{
    ClientConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use super::{
    BY_ALICE, NAMESPACES, OF_ALICE, PATIENCE, REVIEWS, Setup,
    client::{Response, http1, presenting},
    guarantees::IN_CERTIFICATE,
    is_view, start_before,
};
use crate::upstream::{CLIENT_CA, Objects, PROXY_TOKEN};

const ALICE: &[(DnType, &str)] =
    &[(DnType::CommonName, "alice"), (DnType::OrganizationName, "projectcapsule.dev")];

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Starts a proxy that accepts the certificates of an authority.
async fn start() -> (Setup, Authority) {
    let authority = authority();
    let setup = start_before(Objects::with_client_ca(authority.pem()), &["--client-certificates"]).await;
    let alice = client(&setup, &authority, ALICE, |_| {});
    let is_accepted = async || Ok(send(&setup, &alice, "GET /version", &[]).await.status == 200);
    eventually("the certificate to be accepted", PATIENCE, is_accepted).await.unwrap();
    setup.received();
    (setup, authority)
}

/// Returns a client with a certificate of an authority.
fn client(
    setup: &Setup,
    authority: &Authority,
    subject: &[(DnType, &str)],
    change: impl FnOnce(&mut CertificateParams),
) -> Arc<ClientConfig> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, name) in subject {
        params.distinguished_name.push(kind.clone(), *name);
        setup.sent.lock().extend_from_slice(format!("{IN_CERTIFICATE}{name}\n").as_bytes());
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    presenting(&setup.serving, certificate.der().clone(), key)
}

async fn send(setup: &Setup, client: &Arc<ClientConfig>, request: &str, headers: &[&str]) -> Response {
    Response::parse(&setup.exchange_as(client, &http1(request, headers)).await)
}

#[tokio::test]
async fn users_of_certificates_are_impersonated() {
    let (setup, authority) = start().await;
    let alice = client(&setup, &authority, ALICE, |_| {});
    let headers = ["X-Remote-User: admin", "X-Remote-Group: system:masters", "Impersonate_User: admin"];
    let response = send(&setup, &alice, &format!("GET {NAMESPACES}"), &headers).await;
    assert_eq!(response.status, 200, "{response:?}");
    let (views, others): (Vec<_>, Vec<_>) = setup.received().into_iter().partition(is_view);
    assert_eq!(
        views.iter().map(|view| &view.target).collect::<Vec<_>>(),
        [&format!("{NAMESPACES}?{OF_ALICE}")]
    );
    let targets: Vec<_> = others.iter().map(|request| &*request.target).collect();
    assert_eq!(targets, [NAMESPACES, REVIEWS]);
    for request in &others {
        assert!(request.is_by(PROXY_TOKEN), "{request:?}");
        assert_eq!(request.all("impersonate-user"), [b"alice"]);
        assert_eq!(request.all("impersonate-group"), [b"projectcapsule.dev"]);
    }
    // A token goes on as before.
    assert_eq!(setup.send_by_alice(&format!("GET {NAMESPACES}")).await.status, 200);
    setup.assert_serves().await;
    assert!(setup.upstream.requests().iter().any(|request| request.target == CLIENT_CA));
}

#[tokio::test]
async fn identities_of_the_system_are_never_impersonated() {
    let (setup, authority) = start().await;
    let (cn, o) = (DnType::CommonName, DnType::OrganizationName);
    for subject in [
        &[(cn.clone(), "system:serviceaccount:x:y")][..],
        &[(cn.clone(), "system:node:n"), (o.clone(), "system:nodes")],
        &[(cn.clone(), "system:admin")],
        &[(cn.clone(), "alice"), (o.clone(), "system:masters")],
        &[(o, "projectcapsule.dev")],
        &[(cn.clone(), "")],
        &[(cn.clone(), "alice ")],
        &[(cn, "alice\r\nImpersonate-Group: system:masters")],
        &[],
    ] {
        let client = client(&setup, &authority, subject, |_| {});
        for request in ["GET /api/v1/secrets", "DELETE /api/v1/namespaces/oil-dev"] {
            let response = send(&setup, &client, request, &[]).await;
            assert_eq!(response.status, 403, "{subject:?}: {response:?}");
            assert!(response.text().contains("\"reason\":\"Forbidden\""), "{response:?}");
        }
        setup.assert_nothing_received(&format!("{subject:?}"));
    }
    setup.assert_serves().await;
}

#[tokio::test]
async fn certificates_of_others_are_refused_in_the_handshake() {
    let (setup, authority) = start().await;
    let ended = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
    let of_server = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    for (attack, client) in [
        ("another authority", client(&setup, &self::authority(), ALICE, |_| {})),
        ("ended", client(&setup, &authority, ALICE, ended)),
        ("not valid yet", client(&setup, &authority, ALICE, future)),
        ("of a server", client(&setup, &authority, ALICE, of_server)),
    ] {
        let response = send(&setup, &client, "GET /version", &[]).await;
        assert_eq!(response.status, 0, "{attack}: {response:?}");
        setup.assert_nothing_received(attack);
    }
    setup.assert_serves().await;
}

#[tokio::test]
async fn certificate_is_the_only_credential_of_a_request() {
    let (setup, authority) = start().await;
    let alice = client(&setup, &authority, ALICE, |_| {});
    let protocol = "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.Ym9i";
    for headers in [
        &[BY_ALICE][..],
        &["Authorization: Basic YWxpY2U6eA=="],
        &["Authorization:"],
        &["Impersonate-User: bob"],
        &["Impersonate-Group: system:masters"],
        &["Impersonate-Extra-scopes: x"],
        &[protocol, "Upgrade: websocket"],
    ] {
        let response = send(&setup, &alice, &format!("GET {NAMESPACES}"), headers).await;
        assert_eq!(response.status, 400, "{headers:?}: {response:?}");
        setup.assert_nothing_received(&format!("{headers:?}"));
    }
    setup.assert_serves().await;
}

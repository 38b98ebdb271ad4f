//! A server of rustls that requires client certificates.

use std::sync::Arc;

use certificates::{
    Authority, Client, IssueError, Lifetimes, Serving, SigningKey, bundle, issue_client, issue_serving,
    new_authority,
};
use jiff::Timestamp;
use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};

const HOST: &str = "database-rw.default.svc";
const USER: &str = "streaming_replica";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn authority() -> (Authority, SigningKey) {
    new_authority(Timestamp::now(), Lifetimes::default()).unwrap()
}

fn serving((authority, key): &(Authority, SigningKey)) -> Serving {
    let names = [ServerName::try_from(HOST).unwrap()];
    issue_serving(Timestamp::now(), Lifetimes::default(), &names, authority, key).unwrap()
}

fn client((authority, key): &(Authority, SigningKey)) -> Client {
    issue_client(Timestamp::now(), Lifetimes::default(), USER, authority, key).unwrap()
}

fn chain(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).map(Result::unwrap).collect()
}

fn key(pem: &[u8]) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem).unwrap()
}

fn roots(authority: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for der in chain(&bundle(std::slice::from_ref(authority))) {
        roots.add(der).unwrap();
    }
    Arc::new(roots)
}

/// Connects a client with `presented` (chain and key) to a server, and returns the chain that the
/// server accepted.
fn handshake(trusted: &Authority, server: &Serving, presented: (&[u8], &[u8])) -> Result<Vec<u8>, Error> {
    let roots = roots(trusted);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider()).build().unwrap();
    let server_config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(server.chain_pem()), key(server.key_pem()))?;
    let client_config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain(presented.0), key(presented.1))?;
    let mut server = ServerConnection::new(Arc::new(server_config))?;
    let mut client = ClientConnection::new(Arc::new(client_config), ServerName::try_from(HOST).unwrap())?;
    while server.is_handshaking() || client.is_handshaking() {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut sent.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut sent = Vec::new();
        server.write_tls(&mut sent).unwrap();
        client.read_tls(&mut sent.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(server.peer_certificates().unwrap().first().unwrap().to_vec())
}

#[test]
fn server_accepts_client_certificate_of_its_authority_only() {
    let (own, other) = (authority(), authority());
    let (server, client) = (serving(&own), client(&own));
    let accepted = handshake(&own.0, &server, (client.chain_pem(), client.key_pem()));
    assert_eq!(accepted.unwrap(), chain(client.chain_pem())[0].as_ref());
    let foreign = self::client(&other);
    let refused = handshake(&own.0, &server, (foreign.chain_pem(), foreign.key_pem()));
    assert!(matches!(refused, Err(Error::InvalidCertificate(_))), "{refused:?}");
}

#[test]
fn certificates_serve_one_purpose() {
    let own = authority();
    let (server, client) = (serving(&own), client(&own));
    let refused = handshake(&own.0, &server, (server.chain_pem(), server.key_pem()));
    assert!(matches!(refused, Err(Error::InvalidCertificate(_))), "{refused:?}");
    let now = Timestamp::now();
    let as_server = Serving::read(client.chain_pem(), client.key_pem()).unwrap();
    assert!(!as_server.is_trusted_by(&own.0, now));
    let as_client = Client::read(server.chain_pem(), server.key_pem()).unwrap();
    assert_eq!(as_client.issuer(&[own.0], now), None);
}

#[test]
fn client_certificate_is_valid_for_its_lifetime_and_never_outlives_its_authority() {
    let (lifetimes, now) = (Lifetimes::default(), Timestamp::now());
    let own = new_authority(now, lifetimes).unwrap();
    let (other, _) = authority();
    let ends = own.0.validity().not_after;
    for issued in [now, own.0.validity().renewal_time(), ends - lifetimes.serving() / 2] {
        let client = issue_client(issued, lifetimes, USER, &own.0, &own.1).unwrap();
        let validity = client.validity();
        assert!(validity.not_after <= ends && validity.not_before >= own.0.validity().not_before);
        let trusted_at = |moment| client.issuer(std::slice::from_ref(&own.0), moment).is_some();
        assert!(trusted_at(issued) && trusted_at(validity.not_before));
        assert!(!trusted_at(validity.not_after));
        assert_eq!(client.issuer(std::slice::from_ref(&other), issued), None);
    }
}

#[test]
fn reads_client_certificate_that_it_wrote() {
    let (own, other) = (authority(), authority());
    let (client, another) = (client(&own), self::client(&other));
    let read = Client::read(client.chain_pem(), client.key_pem()).unwrap();
    assert_eq!(read, client);
    assert_eq!(read.common_name().as_deref(), Some(USER));
    let error = Client::read(client.chain_pem(), another.key_pem()).unwrap_err();
    assert_eq!(error.to_string(), "tls.key does not belong to tls.crt");
    assert_eq!(format!("{client:?}"), format!("Client {{ validity: {:?}, .. }}", client.validity()));
}

#[test]
fn common_name_must_fit_into_certificate() {
    let (own, key) = authority();
    let longest = "ü".repeat(64);
    for (name, is_possible) in
        [("", false), ("a\0b", false), ("a\nb", false), (&"a".repeat(65), false), (&longest, true)]
    {
        let client = issue_client(Timestamp::now(), Lifetimes::default(), name, &own, &key);
        match client {
            Ok(client) => assert_eq!((client.common_name().as_deref(), is_possible), (Some(name), true)),
            Err(error) => assert!(!is_possible && matches!(error, IssueError::CommonName(_)), "{error}"),
        }
    }
}

//! Which clients are let in.

use std::io;

use rustls::ClientConfig;
use tokio::net::TcpStream;

use crate::support::{Ca, Response, TestServer, exchange, head, limits};

async fn status(server: &TestServer, client: &ClientConfig) -> io::Result<Response> {
    server.send(client, "GET", "/status").await
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_served() {
    let server = TestServer::start(limits()).await;
    let operator = server.ca.client("ensemble-operator");
    for version in rustls::ALL_VERSIONS {
        let client = server.ca.client_config(Some(&operator), &[version]);
        assert_eq!(status(&server, &client).await.unwrap().status, 200, "{version:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn certificate_with_another_name_is_forbidden() {
    let server = TestServer::start(limits()).await;
    for name in ["app", "postgres", "ensemble-operator2", "Streaming_replica", "ensemble-operator "] {
        let client = server.ca.client_config(Some(&server.ca.client(name)), rustls::ALL_VERSIONS);
        for (method, path) in [("GET", "/status"), ("POST", "/seal"), ("GET", "/other")] {
            let response = server.send(&client, method, path).await.unwrap();
            assert_eq!(response.status, 403, "{name} {method} {path}");
            assert_eq!(
                response.line(),
                "the common name of the certificate must be ensemble-operator or streaming_replica"
            );
        }
    }
    assert_eq!(*server.handle.seal_requests().borrow(), None);
    server.stop().await;
}

#[tokio::test]
async fn client_without_a_valid_certificate_gets_no_response() {
    let (ca, expired) = Ca::with_expired_client("ensemble-operator");
    let server = TestServer::start_with(ca, limits()).await;
    let foreign = Ca::new().client("ensemble-operator");
    let serving = server.ca.serving();
    for (what, identity) in [
        ("no certificate", None),
        ("another authority", Some(&foreign)),
        ("expired", Some(&expired)),
        ("a serving certificate", Some(&serving)),
    ] {
        for version in rustls::ALL_VERSIONS {
            let client = server.ca.client_config(identity, &[version]);
            let result = status(&server, &client).await;
            assert!(result.is_err(), "{what}, {version:?}: {result:?}");
        }
    }
    let stream = TcpStream::connect(server.addresses.status).await.unwrap();
    let result = exchange(stream, &head("GET", "/status", "")).await;
    assert!(result.is_err(), "without TLS: {result:?}");
    assert_eq!(status(&server, &server.operator).await.unwrap().status, 200);
    server.stop().await;
}

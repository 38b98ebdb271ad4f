//! `GET /livez` and `GET /readyz`.

use crate::support::{TestServer, limits};

#[tokio::test]
async fn readiness_follows_the_main_loop() {
    let server = TestServer::start(limits()).await;
    let readyz = async || {
        let response = server.probe("GET", "/readyz").await.unwrap();
        (response.status, response.line().to_owned())
    };
    assert_eq!(readyz().await, (503, "the instance starts".to_owned()));
    server.health.set_ready();
    assert_eq!(readyz().await, (200, "ok".to_owned()));
    server.health.set_unready("no WAL was received for 60 s");
    assert_eq!(readyz().await, (503, "no WAL was received for 60 s".to_owned()));
    let livez = server.probe("GET", "/livez").await.unwrap();
    assert_eq!((livez.status, livez.line()), (200, "ok"), "an instance that is not ready is alive");
    server.stop().await;
}

#[tokio::test]
async fn nothing_else_is_served_without_tls() {
    let server = TestServer::start(limits()).await;
    for (method, path, status) in [
        ("GET", "/status", 404),
        ("POST", "/seal", 404),
        ("GET", "/", 404),
        ("GET", "/livez/", 404),
        ("POST", "/livez", 405),
        ("HEAD", "/readyz", 405),
    ] {
        let response = server.probe(method, path).await.unwrap();
        assert_eq!(response.status, status, "{method} {path}");
        assert!(status != 405 || response.head.contains("allow: get"), "{response:?}");
    }
    server.stop().await;
}

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

fn meter() -> Arc<Meter> {
    Arc::new(Meter::new("1.2.3", ["podset"]))
}

async fn get_path(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn serves_loopback_without_authorization() {
    let stop = CancellationToken::new();
    let more = Router::new().route("/debug", get(async || "more"));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = serve(address, Access::Insecure, meter(), Some(more), stop.clone()).await.unwrap();
    let response = get_path(server.address, "/metrics").await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains(&format!("content-type: {OPEN_METRICS}\r\n")), "{response}");
    assert!(response.contains("ensemble_build_info{version=\"1.2.3\"} 1\n"), "{response}");
    assert!(get_path(server.address, "/debug").await.ends_with("more"));
    stop.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn rejects_insecure_address_other_than_loopback() {
    for address in ["0.0.0.0:0", "192.0.2.1:8443", "[::]:0"] {
        let address = address.parse().unwrap();
        let result = serve(address, Access::Insecure, meter(), None, CancellationToken::new()).await;
        let error = format!("{:#}", result.expect_err("the address must be rejected"));
        assert!(error.contains("--metrics-secure=false") && error.contains("127.0.0.1"), "{error}");
    }
    for address in ["127.0.0.1:1", "[::1]:1"] {
        check_address(address.parse().unwrap(), false).unwrap();
    }
}

#[tokio::test]
async fn error_names_address_in_use_and_flag() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let result = serve(address, Access::Insecure, meter(), None, CancellationToken::new()).await;
    let error = format!("{:#}", result.expect_err("the address is in use"));
    assert!(error.contains(&address.to_string()) && error.contains("--metrics-bind-address"), "{error}");
}

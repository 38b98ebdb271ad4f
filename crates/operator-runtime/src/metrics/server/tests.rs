use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

fn meter() -> Arc<Meter> {
    Arc::new(Meter::new("1.2.3", ["podset"]))
}

async fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn serves_loopback_without_authorization() {
    let stop = CancellationToken::new();
    let more = Router::new().route("/debug", get(async || "more"));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = serve(address, Door::Open, meter(), Some(more), stop.clone()).await.unwrap();
    let answer = ask(server.address, "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(&format!("content-type: {OPEN_METRICS}\r\n")), "{answer}");
    assert!(answer.contains("ensemble_build_info{version=\"1.2.3\"} 1\n"), "{answer}");
    assert!(ask(server.address, "/debug").await.ends_with("more"));
    stop.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn rejects_insecure_address_other_than_loopback() {
    for address in ["0.0.0.0:0", "192.0.2.1:8443", "[::]:0"] {
        let address = address.parse().unwrap();
        let served = serve(address, Door::Open, meter(), None, CancellationToken::new()).await;
        let error = format!("{:#}", served.expect_err("it should be refused"));
        assert!(error.contains("--metrics-secure=false") && error.contains("127.0.0.1"), "{error}");
    }
    for address in ["127.0.0.1:1", "[::1]:1"] {
        may_listen(address.parse().unwrap(), false).unwrap();
    }
}

#[tokio::test]
async fn error_names_address_in_use_and_flag() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap();
    let served = serve(taken, Door::Open, meter(), None, CancellationToken::new()).await;
    let error = format!("{:#}", served.expect_err("it is taken"));
    assert!(error.contains(&taken.to_string()) && error.contains("--metrics-bind-address"), "{error}");
}

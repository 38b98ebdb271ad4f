//! Tests of the accept loop over plain HTTP, with well-behaved and hostile clients.

use std::sync::atomic::{AtomicU32, Ordering};

use axum::{body::Bytes, routing::post};
use futures::future::join_all;
use http_body_util::Full;
use hyper::client::conn::http2;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum requests of one HTTP/2 connection.
const MAX_STREAMS: u32 = Limits::short(1).streams;

struct TestServer {
    address: SocketAddr,
    task: JoinHandle<()>,
    stop: CancellationToken,
    /// Number of requests for `/never`.
    pending: Arc<AtomicU32>,
}

/// Starts a server that echoes bodies at `/` and never responds at `/never`.
async fn serve(limit: usize) -> TestServer {
    let pending = Arc::<AtomicU32>::default();
    let count = pending.clone();
    let never = post(async move || {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await;
    });
    let router = Router::new().route("/", post(async |body: Bytes| body)).route("/never", never);
    let (listener, address) = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let stop = CancellationToken::new();
    TestServer {
        address,
        task: spawn(listener, None, router_handler(router), Limits::short(limit), stop.clone()),
        stop,
        pending,
    }
}

impl TestServer {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Connects, sends a request, and returns the response.
    async fn post(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
            .await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        Ok(response)
    }

    async fn assert_responds(&self) {
        let response = timeout(TIMEOUT, self.post()).await.unwrap().unwrap();
        assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("hello"), "{response}");
    }
}

/// Waits until the server has closed the connection.
async fn until_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    drop(timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.expect("the connection must be closed"));
}

#[tokio::test]
async fn responds_and_stops() {
    let server = serve(4).await;
    server.assert_responds().await;
    server.stop.cancel();
    timeout(TIMEOUT, server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn stop_finishes_requests_within_grace_period() {
    let server = serve(4).await;
    let mut slow = server.connect().await;
    slow.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe").await.unwrap();
    let mut never = server.connect().await;
    never.write_all(b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    // A response to a later request shows that both have arrived.
    server.assert_responds().await;
    server.stop.cancel();
    slow.write_all(b"llo").await.unwrap();
    let mut response = String::new();
    slow.read_to_string(&mut response).await.unwrap();
    assert!(response.ends_with("hello"), "{response}");
    timeout(TIMEOUT, server.task).await.unwrap().unwrap();
}

/// Sends a request over an open HTTP/1.1 connection, and returns the head of the response.
async fn exchange(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await?;
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\nhi") {
        if stream.read_buf(&mut response).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(&response).to_lowercase())
}

/// The API server can send a review in the moment in which the server stops.
#[tokio::test]
async fn stop_answers_next_request_of_idle_connection_and_asks_to_close_it() {
    let server = serve(4).await;
    let (mut used, mut unused) = (server.connect().await, server.connect().await);
    assert!(!exchange(&mut used).await.unwrap().contains("connection: close"));
    server.assert_responds().await;
    server.stop.cancel();
    // The server still accepts connections, and has seen the signal before it responds.
    server.assert_responds().await;
    for stream in [&mut used, &mut unused] {
        assert!(exchange(stream).await.unwrap().contains("connection: close"));
    }
    until_closed(used).await;
    timeout(TIMEOUT, server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn stop_closes_idle_connection_soon() {
    let server = serve(4).await;
    let mut stream = server.connect().await;
    exchange(&mut stream).await.unwrap();
    server.stop.cancel();
    until_closed(stream).await;
    timeout(TIMEOUT, server.task).await.unwrap().unwrap();
}

/// Go's clients close a connection that is idle for 90 s. Their request fails if the server is first.
#[tokio::test]
async fn connection_stays_open_for_as_long_as_clients_keep_it() {
    let server = serve(4).await;
    let [mut used, mut unused] = [server.connect().await, server.connect().await];
    exchange(&mut used).await.unwrap();
    for _ in 0..9 {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::time::resume();
        // Lets the server handle timers that have expired.
        server.assert_responds().await;
    }
    exchange(&mut used).await.unwrap();
    exchange(&mut unused).await.unwrap();
}

/// hyper bounds the headers of the first request only. The idle timeout bounds those of the others.
#[tokio::test]
async fn closes_used_connection_whose_next_headers_stall() {
    let server = serve(4).await;
    let mut stream = server.connect().await;
    exchange(&mut stream).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHo").await.unwrap();
    // A response to a later request shows that the bytes have arrived.
    server.assert_responds().await;
    tokio::time::pause();
    tokio::time::advance(activity::IDLE_TIMEOUT).await;
    tokio::time::resume();
    until_closed(stream).await;
}

#[tokio::test]
async fn serves_clients_despite_thousands_of_idle_connections() {
    const COUNT: usize = 5000;
    const LIMIT: usize = 64;
    let server = serve(LIMIT).await;
    // In batches, to stay below the default limit of open files.
    let mut open = Vec::new();
    for _ in 0..COUNT / 100 {
        let more: Vec<TcpStream> = join_all((0..100).map(|_| server.connect())).await;
        open.extend(more);
        server.assert_responds().await;
        let surplus = open.len().saturating_sub(LIMIT);
        join_all(open.drain(..surplus).map(until_closed)).await;
    }
}

#[tokio::test]
async fn keeps_connection_in_use_when_idle_connections_exceed_limit() {
    let server = serve(8).await;
    let mut in_use = server.connect().await;
    let mut responses = 0;
    for _ in 0..20 {
        in_use.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"hi") {
            assert_ne!(in_use.read_buf(&mut response).await.unwrap(), 0, "the connection was closed");
        }
        responses += 1;
        drop(join_all((0..20).map(|_| server.connect())).await);
    }
    assert_eq!(responses, 20);
}

#[tokio::test]
async fn closes_connections_without_request() {
    let server = serve(16).await;
    let mut started = vec![server.connect().await];
    for head in [&b"PRI * HT"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST / HTTP/1.1\r\nHo"] {
        let mut stream = server.connect().await;
        stream.write_all(head).await.unwrap();
        started.push(stream);
    }
    // A response to a later request shows that the bytes have arrived.
    server.assert_responds().await;
    tokio::time::pause();
    tokio::time::advance(activity::IDLE_TIMEOUT).await;
    tokio::time::resume();
    join_all(started.into_iter().map(until_closed)).await;
    server.assert_responds().await;
}

#[tokio::test]
async fn serves_clients_despite_slow_headers_and_bodies() {
    let server = serve(16).await;
    let heads: [&[u8]; 4] = [
        b"",
        b"PRI * HT",
        b"POST / HTTP/1.1\r\nHo",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nslow",
    ];
    let mut open = Vec::new();
    for number in 0..400 {
        let mut stream = server.connect().await;
        stream.write_all(heads[number % heads.len()]).await.unwrap();
        open.push(stream);
        if number % 50 == 49 {
            server.assert_responds().await;
        }
    }
}

async fn http2(server: &TestServer) -> (http2::SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = TokioIo::new(server.connect().await);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    (sender, tokio::spawn(connection))
}

#[tokio::test]
async fn closes_connection_with_many_cancelled_requests() {
    let server = serve(16).await;
    let (sender, connection) = http2(&server).await;
    let mut ends = 0;
    for _ in 0..activity::MAX_CANCELLED * 20 {
        let request = Request::post("http://a/never").body(Full::default()).unwrap();
        let mut sender = sender.clone();
        if sender.ready().await.is_err() {
            ends += 1;
            break;
        }
        let mut response = Box::pin(sender.send_request(request));
        // Dropping the future resets the stream.
        drop(futures::poll!(&mut response));
        tokio::task::yield_now().await;
    }
    if ends == 0 {
        drop(sender);
    }
    drop(timeout(TIMEOUT, connection).await.expect("the connection must be closed").unwrap());
    assert_eq!(ends, 1);
    server.assert_responds().await;
}

#[tokio::test]
async fn limits_concurrent_streams_of_connection() {
    let server = serve(16).await;
    let (mut sender, _connection) = http2(&server).await;
    let mut pending = Vec::new();
    for _ in 0..2 * MAX_STREAMS {
        sender.ready().await.unwrap();
        pending.push(sender.send_request(Request::post("http://a/never").body(Full::default()).unwrap()));
    }
    let arrived = || server.pending.load(Ordering::Relaxed);
    timeout(TIMEOUT, async {
        while arrived() < MAX_STREAMS {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    server.assert_responds().await;
    assert_eq!(arrived(), MAX_STREAMS);
}

//! The accept loop, by plain HTTP from clients of every sort.

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

const PATIENCE: Duration = Duration::from_secs(30);

struct Served {
    address: SocketAddr,
    ended: JoinHandle<()>,
    stop: CancellationToken,
    /// Requests that were never answered.
    waiting: Arc<AtomicU32>,
}

/// Echoes bodies at `/`, and never answers at `/never`.
async fn serve(limit: usize) -> Served {
    let waiting = Arc::<AtomicU32>::default();
    let count = waiting.clone();
    let never = post(async move || {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await;
    });
    let router = Router::new().route("/", post(async |body: Bytes| body)).route("/never", never);
    let (listener, address) = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let stop = CancellationToken::new();
    Served { address, ended: spawn(listener, None, router, limit, stop.clone()), stop, waiting }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Connects as an API server does, and sends a request.
    async fn ask(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn assert_answers(&self) {
        let answer = timeout(PATIENCE, self.ask()).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    }
}

/// Waits until the other side has closed the connection, whichever way.
async fn until_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    drop(timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it should be closed"));
}

#[tokio::test]
async fn requests_are_answered_and_end_with_the_server() {
    let served = serve(4).await;
    served.assert_answers().await;
    served.stop.cancel();
    timeout(PATIENCE, served.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_stops_lets_a_request_end_but_does_not_wait_for_ever() {
    let served = serve(4).await;
    let mut slow = served.connect().await;
    slow.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe").await.unwrap();
    let mut never = served.connect().await;
    never.write_all(b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    // Both have arrived once a later one was answered.
    served.assert_answers().await;
    served.stop.cancel();
    slow.write_all(b"llo").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
    timeout(PATIENCE, served.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn thousands_of_idle_connections_do_not_keep_others_out() {
    const COUNT: usize = 5000;
    const LIMIT: usize = 64;
    let served = serve(LIMIT).await;
    // Some at a time, so that no more files are open here than a process usually may have.
    let mut open = Vec::new();
    for _ in 0..COUNT / 100 {
        let more: Vec<TcpStream> = join_all((0..100).map(|_| served.connect())).await;
        open.extend(more);
        served.assert_answers().await;
        let surplus = open.len().saturating_sub(LIMIT);
        join_all(open.drain(..surplus).map(until_closed)).await;
    }
}

#[tokio::test]
async fn a_connection_in_use_is_kept_when_idle_ones_crowd_in() {
    let served = serve(8).await;
    let mut used = served.connect().await;
    let mut answers = 0;
    for _ in 0..20 {
        used.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hi") {
            assert_ne!(used.read_buf(&mut answer).await.unwrap(), 0, "the connection was closed");
        }
        answers += 1;
        drop(join_all((0..20).map(|_| served.connect())).await);
    }
    assert_eq!(answers, 20);
}

/// Takes ten seconds: the real deadline.
#[tokio::test]
async fn whoever_sends_no_request_is_disconnected() {
    let served = serve(16).await;
    let mut began = vec![served.connect().await];
    for head in [&b"PRI * HT"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST / HTTP/1.1\r\nHo"] {
        let mut stream = served.connect().await;
        stream.write_all(head).await.unwrap();
        began.push(stream);
    }
    join_all(began.into_iter().map(until_closed)).await;
    served.assert_answers().await;
}

#[tokio::test]
async fn slow_heads_and_slow_bodies_do_not_keep_others_out() {
    let served = serve(16).await;
    let heads: [&[u8]; 4] = [
        b"",
        b"PRI * HT",
        b"POST / HTTP/1.1\r\nHo",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nslow",
    ];
    let mut open = Vec::new();
    for number in 0..400 {
        let mut stream = served.connect().await;
        stream.write_all(heads[number % heads.len()]).await.unwrap();
        open.push(stream);
        if number % 50 == 49 {
            served.assert_answers().await;
        }
    }
}

async fn http2(served: &Served) -> (http2::SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = TokioIo::new(served.connect().await);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    (sender, tokio::spawn(connection))
}

#[tokio::test]
async fn a_client_that_keeps_giving_requests_up_is_disconnected() {
    let served = serve(16).await;
    let (sender, connection) = http2(&served).await;
    let mut ends = 0;
    for _ in 0..activity::GIVEN_UP * 20 {
        let request = Request::post("http://a/never").body(Full::default()).unwrap();
        let mut sender = sender.clone();
        if sender.ready().await.is_err() {
            ends += 1;
            break;
        }
        let mut response = Box::pin(sender.send_request(request));
        // Sent, then given up: dropping it resets the stream.
        drop(futures::poll!(&mut response));
        tokio::task::yield_now().await;
    }
    if ends == 0 {
        drop(sender);
    }
    drop(timeout(PATIENCE, connection).await.expect("it should be disconnected").unwrap());
    assert_eq!(ends, 1);
    served.assert_answers().await;
}

#[tokio::test]
async fn one_connection_has_no_more_streams_than_it_may() {
    let served = serve(16).await;
    let (mut sender, _connection) = http2(&served).await;
    let mut waiting = Vec::new();
    for _ in 0..2 * STREAMS {
        sender.ready().await.unwrap();
        waiting.push(sender.send_request(Request::post("http://a/never").body(Full::default()).unwrap()));
    }
    let arrived = || served.waiting.load(Ordering::Relaxed);
    timeout(PATIENCE, async {
        while arrived() < STREAMS {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    served.assert_answers().await;
    assert_eq!(arrived(), STREAMS);
}

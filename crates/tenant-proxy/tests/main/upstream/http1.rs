//! HTTP/1.1 as far as caches and requests for another protocol need it. All bytes are recorded.

use http::Version;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};
use tokio_rustls::server::TlsStream;

use super::{Answer, Recorded, Upstream};

/// The usual answer to a request for another protocol.
pub(super) const REFUSED: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\n\r\nrefused";

type Stream = TlsStream<TcpStream>;

/// Serves a connection until the client closes it.
pub(super) async fn serve(mut stream: Stream, alpn: Option<String>, upstream: Upstream) {
    let mut rest = Vec::new();
    while let Some(head) = head(&mut stream, &mut rest).await {
        let request = parse(&head, alpn.clone());
        let index = upstream.record(request.clone());
        if request.is_upgrade() {
            return switch(stream, rest, index, &upstream).await;
        }
        let answer = upstream.answer_to(&request);
        let (is_endless, end) = (answer.is_endless, upstream.next_end());
        if answer.is_withheld {
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return;
        }
        if stream.write_all(&bytes(answer)).await.is_err() || is_endless {
            // A watch without events lasts until the client goes.
            let mut rest = Vec::new();
            tokio::select! {
                _ = stream.read_to_end(&mut rest) => {}
                () = end => {}
            }
            return;
        }
    }
}

/// Reads up to the empty line after the headers. What follows stays in `rest`.
async fn head(stream: &mut Stream, rest: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = position(rest, b"\r\n\r\n") {
            let after = rest.split_off(end + 4);
            return Some(std::mem::replace(rest, after));
        }
        if stream.read_buf(rest).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn parse(mut head: &[u8], alpn: Option<String>) -> Recorded {
    let mut lines = Vec::new();
    while let Some(end) = position(head, b"\r\n") {
        lines.push(&head[..end]);
        head = &head[end + 2..];
    }
    let first = text(lines[0]);
    let mut first = first.split(' ').map(str::to_owned);
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let header = |line: &&[u8]| {
        let colon = position(line, b": ")?;
        Some((text(&line[..colon]).to_ascii_lowercase(), line[colon + 2..].to_vec()))
    };
    let headers = lines[1..].iter().filter_map(header).collect();
    Recorded {
        version: Version::HTTP_11,
        alpn,
        method,
        target,
        headers,
        body: Vec::new(),
        trailers: Vec::new(),
        bytes_before_answer: 0,
        is_complete: false,
    }
}

fn bytes(answer: Answer) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} X\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.extend([*name, ": ", value, "\r\n"]);
    }
    let length = if answer.is_endless {
        "Transfer-Encoding: chunked".to_owned()
    } else {
        format!("Content-Length: {}", answer.body.len())
    };
    [format!("{head}{length}\r\n\r\n").into_bytes(), answer.body].concat()
}

/// Answers a request for another protocol when the test says how, and records what comes.
async fn switch(mut stream: Stream, first: Vec<u8>, index: usize, upstream: &Upstream) {
    upstream.update(index, |request| request.body = first);
    let mut switched = upstream.0.switched.subscribe();
    let mut is_answered = false;
    let mut buffer = Vec::new();
    loop {
        tokio::select! {
            read = stream.read_buf(&mut buffer) => {
                let is_complete = read.unwrap_or(0) == 0;
                upstream.update(index, |request| {
                    request.body.append(&mut buffer);
                    request.is_complete = is_complete;
                });
                if is_complete {
                    return;
                }
            }
            answer = chosen(&mut switched), if !is_answered => {
                is_answered = true;
                upstream.update(index, |request| request.bytes_before_answer = request.body.len());
                // A broken connection ends the next read.
                let _ = stream.write_all(&answer).await;
            }
        }
    }
}

/// Waits until the test says how to answer.
async fn chosen(switched: &mut watch::Receiver<Option<Vec<u8>>>) -> Vec<u8> {
    let answer = switched.wait_for(Option::is_some).await;
    answer.ok().and_then(|answer| answer.clone()).unwrap_or_default()
}

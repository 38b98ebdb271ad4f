//! An HTTP proxy for CONNECT on a Unix socket: the API server's egress selector connects through it
//! to kubelets, webhooks, and aggregated API servers.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The API server's requests have about 150 bytes.
const MAX_HEAD: usize = 4096;
const ESTABLISHED: &str = "HTTP/1.1 200 Connection established";
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
/// As long as the API server waits.
const DIAL_PATIENCE: Duration = Duration::from_secs(30);
const MAX_CONNECTIONS: usize = 4096;
const PAUSE: Duration = Duration::from_millis(50);

/// Serves CONNECT requests. Connections start in the network namespace of this thread.
pub(super) async fn serve(listener: UnixListener) -> Result<()> {
    listener.set_nonblocking(true).context("prepare the listener of the API server's proxy")?;
    let listener = tokio::net::UnixListener::from_std(listener).context("listen for the proxy")?;
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await?;
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(async move {
                // The API server reports a failed connection.
                let _ = connect(client).await;
                drop(permit);
            })),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Connects to a server through the proxy at `socket`.
pub(super) async fn connect_through(socket: PathBuf, server: SocketAddr) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(format!("CONNECT {server} HTTP/1.1\r\n\r\n").as_bytes()).await?;
    let answer = read_head(&mut stream).await.map_err(io::Error::other)?;
    if answer.starts_with(ESTABLISHED) { Ok(stream) } else { Err(io::Error::other(answer)) }
}

async fn connect(mut client: UnixStream) -> Result<()> {
    let request = timeout(REQUEST_PATIENCE, read_head(&mut client)).await.context("read a request")??;
    let dialed = match target(&request) {
        Some(target) => timeout(DIAL_PATIENCE, TcpStream::connect(target)).await,
        None => return refuse(&mut client, "400 Bad Request").await,
    };
    let Ok(Ok(mut server)) = dialed else { return refuse(&mut client, "502 Bad Gateway").await };
    client.write_all(format!("{ESTABLISHED}\r\n\r\n").as_bytes()).await.context("answer a request")?;
    copy_bidirectional(&mut client, &mut server).await.context("copy between the API server and a node")?;
    Ok(())
}

async fn refuse(client: &mut UnixStream, status: &str) -> Result<()> {
    client
        .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())
        .await
        .context("refuse a request")
}

/// Reads a request or an answer up to the end of its header, and not a byte more.
async fn read_head(stream: &mut UnixStream) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            bail!("the header is longer than {MAX_HEAD} bytes");
        }
        head.push(stream.read_u8().await.context("read a header")?);
    }
    String::from_utf8(head).context("the header is not UTF-8")
}

/// Returns the target of a CONNECT request.
fn target(request: &str) -> Option<&str> {
    let mut words = request.lines().next()?.split(' ');
    (words.next()? == "CONNECT").then(|| words.next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(request: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("proxy.sock");
        let server = tokio::spawn(serve(UnixListener::bind(&path).unwrap()));
        let mut client = UnixStream::connect(&path).await.unwrap();
        // The proxy may have refused the request, and closed the connection, before it is complete.
        let _ = client.write_all(request.as_bytes()).await;
        let _ = client.shutdown().await;
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer).await;
        server.abort();
        answer
    }

    #[tokio::test]
    async fn copies_bytes_both_ways_until_each_side_closes() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = String::new();
            stream.read_to_string(&mut question).await.unwrap();
            stream.write_all(format!("{question}!").as_bytes()).await.unwrap();
        });
        let answer = ask(&format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\nhello")).await;
        assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nhello!");
        server.await.unwrap();
    }

    #[tokio::test]
    async fn refuses_other_methods_and_unreachable_targets() {
        assert!(ask("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400"));
        assert!(ask("CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 502"));
        assert_eq!(ask(&format!("CONNECT {}", "a".repeat(5000))).await, "");
    }
}

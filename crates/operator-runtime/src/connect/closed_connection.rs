//! Reads whose connection was closed are repeated.
//!
//! A client keeps connections for later requests. If the server closes one in the moment in which a
//! request is sent on it, there is no response. Go's `net/http`, and with it client-go, repeats such
//! requests if they change nothing.

use std::io;

use anyhow::Chain;
use http::{Method, Request, Response};
use kube::{Client, client::Body};

/// Returns the response to a request. A `GET` is sent once more if its connection was closed before
/// the response.
///
/// # Errors
/// Returns the errors of [`Client::send`].
pub(super) async fn send(client: &Client, request: Request<Body>) -> kube::Result<Response<Body>> {
    if request.method() != Method::GET {
        return client.send(request).await;
    }
    let (head, body) = request.into_parts();
    match client.send(Request::from_parts(head.clone(), body)).await {
        // No read of the Kubernetes API has a body.
        Err(error) if is_closed_connection(&error) => {
            client.send(Request::from_parts(head, Body::empty())).await
        }
        response => response,
    }
}

fn is_closed_connection(error: &kube::Error) -> bool {
    Chain::new(error).any(|error| {
        let is_incomplete = error.downcast_ref().is_some_and(hyper::Error::is_incomplete_message);
        is_incomplete || error.downcast_ref().is_some_and(|error: &io::Error| is_disconnection(error.kind()))
    })
}

fn is_disconnection(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, Config, api::PostParams};
    use operator_core::metrics::NoMetrics;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    /// Counts requests. Responds to the first request of a connection, and closes the connection when
    /// the second one has arrived.
    async fn serve_one(mut stream: TcpStream, requests: Arc<AtomicUsize>) -> std::io::Result<()> {
        let body = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}"#;
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        for is_answered in [true, false] {
            let mut head = Vec::new();
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                if stream.read_buf(&mut head).await? == 0 {
                    return Ok(());
                }
            }
            requests.fetch_add(1, Ordering::Relaxed);
            if is_answered {
                stream.write_all(response.as_bytes()).await?;
            }
        }
        Ok(())
    }

    #[tokio::test]
    async fn reads_are_repeated_and_writes_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let requests = Arc::<AtomicUsize>::default();
        let count = requests.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_one(stream, count.clone()));
            }
        });
        let client = super::super::connect_to(config, Arc::new(NoMetrics)).unwrap();
        let maps = Api::<ConfigMap>::namespaced(client, "shop");
        let requests = || requests.load(Ordering::Relaxed);
        maps.get("settings").await.unwrap();
        assert_eq!(requests(), 1);
        maps.get("settings").await.unwrap();
        assert_eq!(requests(), 3, "the second request has got no response and was sent once more");
        let failed = maps.create(&PostParams::default(), &ConfigMap::default()).await;
        assert!(failed.is_err(), "{failed:?}");
        assert_eq!(requests(), 4);
        server.abort();
    }
}

//! Requests to a member by HTTP: the probe of a kubelet, and the scrape of Prometheus.

use std::{io, net::IpAddr, time::Duration};

use postgres_model::{metrics, status_api::PROBE_PORT};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::member::Member;

/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(1);
/// How long a scrape may take: the default of Prometheus.
const SCRAPE: Duration = Duration::from_secs(10);

/// Returns whether an instance is ready.
pub(crate) async fn is_ready(address: IpAddr) -> bool {
    let probe = request(address, PROBE_PORT, "GET", "/readyz");
    matches!(timeout(PROBE, probe).await, Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200"))
}

impl Member {
    /// Sends a request to the address of the metrics. Returns the head and the body of the response.
    ///
    /// # Errors
    /// Returns an error if the member does not answer in time.
    pub async fn metrics(&self, method: &str, path: &str) -> io::Result<(String, String)> {
        let answer = timeout(SCRAPE, request(self.address, metrics::PORT, method, path)).await??;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        Ok((head.to_owned(), body.to_owned()))
    }
}

/// Sends a request on a connection of its own. Returns the response.
async fn request(address: IpAddr, port: u16, method: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((address, port)).await?;
    let head = format!("{method} {path} HTTP/1.1\r\nhost: member\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

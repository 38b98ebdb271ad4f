//! The readiness probe of a kubelet.

use std::{net::IpAddr, time::Duration};

use postgres_model::status_api::PROBE_PORT;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a probe may take.
const LIMIT: Duration = Duration::from_secs(1);

/// Returns whether an instance is ready.
pub(crate) async fn is_ready(address: IpAddr) -> bool {
    let probe = async {
        let mut stream = TcpStream::connect((address, PROBE_PORT)).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: kubelet\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer.starts_with(b"HTTP/1.1 200"))
    };
    matches!(timeout(LIMIT, probe).await, Ok(Ok(true)))
}

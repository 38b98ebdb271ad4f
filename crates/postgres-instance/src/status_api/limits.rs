//! Limits for the clients of the status API.

use std::time::Duration;

use postgres_model::status_api::MAX_WAIT;

/// Most bytes of the head of a request. The HTTP library accepts no lower limit.
pub(super) const MAX_HEAD: usize = 8 << 10;
/// Most headers of a request.
pub(super) const MAX_HEADERS: usize = 64;
/// Most bytes of the body of a request.
pub(super) const MAX_BODY: usize = 1 << 10;

/// Limits for the clients of the status API. Tests choose shorter times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most open connections of one address.
    pub connections: usize,
    /// Timeout of the TLS handshake, and of the first request of a client without TLS.
    pub handshake: Duration,
    /// Timeout from the handshake or a response to the end of the head of the next request.
    pub idle: Duration,
    /// Maximum age of a connection. A request in progress is finished.
    pub age: Duration,
    /// Timeout of the body of a request.
    pub body: Duration,
    /// Timeout of a seal.
    pub seal: Duration,
    /// How long a backup may take to begin.
    pub backup: Duration,
    /// Minimum time between two reads of the certificates. A new connection triggers the read.
    pub certificate_refresh: Duration,
}

impl Limits {
    /// Returns how long the last request of a connection can take: its body, its answer, and the time
    /// in which the client reads the answer.
    pub(super) fn last_request(&self) -> Duration {
        self.body + MAX_WAIT.max(self.seal) + self.body
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            handshake: Duration::from_secs(10),
            // Longer than clients keep idle connections, so that they close them first.
            idle: Duration::from_mins(2),
            age: Duration::from_hours(1),
            body: Duration::from_secs(5),
            seal: Duration::from_secs(30),
            backup: Duration::from_secs(3),
            certificate_refresh: Duration::from_secs(1),
        }
    }
}

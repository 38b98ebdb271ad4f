//! Clients for other addresses of the API server, such as a proxy in front of it.

use std::sync::Arc;

use http::Uri;
use kube::Client;

use crate::{client::Clients, fence::Fence};

/// Address of an API server, and how its certificate is verified. The credentials are those of the
/// process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Address of the server. `None`: the address that the process uses.
    pub url: Option<Uri>,
    /// Certificates of the authorities of the server, in DER. `None`: those that the process trusts.
    pub authorities: Option<Vec<Vec<u8>>>,
    /// Whether any certificate of the server is accepted.
    pub skip_tls_verify: bool,
}

/// Creates a client for an endpoint. Must be called within a Tokio runtime.
pub type Connect = Arc<dyn Fn(&Endpoint) -> kube::Result<Client> + Send + Sync>;

/// Reason why there is no client for an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// [`Environment::connect`](crate::Environment::connect) is not set.
    #[error("this process can connect to its own API server only")]
    Unsupported,
    /// The endpoint has no valid address, or no valid certificates.
    #[error("cannot use the endpoint")]
    Invalid(#[source] kube::Error),
}

/// Connects a controller to endpoints.
#[derive(Clone)]
pub struct Connector {
    clients: Clients,
    connect: Option<Connect>,
    name: &'static str,
    fence: Fence,
}

impl Connector {
    /// Returns the connector of the controller with this name. A controller gets its own from
    /// [`ControllerBuilder::connector`](crate::ControllerBuilder::connector).
    pub fn new(clients: Clients, connect: Option<Connect>, name: &'static str, fence: Fence) -> Self {
        Self { clients, connect, name, fence }
    }

    /// Returns a client with connections of its own. It shares the limit on requests in flight with
    /// the client of the controller, and its writes fail if this replica does not lead.
    ///
    /// # Errors
    /// Returns an error if the process cannot connect to endpoints, or if the endpoint is invalid.
    pub fn client(&self, endpoint: &Endpoint) -> Result<Client, ConnectError> {
        let connect = self.connect.as_ref().ok_or(ConnectError::Unsupported)?;
        let client = connect(endpoint).map_err(ConnectError::Invalid)?;
        Ok(self.clients.with_connections(client).fenced(self.name, self.fence.clone()))
    }
}

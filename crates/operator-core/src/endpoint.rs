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

    /// Returns a client with connections and a limit on requests in flight of its own, so that an
    /// endpoint that does not respond delays no other requests. Its writes fail if this replica does
    /// not lead.
    ///
    /// # Errors
    /// Returns an error if the process cannot connect to endpoints, or if the endpoint is invalid.
    pub fn client(&self, endpoint: &Endpoint) -> Result<Client, ConnectError> {
        let connect = self.connect.as_ref().ok_or(ConnectError::Unsupported)?;
        let client = connect(endpoint).map_err(ConnectError::Invalid)?;
        Ok(self.clients.with_connections(client).fenced(self.name, self.fence.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::client::MAX_IN_FLIGHT;

    fn silent() -> Client {
        let service = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        Client::new(service, "default")
    }

    fn responsive() -> Client {
        let service = service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        Client::new(service, "default")
    }

    fn request() -> Request<Body> {
        Request::get("/api/v1/pods").body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn endpoint_that_does_not_respond_delays_no_other_requests() {
        let clients = Clients::new(responsive());
        let connector =
            Connector::new(clients.clone(), Some(Arc::new(|_| Ok(silent()))), "test", Fence::open());
        let client = connector.client(&Endpoint::default()).unwrap();
        let waiting: Vec<_> = (0..=MAX_IN_FLIGHT)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.send(request()).await.is_ok() })
            })
            .collect();
        tokio::task::yield_now().await;
        clients.named("other").send(request()).await.unwrap();
        assert!(waiting.iter().all(|request| !request.is_finished()));
    }
}

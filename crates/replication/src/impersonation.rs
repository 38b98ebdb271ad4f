//! Clients that act as ServiceAccounts.

use std::collections::VecDeque;

use http::{HeaderName, HeaderValue, Request, header::InvalidHeaderValue};
use kube::{Client, client::Body};
use operator_core::endpoint::{ConnectError, Connector, Endpoint};
use parking_lot::Mutex;
use tower::service_fn;

use crate::identity::Identity;

/// Header with the user to act as. The API server adds the groups of a ServiceAccount.
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
/// Number of clients that are kept. All share connections and limits: those of the manager's client,
/// or those of the endpoint.
const MAX_CLIENTS: usize = 32;

/// Reason why no client acts as an account.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ActError {
    /// The name cannot be sent. The schema rejects such names.
    #[error("the name cannot be sent")]
    Name(#[from] InvalidHeaderValue),
    /// The endpoint cannot be used.
    #[error("cannot connect as spec.impersonation of the CapsuleConfiguration says")]
    Connect(#[from] ConnectError),
}

/// Returns clients for identities.
pub(crate) struct ImpersonatingClients {
    client: Client,
    connector: Connector,
    recent: Mutex<Recent>,
}

/// Connections to the endpoint, and the clients that use them.
#[derive(Default)]
struct Recent {
    /// `None`: the clients use the connections of the manager.
    connections: Option<(Endpoint, Client)>,
    clients: VecDeque<(String, Client)>,
}

impl ImpersonatingClients {
    /// Returns clients that send with `client`, the client of the controller, or to an endpoint.
    pub(crate) fn new(client: Client, connector: Connector) -> Self {
        Self { client, connector, recent: Mutex::default() }
    }

    /// Returns the client that acts as an identity. Requests of accounts go to the endpoint, if there
    /// is one. A change of the endpoint ends the connections to the former one.
    ///
    /// # Errors
    /// Returns an error if the endpoint cannot be used, or if the name cannot be sent.
    pub(crate) fn of(&self, identity: &Identity, endpoint: Option<Endpoint>) -> Result<Client, ActError> {
        let user = match identity {
            Identity::Manager => return Ok(self.client.clone()),
            Identity::Account(account) => account.user_name(),
        };
        let mut recent = self.recent.lock();
        if recent.connections.as_ref().map(|(endpoint, _)| endpoint) != endpoint.as_ref() {
            let connect = |endpoint| {
                let client = self.connector.client(&endpoint)?;
                Ok::<_, ConnectError>((endpoint, client))
            };
            *recent = Recent { connections: endpoint.map(connect).transpose()?, ..Recent::default() };
        }
        if let Some((_, client)) = recent.clients.iter().find(|(name, _)| *name == user) {
            return Ok(client.clone());
        }
        let client = recent.connections.as_ref().map_or(&self.client, |(_, client)| client);
        let client = act_as(client, &user)?;
        recent.clients.truncate(MAX_CLIENTS - 1);
        recent.clients.push_front((user, client.clone()));
        Ok(client)
    }
}

fn act_as(client: &Client, user: &str) -> Result<Client, InvalidHeaderValue> {
    let (user, namespace) = (HeaderValue::from_str(user)?, client.default_namespace().to_owned());
    let client = client.clone();
    let service = service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(IMPERSONATE_USER, user.clone());
        let client = client.clone();
        async move { client.send(request).await }
    });
    Ok(Client::new(service, namespace))
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use capsule::api::v1beta2::ServiceAccountReference;
    use http::Response;
    use operator_core::{client::Clients, error::chain, fence::Fence};

    use super::*;

    fn account(name: &str) -> Identity {
        Identity::Account(ServiceAccountReference { name: name.to_owned(), namespace: "oil".to_owned() })
    }

    /// The server and the user of each request.
    type Requests = Arc<Mutex<Vec<(String, Option<String>)>>>;

    fn recording(server: &str, requests: &Requests) -> Client {
        let (server, requests) = (server.to_owned(), requests.clone());
        let service = service_fn(move |request: Request<Body>| {
            let user = request.headers().get(IMPERSONATE_USER).map(|user| user.to_str().unwrap().to_owned());
            requests.lock().push((server.clone(), user));
            async { Ok::<_, io::Error>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        Client::new(service, "default")
    }

    fn clients(requests: &Requests) -> ImpersonatingClients {
        let (own, recorded) = (recording("own", requests), requests.clone());
        let connect = move |endpoint: &Endpoint| {
            let url = endpoint.url.as_ref().map(ToString::to_string).unwrap_or_default();
            Ok(recording(&url, &recorded))
        };
        let connector =
            Connector::new(Clients::new(own.clone()), Some(Arc::new(connect)), "test", Fence::open());
        ImpersonatingClients::new(own, connector)
    }

    fn endpoint(url: &'static str) -> Endpoint {
        Endpoint { url: Some(url.parse().unwrap()), ..Endpoint::default() }
    }

    async fn send(clients: &ImpersonatingClients, identity: &Identity, endpoint: Option<Endpoint>) {
        let request = Request::get("/version").body(Body::empty()).unwrap();
        clients.of(identity, endpoint).unwrap().send(request).await.unwrap();
    }

    fn sent(server: &str, name: &str) -> (String, Option<String>) {
        (server.to_owned(), Some(format!("system:serviceaccount:oil:{name}")))
    }

    #[tokio::test]
    async fn each_request_names_the_account_and_few_clients_are_kept() {
        let requests = Requests::default();
        let clients = clients(&requests);
        for identity in [account("a"), account("b"), account("a"), Identity::Manager] {
            send(&clients, &identity, None).await;
        }
        let expected = [sent("own", "a"), sent("own", "b"), sent("own", "a"), ("own".to_owned(), None)];
        assert_eq!(*requests.lock(), expected);
        for number in 0..100 {
            clients.of(&account(&format!("n{number}")), None).unwrap();
        }
        assert_eq!(clients.recent.lock().clients.len(), MAX_CLIENTS);
        assert!(clients.of(&account("line\nbreak"), None).is_err());
    }

    #[tokio::test]
    async fn requests_of_accounts_follow_the_endpoint_and_those_of_the_manager_do_not() {
        let requests = Requests::default();
        let clients = clients(&requests);
        let (one, two) = ("https://one:1/", "https://two:2/");
        for at in [None, Some(endpoint(one)), Some(endpoint(one)), Some(endpoint(two)), None] {
            send(&clients, &account("a"), at).await;
        }
        send(&clients, &Identity::Manager, Some(endpoint(one))).await;
        let accounts = ["own", one, one, two, "own"].map(|server| sent(server, "a"));
        let expected: Vec<_> = accounts.into_iter().chain([("own".to_owned(), None)]).collect();
        assert_eq!(*requests.lock(), expected);
    }

    #[tokio::test]
    async fn process_that_cannot_connect_elsewhere_says_so() {
        let own = recording("own", &Requests::default());
        let connector = Connector::new(Clients::new(own.clone()), None, "test", Fence::open());
        let clients = ImpersonatingClients::new(own, connector);
        let error = clients.of(&account("a"), Some(endpoint("https://one:1"))).err().unwrap();
        assert!(chain(&error).ends_with("this process can connect to its own API server only"), "{error:?}");
    }
}

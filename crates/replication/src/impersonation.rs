//! Clients that act as ServiceAccounts.

use std::collections::VecDeque;

use http::{HeaderName, HeaderValue, Request, header::InvalidHeaderValue};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tower::service_fn;

use crate::identity::Identity;

/// Header with the user to act as. The API server adds the groups of a ServiceAccount.
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
/// Number of clients that are kept. All share the connections and the limits of the manager's
/// client.
const MAX_CLIENTS: usize = 32;

/// Returns clients for identities.
pub(crate) struct ImpersonatingClients {
    client: Client,
    recent: Mutex<VecDeque<(String, Client)>>,
}

impl ImpersonatingClients {
    /// Returns clients that send with `client`, the client of the controller.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, recent: Mutex::default() }
    }

    /// Returns the client that acts as an identity.
    ///
    /// # Errors
    /// Returns an error if the name cannot be sent. The schema rejects such names.
    pub(crate) fn of(&self, identity: &Identity) -> Result<Client, InvalidHeaderValue> {
        let user = match identity {
            Identity::Manager => return Ok(self.client.clone()),
            Identity::Account(account) => account.user_name(),
        };
        let mut recent = self.recent.lock();
        if let Some((_, client)) = recent.iter().find(|(name, _)| *name == user) {
            return Ok(client.clone());
        }
        let client = act_as(&self.client, &user)?;
        recent.truncate(MAX_CLIENTS - 1);
        recent.push_front((user, client.clone()));
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

    use super::*;

    fn account(name: &str) -> Identity {
        Identity::Account(ServiceAccountReference { name: name.to_owned(), namespace: "oil".to_owned() })
    }

    #[tokio::test]
    async fn each_request_names_the_account_and_few_clients_are_kept() {
        let users = Arc::new(Mutex::new(Vec::new()));
        let sent = users.clone();
        let service = service_fn(move |request: Request<Body>| {
            let user = request.headers().get(IMPERSONATE_USER).map(|user| user.to_str().unwrap().to_owned());
            sent.lock().push(user);
            async { Ok::<_, io::Error>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        let clients = ImpersonatingClients::new(Client::new(service, "default"));
        for identity in [account("a"), account("b"), account("a"), Identity::Manager] {
            let request = Request::get("/version").body(Body::empty()).unwrap();
            clients.of(&identity).unwrap().send(request).await.unwrap();
        }
        let user = |name: &str| Some(format!("system:serviceaccount:oil:{name}"));
        assert_eq!(*users.lock(), [user("a"), user("b"), user("a"), None]);
        for number in 0..100 {
            clients.of(&account(&format!("n{number}"))).unwrap();
        }
        assert_eq!(clients.recent.lock().len(), MAX_CLIENTS);
        assert!(clients.of(&account("line\nbreak")).is_err());
    }
}

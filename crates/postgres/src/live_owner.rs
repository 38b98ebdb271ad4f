//! The cluster that owns new objects. It is read live before the first of them is created.
//!
//! The cache can show a cluster after its deletion: a watch is late, or repeats what it has sent. Objects
//! that are created for it are left to the garbage collector, and volumes and backups to nobody.

use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    kind::{describe, is_deleting},
    owner::Owner,
    writer::Writer,
};
use tokio::sync::OnceCell;

use crate::{api::PostgresCluster, error::Error};

/// A cluster, for one reconcile.
pub(crate) struct LiveOwner<'a> {
    pub(crate) cluster: &'a PostgresCluster,
    pub(crate) owner: &'a Owner,
    clusters: &'a Writer<PostgresCluster>,
    exists: OnceCell<bool>,
}

impl<'a> LiveOwner<'a> {
    pub(crate) fn new(
        cluster: &'a PostgresCluster,
        owner: &'a Owner,
        clusters: &'a Writer<PostgresCluster>,
    ) -> Self {
        Self { cluster, owner, clusters, exists: OnceCell::new() }
    }

    /// Confirms that an object may be created for the cluster. Reads the cluster once.
    ///
    /// # Errors
    /// Returns [`Error::Deleted`] if the cluster was deleted, is being deleted, or was replaced, and
    /// another error if it cannot be read.
    pub(crate) async fn confirm(&self) -> Result<(), Error> {
        let exists = self.exists.get_or_try_init(|| self.read()).await?;
        if *exists {
            return Ok(());
        }
        Err(Error::Deleted(describe::<PostgresCluster>(&ObjectKey::of(self.cluster))))
    }

    async fn read(&self) -> Result<bool, Error> {
        let live = self.clusters.read(&ObjectKey::of(self.cluster)).await.map_err(Error::from_write)?;
        Ok(live.is_some_and(|live| live.uid() == self.cluster.uid() && !is_deleting(&live)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        convert::Infallible,
        future::{pending, ready},
        sync::Arc,
    };

    use hyper::{Request, Response};
    use kube::{Client, client::Body};
    use operator_core::informer::{Informers, Selection};
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;
    use crate::api::fixture::cluster;

    /// Requests, as `METHOD /path`.
    pub(crate) type Requests = Arc<Mutex<Vec<String>>>;

    /// Returns a client of an API server that has only these objects, by their paths.
    pub(crate) fn server(objects: Vec<(&'static str, Value)>) -> (Client, Requests) {
        let requests = Requests::default();
        let seen = requests.clone();
        let service = service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            seen.lock().push(format!("{} {path}", request.method()));
            let found = objects.iter().find(|(known, _)| *known == path).map(|(_, object)| object.clone());
            let status = if found.is_some() { 200 } else { 404 };
            let missing = json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": ""});
            let body = Body::from(found.unwrap_or(missing).to_string().into_bytes());
            ready(Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()))
        });
        (Client::new(service, "default"), requests)
    }

    /// Returns a writer whose cache gets nothing.
    pub(crate) fn writer(client: Client) -> Writer<PostgresCluster> {
        let silent = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        Writer::new(client, Informers::new(Client::new(silent, "default")).get(Selection::All))
    }

    pub(crate) const PATH: &str = "/apis/lukeb0nd.com/v1/namespaces/shop/postgresclusters/db";

    #[tokio::test]
    async fn deleted_cluster_owns_nothing_new_and_is_read_once() {
        let cached = cluster(&json!({}));
        let owner = Owner::controller(&cached, Some("shop")).unwrap();
        let live = |metadata: Value| {
            let mut object = json!({
                "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster", "spec": {},
                "metadata": {"name": "db", "namespace": "shop", "uid": "u-1"},
            });
            let fields = metadata.as_object().unwrap().clone();
            object["metadata"].as_object_mut().unwrap().extend(fields);
            vec![(PATH, object)]
        };
        let terminating = live(json!({"deletionTimestamp": "2026-11-25T10:00:00Z", "finalizers": ["x"]}));
        for (objects, exists) in [
            (live(json!({})), true),
            (live(json!({"uid": "u-2"})), false),
            (terminating, false),
            (vec![], false),
        ] {
            let (client, requests) = server(objects);
            let clusters = writer(client);
            let owner = LiveOwner::new(&cached, &owner, &clusters);
            for _ in 0..2 {
                let confirmed = owner.confirm().await.map_err(|error| error.to_string());
                assert_eq!(confirmed.is_ok(), exists, "{confirmed:?}");
                assert!(confirmed.err().is_none_or(|error| error.contains("PostgresCluster shop/db")));
            }
            assert_eq!(*requests.lock(), [format!("GET {PATH}")]);
        }
    }
}

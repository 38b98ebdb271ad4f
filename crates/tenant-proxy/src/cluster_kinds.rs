//! Which kinds are cluster-scoped, as the API server says.
//!
//! A rule of a GlobalProxySettings can be for all kinds. It must not show objects in namespaces.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::body::to_bytes;
use capsule::cluster_resources::Resource;
use http::{HeaderValue, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    error::ProxyError,
    upstream::{AsProxy, ProxyRequest, Target},
};

/// Time for which a response is used. A kind that is installed meanwhile is shown after it.
const LIFETIME: Duration = Duration::from_secs(10);
/// Most groups and versions that are cached.
const MAX_ENTRIES: usize = 1_000;
/// Most bytes of a response.
const MAX_BYTES: usize = 4 << 20;

/// Cache of the cluster-scoped kinds of each group and version.
#[derive(Default)]
pub struct ClusterKinds(Mutex<HashMap<(String, String), Entry>>);

#[derive(Clone)]
struct Entry {
    read: Instant,
    /// Plural names of the kinds that can be listed.
    kinds: Arc<HashSet<String>>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.read.elapsed() < LIFETIME
    }
}

impl ClusterKinds {
    /// Returns whether a kind is cluster-scoped and can be listed.
    ///
    /// # Errors
    /// Returns an error if the API server does not say it.
    pub async fn has(&self, api_server: &AsProxy, resource: &Resource) -> Result<bool, ProxyError> {
        let key = (resource.group.clone(), resource.version.clone());
        let cached = self.0.lock().get(&key).filter(|entry| entry.is_fresh()).cloned();
        let entry = match cached {
            Some(entry) => entry,
            None => self.read(api_server, key).await?,
        };
        Ok(entry.kinds.contains(&resource.plural))
    }

    async fn read(&self, api_server: &AsProxy, key: (String, String)) -> Result<Entry, ProxyError> {
        let (group, version) = key.clone();
        let accept = HeaderValue::from_static("application/json");
        let request = ProxyRequest { target: Target::Kinds { group, version }, query: String::new(), accept };
        let (response, _) = api_server.send(request).await?;
        let kinds = match response.status() {
            StatusCode::NOT_FOUND => HashSet::new(),
            StatusCode::OK => {
                let body = to_bytes(response.into_body(), MAX_BYTES).await.map_err(unreadable)?;
                kinds(&body).map_err(unreadable)?
            }
            status => return Err(unreadable(format!("it returned {status}"))),
        };
        let entry = Entry { read: Instant::now(), kinds: Arc::new(kinds) };
        let mut entries = self.0.lock();
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, entry| entry.is_fresh());
        }
        if entries.len() < MAX_ENTRIES {
            entries.insert(key, entry.clone());
        }
        Ok(entry)
    }
}

fn unreadable(error: impl std::fmt::Display) -> ProxyError {
    ProxyError::NoView(format!("the API server does not say which kinds are cluster-scoped: {error}"))
}

/// Returns the cluster-scoped kinds that can be listed.
fn kinds(body: &[u8]) -> Result<HashSet<String>, serde_json::Error> {
    let list: APIResourceList = serde_json::from_slice(body)?;
    let is_shown = |verbs: &[String]| verbs.iter().any(|verb| verb == "list");
    let shown = list.resources.into_iter().filter(|kind| !kind.namespaced && is_shown(&kind.verbs));
    Ok(shown.map(|kind| kind.name).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn kinds_in_namespaces_parts_and_reviews_are_left_out() {
        let kind = |name: &str, namespaced: bool, verbs: Value| json!({ "name": name, "singularName": "", "kind": "X", "namespaced": namespaced, "verbs": verbs });
        let list = json!({
            "kind": "APIResourceList", "groupVersion": "v1",
            "resources": [
                kind("nodes", false, json!(["get", "list", "watch"])),
                kind("nodes/proxy", false, json!(["get"])),
                kind("secrets", true, json!(["get", "list"])),
                kind("tokenreviews", false, json!(["create"])),
            ],
        });
        assert_eq!(kinds(list.to_string().as_bytes()).unwrap(), HashSet::from(["nodes".to_owned()]));
        assert!(kinds(b"[]").is_err());
    }
}

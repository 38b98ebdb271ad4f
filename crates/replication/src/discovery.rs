//! Kinds of the cluster, by discovery.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use kube::{
    Client, Error,
    core::{ApiResource, GroupVersionKind},
    discovery::{Scope, oneshot},
};
use operator_core::error::is_not_found;
use parking_lot::Mutex;

/// Time after which a kind is discovered again.
const MAX_AGE: Duration = Duration::from_mins(5);
/// Limit of the cached kinds.
const MAX_KINDS: usize = 1000;

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiKind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

/// Reason why a kind cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// The API server does not serve it.
    #[error(
        "the kind {kind} of {api_version} does not exist in the cluster; install its CustomResourceDefinition"
    )]
    Unknown {
        /// Group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The API server did not respond.
    #[error("cannot discover the kind {kind} of {api_version}")]
    Request {
        /// Group and version.
        api_version: String,
        /// The kind.
        kind: String,
        /// Error of the request.
        source: Error,
    },
}

/// Discovers kinds and caches them. A missing kind is not cached.
pub(crate) struct Discovery {
    client: Client,
    known: Mutex<HashMap<GroupVersionKind, (Instant, ApiKind)>>,
}

impl Discovery {
    /// Returns a discovery with the client of the manager: every user may discover kinds.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Returns the kind that a reference names. Its `apiVersion` can be empty for `v1`, a group and
    /// version, or a group for its preferred version.
    pub(crate) async fn resolve(&self, api_version: &str, kind: &str) -> Result<ApiKind, DiscoveryError> {
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None if api_version.is_empty() => ("", "v1"),
            None if is_version(api_version) => ("", api_version),
            None => (api_version, "*"),
        };
        if version != "*" && !version.is_empty() {
            return self.find(&GroupVersionKind::gvk(group, version, kind)).await;
        }
        let failed = |source| failed(api_version, kind, source);
        let groups = self.client.list_api_groups().await.map_err(failed)?;
        let found = groups.groups.into_iter().find(|one| one.name == group);
        let preferred = found.and_then(|found| {
            let first = found.versions.first().cloned();
            found.preferred_version.or(first)
        });
        let Some(preferred) = preferred else {
            return Err(unknown(api_version, kind));
        };
        self.find(&GroupVersionKind::gvk(group, &preferred.version, kind)).await
    }

    /// Returns the kind with this group and version.
    pub(crate) async fn find(&self, gvk: &GroupVersionKind) -> Result<ApiKind, DiscoveryError> {
        if let Some((at, kind)) = self.known.lock().get(gvk)
            && at.elapsed() < MAX_AGE
        {
            return Ok(kind.clone());
        }
        let (resource, capabilities) = oneshot::pinned_kind(&self.client, gvk)
            .await
            .map_err(|error| failed(&gvk.api_version(), &gvk.kind, error))?;
        let kind = ApiKind { resource, namespaced: capabilities.scope == Scope::Namespaced };
        let mut known = self.known.lock();
        if known.len() >= MAX_KINDS {
            known.clear();
        }
        known.insert(gvk.clone(), (Instant::now(), kind.clone()));
        Ok(kind)
    }

    /// Removes a kind from the cache, because a request showed that it no longer exists.
    pub(crate) fn forget(&self, gvk: &GroupVersionKind) {
        self.known.lock().remove(gvk);
    }
}

fn unknown(api_version: &str, kind: &str) -> DiscoveryError {
    DiscoveryError::Unknown { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

fn failed(api_version: &str, kind: &str, source: Error) -> DiscoveryError {
    if matches!(source, Error::Discovery(_)) || is_not_found(&source) {
        return unknown(api_version, kind);
    }
    DiscoveryError::Request { api_version: api_version.to_owned(), kind: kind.to_owned(), source }
}

/// Returns whether a text is a version such as `v1` or `v2beta1`. Everything else is a group.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.strip_prefix('v').is_some_and(|rest| {
        let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
        parts.map_or_else(|| is_number(rest), |(major, minor)| is_number(major) && is_number(minor))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_versions_from_groups() {
        assert!(["v1", "v2beta1", "v1alpha10"].into_iter().all(is_version));
        assert!(!["apps", "v", "vbeta", "v1beta", "example.com", ""].into_iter().any(is_version));
    }
}

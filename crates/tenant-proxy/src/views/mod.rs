//! Views: what a user sees of a kind that the API server does not let the user list.

mod lists;
mod reviews;

use std::{collections::BTreeSet, sync::Arc};

use axum::body::Body;
use http::{HeaderMap, Response, request::Parts};
use k8s_openapi::api::authentication::v1::UserInfo;
use tokio::sync::Semaphore;
use tracing::debug;

use crate::{
    accept::{ViewMode, accept},
    cluster_kinds::ClusterKinds,
    credential::Credential,
    error::ProxyError,
    identity::Identities,
    limits::ConcurrencyLimit,
    list_options::ListOptions,
    metrics::ProxyMetrics,
    owners::Owners,
    scope::Scope,
    upstream::AsProxy,
    view::{View, ViewKind},
    watch_expiry::Framing,
};

/// Most requests of views of one user at once. A watch counts until it has begun.
const MAX_VIEWS_OF_USER: usize = 8;
/// Most requests of views at once: they share the token of the proxy, and so one flow of the priority and
/// fairness of the API server.
const MAX_VIEWS: usize = 200;
/// Most bytes of a review to which the proxy adds something. A user decides how long it is, and a longer one
/// goes on as it came.
const MAX_REVIEW_BYTES: usize = 64 << 10;
/// Most lists for one view, if what the user sees changes meanwhile.
const MAX_LISTS: usize = 3;
/// Makes views.
pub struct Views {
    api_server: AsProxy,
    identities: Identities,
    owners: Owners,
    cluster_kinds: ClusterKinds,
    metrics: Arc<ProxyMetrics>,
    /// Kinds whose views are enabled.
    enabled: BTreeSet<ViewKind>,
    of_users: ConcurrencyLimit<String>,
    all: Semaphore,
}

/// A request of a list, a watch, or an object that has a view.
pub struct RequestedView<'r> {
    view: View,
    options: ListOptions,
    credential: Credential,
    headers: &'r HeaderMap,
}

impl RequestedView<'_> {
    /// Returns the view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        self.options.watch
    }
}

/// A user, and what the user sees of a kind.
#[derive(Clone)]
struct Viewer {
    user: Arc<UserInfo>,
    scope: Scope,
}

/// Response to the request of a view. `None`: the user does not see it, and the response of the API server to
/// the user stays.
type Shown = Result<Option<Response<Body>>, ProxyError>;

impl Views {
    /// Returns views of these kinds.
    pub fn new(
        api_server: AsProxy,
        identities: Identities,
        owners: Owners,
        metrics: Arc<ProxyMetrics>,
        enabled: BTreeSet<ViewKind>,
    ) -> Self {
        Self {
            api_server,
            identities,
            owners,
            cluster_kinds: ClusterKinds::default(),
            metrics,
            enabled,
            of_users: ConcurrencyLimit::new(MAX_VIEWS_OF_USER),
            all: Semaphore::new(MAX_VIEWS),
        }
    }

    /// Returns the view of a request, if it has one that is enabled.
    pub fn requested<'r>(&self, parts: &'r Parts, credential: Credential) -> Option<RequestedView<'r>> {
        let view = View::of(parts.method.as_str(), parts.uri.path())?;
        let is_shown = match view.kind() {
            // Most lists have no rule: nobody is asked who their users are.
            ViewKind::ClusterResources => !self.owners.is_synced() || self.owners.has_rule_for(&view),
            _ => true,
        };
        if !self.enabled.contains(&view.kind()) || !is_shown {
            return None;
        }
        match ListOptions::parse(parts.uri.query().unwrap_or_default()) {
            Ok(options) => Some(RequestedView { view, options, credential, headers: &parts.headers }),
            Err(error) => {
                debug!(%error, "a list has no view");
                None
            }
        }
    }

    /// Makes a view.
    ///
    /// # Errors
    /// Returns an error if the proxy cannot tell what the user sees, or if there are too many requests.
    pub async fn show(&self, requested: &RequestedView<'_>) -> Shown {
        let Some(user) = self.user(requested.credential, requested.headers).await else { return Ok(None) };
        if !self.owners.is_synced() {
            return Err(ProxyError::NoView("its caches of Tenants are not filled".to_owned()));
        }
        let Some(scope) = self.owners.scope(&user, &requested.view) else { return Ok(None) };
        let name = user.username.clone().unwrap_or_default();
        let _of_user = self.of_users.try_acquire(name).ok_or(ProxyError::TooMany)?;
        let _of_all = self.all.try_acquire().map_err(|_| ProxyError::TooMany)?;
        if !self.is_cluster_scoped(&requested.view).await? {
            return Ok(None);
        }
        self.show_to(requested, Viewer { user, scope }).await
    }

    /// Returns the user of a credential. `None`: the API server does not say it.
    async fn user(&self, credential: Credential, headers: &HeaderMap) -> Option<Arc<UserInfo>> {
        let user = self.identities.of(credential, headers).await;
        user.inspect_err(|error| debug!(%error, "a user has no view")).ok()
    }

    /// Returns whether a kind is in no namespace. Only those of rules can be in one.
    async fn is_cluster_scoped(&self, view: &View) -> Result<bool, ProxyError> {
        match view.kind() {
            ViewKind::ClusterResources => self.cluster_kinds.has(&self.api_server, view.resource()).await,
            _ => Ok(true),
        }
    }

    /// Makes the view of a user. A list is made again if what the user sees changes meanwhile: a later watch
    /// goes on from its version.
    async fn show_to(&self, requested: &RequestedView<'_>, mut viewer: Viewer) -> Shown {
        let kind = requested.view.kind();
        let version = requested.options.resumed_from();
        if version.is_some_and(|version| self.owners.has_changed_since(version, &viewer.user, kind)) {
            return Ok(Some(self.expired(requested, &viewer)));
        }
        for _ in 0..MAX_LISTS {
            let response = match requested.view.name() {
                Some(name) => self.object(requested, &viewer, name).await?,
                None => self.list(requested, &viewer).await?,
            };
            let scope = self.owners.scope(&viewer.user, &requested.view);
            if response.is_none() || requested.options.watch || scope.as_ref() == Some(&viewer.scope) {
                return Ok(response);
            }
            let Some(scope) = scope else { return Ok(None) };
            viewer.scope = scope;
        }
        Err(ProxyError::NoView("what the user may see changes".to_owned()))
    }

    /// Returns a watch that ends at once, so that its client lists again.
    fn expired(&self, requested: &RequestedView<'_>, viewer: &Viewer) -> Response<Body> {
        let kind = requested.view.kind();
        let is_selected = viewer.scope.requirements(kind).is_some();
        let mode = if is_selected { ViewMode::Watch } else { ViewMode::Filtered };
        let content_type = accept(requested.headers, mode);
        let framing = content_type.to_str().ok().and_then(Framing::of).unwrap_or(Framing::Json);
        self.metrics.expired(kind);
        framing.expired_watch()
    }
}

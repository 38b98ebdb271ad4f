//! Views: what a user sees of a kind that the API server does not let the user list.

mod lists;
mod reviews;

use std::{collections::BTreeSet, sync::Arc};

use axum::body::{Body, to_bytes};
use http::{HeaderMap, HeaderValue, Response, StatusCode, request::Parts};
use k8s_openapi::api::authentication::v1::UserInfo;
use tokio::sync::Semaphore;
use tracing::debug;

use crate::{
    accept::{ViewMode, accept},
    authentication::Authentication,
    cluster_kinds::ClusterKinds,
    error::ProxyError,
    identity::Identities,
    limits::ConcurrencyLimit,
    list_options::ListOptions,
    metrics::ProxyMetrics,
    named_object::NamedObject,
    object_filter,
    owners::Owners,
    scope::Scope,
    upstream::{AsProxy, ProxyRequest, Target},
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
/// Most bytes of a list of one namespace.
const MAX_NAMESPACE_BYTES: usize = 1 << 20;
/// Content type of names and labels only.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");

/// What the proxy shows, beside what the API server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewSettings {
    /// Kinds whose views are enabled.
    pub kinds: BTreeSet<ViewKind>,
    /// Whether what a user may not read in a namespace that does not exist is missing.
    pub missing_namespaces: bool,
}

/// Makes views.
pub struct Views {
    api_server: AsProxy,
    identities: Identities,
    owners: Owners,
    cluster_kinds: ClusterKinds,
    metrics: Arc<ProxyMetrics>,
    settings: ViewSettings,
    of_users: ConcurrencyLimit<String>,
    all: Semaphore,
}

/// A request of a list, a watch, or an object that has a view.
pub struct RequestedView<'r> {
    view: View,
    options: ListOptions,
    authentication: &'r Authentication,
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
        settings: ViewSettings,
    ) -> Self {
        Self {
            api_server,
            identities,
            owners,
            cluster_kinds: ClusterKinds::default(),
            metrics,
            settings,
            of_users: ConcurrencyLimit::new(MAX_VIEWS_OF_USER),
            all: Semaphore::new(MAX_VIEWS),
        }
    }

    /// Returns the view of a request, if it has one that is enabled.
    pub fn requested<'r>(
        &self,
        parts: &'r Parts,
        authentication: &'r Authentication,
    ) -> Option<RequestedView<'r>> {
        let view = View::of(parts.method.as_str(), parts.uri.path())?;
        let is_shown = match view.kind() {
            // Most lists have no rule: nobody is asked who their users are.
            ViewKind::ClusterResources => {
                self.owners.unavailable().is_some() || self.owners.has_rule_for(&view)
            }
            _ => true,
        };
        if !self.settings.kinds.contains(&view.kind()) || !is_shown {
            return None;
        }
        match ListOptions::parse(parts.uri.query().unwrap_or_default()) {
            Ok(options) => Some(RequestedView { view, options, authentication, headers: &parts.headers }),
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
        let Some(user) = self.user(requested.authentication).await else { return Ok(None) };
        if let Some(reason) = self.owners.unavailable() {
            return Err(ProxyError::NoView(reason));
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

    /// Returns whether an object that a user may not read is missing, because its namespace does not exist. Says
    /// it only to users who may own Tenants: they find out by creating the namespace.
    ///
    /// # Errors
    /// Returns an error if there are too many requests, or if the API server does not say it.
    pub async fn is_missing(
        &self,
        object: &NamedObject,
        authentication: &Authentication,
    ) -> Result<bool, ProxyError> {
        if !self.settings.missing_namespaces || self.owners.unavailable().is_some() {
            return Ok(false);
        }
        let Some(user) = self.user(authentication).await.filter(|user| self.owners.may_own(user)) else {
            return Ok(false);
        };
        let name = user.username.clone().unwrap_or_default();
        let _of_user = self.of_users.try_acquire(name).ok_or(ProxyError::TooMany)?;
        let _of_all = self.all.try_acquire().map_err(|_| ProxyError::TooMany)?;
        let Some(namespaces) = View::of_all(ViewKind::Namespaces) else { return Ok(false) };
        let query = format!("fieldSelector=metadata.name%3D{}", object.namespace());
        let request = ProxyRequest { target: Target::View(namespaces), query, accept: METADATA };
        let (response, _) = self.api_server.send(request).await?;
        if response.status() != StatusCode::OK {
            return Ok(false);
        }
        let body = to_bytes(response.into_body(), MAX_NAMESPACE_BYTES).await;
        let found = body.ok().and_then(|body| object_filter::names(&body, |_| true).ok());
        Ok(found.is_some_and(|names| names.is_empty()))
    }

    /// Returns whether a user is known to own a Tenant.
    pub async fn is_owner(&self, authentication: &Authentication) -> bool {
        self.owners.unavailable().is_none()
            && self.user(authentication).await.is_some_and(|user| self.owners.is_owner(&user))
    }

    /// Returns the user of a credential. `None`: the API server does not say it.
    async fn user(&self, authentication: &Authentication) -> Option<Arc<UserInfo>> {
        let user = self.identities.of(authentication).await;
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

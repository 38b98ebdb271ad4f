//! Lists, watches, and objects of views.

use std::{collections::HashSet, error::Error, sync::Arc};

use axum::body::{Body, Bytes, to_bytes};
use http::{
    Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use operator_core::error::chain;
use tracing::{info, warn};

use super::{METADATA, RequestedView, Shown, Viewer, Views};
use crate::{
    accept::{ViewMode, accept},
    error::ProxyError,
    list_options::ListOptions,
    object_filter::{self, Metadata, VisibleEvents},
    request::end_to_end,
    scope::ObjectFilter,
    upstream::{ProxyRequest, Target},
    view::{View, ViewKind},
    watch_expiry::{ExpiringWatch, Framing},
};

impl Views {
    /// Returns one object, if it is visible. If its name alone does not say so, its labels are read.
    pub(super) async fn object(&self, requested: &RequestedView<'_>, viewer: &Viewer, name: &str) -> Shown {
        let filter = viewer.scope.filter(requested.view.kind());
        if requested.options.watch {
            return Ok(None);
        }
        if filter.allows_name(name) {
            return self.request(requested, viewer, String::new(), ViewMode::List).await;
        }
        if !filter.has_selector() {
            return Ok(None);
        }
        let response = self.request(requested, viewer, String::new(), ViewMode::Filtered).await?;
        let found = response.filter(|response| response.status() == StatusCode::OK);
        let Some((parts, body)) = found.map(Response::into_parts) else { return Ok(None) };
        let body = read(body).await?;
        let is_visible =
            object_filter::object(&body, visible(Arc::new(filter))).map_err(|error| unreadable(&error))?;
        Ok(is_visible.then(|| Response::from_parts(parts, body.into())))
    }

    pub(super) async fn list(&self, requested: &RequestedView<'_>, viewer: &Viewer) -> Shown {
        let Some(requirements) = viewer.scope.requirements(requested.view.kind()) else {
            return self.filtered(requested, viewer).await;
        };
        let mode = if requested.options.watch { ViewMode::Watch } else { ViewMode::List };
        let query = requested.options.query(requirements);
        let response = self.request(requested, viewer, query, mode).await?;
        match response {
            Some(response) if requested.options.watch => {
                self.ending(response, viewer, &requested.view).map(Some)
            }
            response => Ok(response),
        }
    }

    /// Returns a list or a watch whose objects the proxy chooses.
    async fn filtered(&self, requested: &RequestedView<'_>, viewer: &Viewer) -> Shown {
        let options = requested.options.clone().without_pages()?;
        let filter = Arc::new(viewer.scope.filter(requested.view.kind()));
        let response = self.request(requested, viewer, options.query(Vec::new()), ViewMode::Filtered).await?;
        let Some(response) = response else { return Ok(None) };
        if response.status() != StatusCode::OK {
            return Ok(Some(response));
        }
        if options.watch {
            let known = match options.resumed_from() {
                _ if !filter.has_selector() => None,
                None => Some(HashSet::new()),
                Some(version) => match self.visible_at(requested, &options, &filter, version).await? {
                    None => return Ok(Some(self.expired(requested, viewer))),
                    known => known,
                },
            };
            let events = |body| Body::new(VisibleEvents::new(body, visible(filter), known));
            return self.ending(response.map(events), viewer, &requested.view).map(Some);
        }
        let (mut parts, body) = response.into_parts();
        let shown = object_filter::list(&read(body).await?, visible(filter));
        let shown = shown.map_err(|error| unreadable(&error))?;
        parts.headers.insert(CONTENT_LENGTH, shown.len().into());
        Ok(Some(Response::from_parts(parts, shown.into())))
    }

    /// Returns the names of what was visible at a version, from which a watch goes on. `None`: the API server
    /// does not know the version any more.
    async fn visible_at(
        &self,
        requested: &RequestedView<'_>,
        options: &ListOptions,
        filter: &Arc<ObjectFilter>,
        version: u64,
    ) -> Result<Option<HashSet<String>>, ProxyError> {
        let target = Target::View(requested.view.clone());
        let query = options.at_version(version).query(Vec::new());
        let (response, _) = self.api_server.send(ProxyRequest { target, query, accept: METADATA }).await?;
        match response.status() {
            StatusCode::OK => {
                let names = object_filter::names(&read(response.into_body()).await?, visible(filter.clone()));
                names.map(Some).map_err(|error| unreadable(&error))
            }
            StatusCode::GONE => Ok(None),
            status => Err(ProxyError::NoView(format!("the API server returned {status} for a list"))),
        }
    }

    /// Sends the request of a view. Returns `None` if the proxy has no right to list a kind of a rule.
    async fn request(
        &self,
        requested: &RequestedView<'_>,
        viewer: &Viewer,
        query: String,
        mode: ViewMode,
    ) -> Shown {
        let target = Target::View(requested.view.clone());
        let request = ProxyRequest { target, query, accept: accept(requested.headers, mode) };
        let (mut response, audit_id) = self.api_server.send(request).await?;
        let kind = requested.view.kind();
        let (user, view) = (viewer.user.username.as_deref().unwrap_or_default(), requested.view.to_string());
        let code = response.status().as_u16();
        info!(user, view, code, audit_id, watch = requested.options.watch, "returned a view");
        if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            warn!(view, code, "the API server refuses the list of a view; check the rights of the proxy");
            if kind == ViewKind::ClusterResources {
                return Ok(None);
            }
            return Err(ProxyError::NoView(format!("the proxy itself may not list {}", kind.name())));
        }
        *response.headers_mut() = end_to_end(response.headers());
        Ok(Some(response))
    }

    /// Ends a watch when the user sees something else.
    fn ending(
        &self,
        mut response: Response<Body>,
        viewer: &Viewer,
        view: &View,
    ) -> Result<Response<Body>, ProxyError> {
        if response.status() != StatusCode::OK {
            return Ok(response);
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let framing = content_type.and_then(Framing::of).ok_or_else(|| {
            ProxyError::NoView("the API server returned a watch with an unknown content type".to_owned())
        })?;
        let Viewer { user, scope } = viewer.clone();
        let (kind, metrics) = (view.kind(), self.metrics.clone());
        let changed = self.owners.until_changed(user, view.clone(), scope);
        let changed = async move {
            changed.await;
            metrics.expired(kind);
        };
        // The proxy removes events, and adds one.
        response.headers_mut().remove(CONTENT_LENGTH);
        Ok(response.map(|body| Body::new(ExpiringWatch::new(body, framing, changed))))
    }
}

/// Returns whether an object is visible.
fn visible(filter: Arc<ObjectFilter>) -> impl Fn(&Metadata<'_>) -> bool + Send + Sync {
    move |metadata| filter.allows(&metadata.name, &metadata.labels)
}

/// Reads a list or an object.
async fn read(body: Body) -> Result<Bytes, ProxyError> {
    to_bytes(body, object_filter::MAX_LIST_BYTES).await.map_err(|error| unreadable(&error))
}

/// Logs why the list of a view cannot be read. Returns the response to the user, who must not see the cause.
fn unreadable(error: &(dyn Error + 'static)) -> ProxyError {
    warn!(error = chain(error), "cannot read the list of a view");
    ProxyError::NoView(error.to_string())
}

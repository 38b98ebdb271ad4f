//! What views add to reviews in which users ask what they may do.

use axum::body::Body;
use capsule::{
    api::proxy_settings::{ClusterResource, ClusterResourceOperation},
    subjects::Requester,
};
use http::{Response, StatusCode, header::CONTENT_LENGTH};
use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::Value;

use super::{MAX_REVIEW_BYTES, Views};
use crate::{
    authentication::Authentication,
    error::ProxyError,
    self_review::{self, SelfReview, ShownRule},
    short_body::{is_json, read_short},
    view::{View, ViewKind},
};

impl Views {
    /// Returns the response of the API server to a review of a user, with what the user sees. A response that
    /// is no review in JSON, or a long one, stays as it is.
    ///
    /// # Errors
    /// Returns an error if the response cannot be read, or if there are too many requests.
    pub async fn amended(
        &self,
        kind: SelfReview,
        response: Response<Body>,
        authentication: &Authentication,
    ) -> Result<Response<Body>, ProxyError> {
        if response.status() != StatusCode::CREATED || !is_json(&response) {
            return Ok(response);
        }
        let _permit = self.all.try_acquire().map_err(|_| ProxyError::TooMany)?;
        let (mut parts, body) = response.into_parts();
        let mut body = match read_short(body, MAX_REVIEW_BYTES).await {
            Ok(Ok(body)) => body,
            Ok(Err(longer)) => return Ok(Response::from_parts(parts, longer)),
            Err(error) => return Err(ProxyError::Unreadable(error.to_string())),
        };
        if let Ok(mut review) = serde_json::from_slice::<Value>(&body)
            && self.amend(kind, &mut review, authentication).await
        {
            body = review.to_string().into();
            parts.headers.insert(CONTENT_LENGTH, body.len().into());
        }
        Ok(Response::from_parts(parts, body.into()))
    }

    /// Adds what the user sees to a review. Returns whether something was added.
    async fn amend(&self, kind: SelfReview, review: &mut Value, authentication: &Authentication) -> bool {
        let asked = self_review::view_of(review);
        if (kind == SelfReview::Access && asked.is_none()) || self.owners.unavailable().is_some() {
            return false;
        }
        let Some(user) = self.user(authentication).await else { return false };
        let Some(view) = asked else { return self_review::add_rules(review, self.rules(&user)) };
        if !self.is_visible(&user, &view).await {
            return false;
        }
        self_review::allow(review);
        true
    }

    /// Returns whether a view has a response, as far as that is known without one.
    async fn is_visible(&self, user: &UserInfo, view: &View) -> bool {
        let Some(scope) =
            self.owners.scope(user, view).filter(|_| self.settings.kinds.contains(&view.kind()))
        else {
            return false;
        };
        let is_named = view.name().is_none_or(|name| scope.filter(view.kind()).allows_name(name));
        is_named && self.is_cluster_scoped(view).await.unwrap_or_default()
    }

    /// Returns the rules of what a user sees.
    fn rules(&self, user: &UserInfo) -> Vec<ShownRule> {
        const LIST: &[&str] = &["list", "watch"];
        let mut rules = Vec::new();
        for view in self.settings.kinds.iter().filter_map(|kind| View::of_all(*kind)) {
            let Some(scope) = self.owners.scope(user, &view) else { continue };
            let (groups, plurals) =
                (vec![view.resource().group.clone()], vec![view.resource().plural.clone()]);
            if view.kind() == ViewKind::Tenants && !scope.tenants.is_empty() {
                let names = scope.tenants.into_iter().collect();
                let (groups, plurals) = (groups.clone(), plurals.clone());
                rules.push(ShownRule { verbs: &["get"], groups, plurals, names });
            }
            rules.push(ShownRule { verbs: LIST, groups, plurals, names: Vec::new() });
        }
        if self.settings.kinds.contains(&ViewKind::ClusterResources) {
            rules.extend(
                self.owners.cluster_resources(&Requester::of(user)).into_iter().filter_map(shown_rule),
            );
        }
        rules
    }
}

/// Returns what a rule of a GlobalProxySettings shows. `None`: its patterns could be for kinds that have no
/// view, or it shows single objects only.
fn shown_rule(rule: ClusterResource) -> Option<ShownRule> {
    let is_exact = |names: &[String]| names.iter().all(|name| !name.contains(['*', '/']));
    let is_shown = rule.allows(ClusterResourceOperation::List)
        && is_exact(&rule.api_groups)
        && is_exact(&rule.resources);
    is_shown.then(|| ShownRule {
        verbs: &["list", "watch"],
        groups: rule.api_groups,
        plurals: rule.resources,
        names: Vec::new(),
    })
}

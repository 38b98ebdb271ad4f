//! Endpoint of a webhook: decodes a review, calls the handler, and encodes the response.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use k8s_openapi::ByteString;
use tokio::time::timeout;

use super::{
    caches::{Caches, SyncedCaches},
    error::{ReviewError, ReviewFailure, describe_kind},
    handler::{Handler, HandlerResponse},
    request::Operation,
    review::{
        API_VERSION, AdmissionRequest, Header, KIND, Response, Review, ReviewInfo, ReviewReply, Status,
    },
    target::{TargetRule, describe_resource},
    verdict::Denial,
    webhook::{Webhook, WebhookType},
};
use crate::{environment::Environment, metrics::ReviewResult};

/// How long a review waits until the caches have synced.
const SYNC_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between the handler's timeout and the API server's.
const MARGIN: Duration = Duration::from_millis(500);

/// Maximum length of a user name, which is logged and part of messages.
const MAX_USER_BYTES: usize = 4096;

/// A webhook with its handler and caches.
pub struct Endpoint {
    webhook: Webhook,
    path: String,
    handler: Box<dyn Handler>,
    synced: SyncedCaches,
}

/// Response to a review.
#[derive(Debug)]
pub struct ReviewResponse {
    /// The `AdmissionReview` as JSON.
    pub body: Vec<u8>,
    /// Summary of the request.
    pub info: ReviewInfo,
    /// Result of the review.
    pub result: ReviewResult,
    /// Why the request was denied, if it was.
    pub denial: Option<Denial>,
}

impl Endpoint {
    /// Builds the webhook of a controller. Must be called within a Tokio runtime.
    pub fn build(webhook: Webhook, controller: &str, environment: &Environment) -> Self {
        let mut caches = Caches::new(environment, controller, webhook.side_effects);
        let handler = (webhook.build)(&mut caches);
        Self { path: webhook.path(controller), handler, synced: caches.into_synced(), webhook }
    }

    /// Returns the path of the webhook.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of parsed copies of the objects during a review.
    pub fn copies(&self) -> usize {
        match self.webhook.webhook_type {
            WebhookType::Validating => 1,
            // The typed and the untyped object, before and after the change.
            WebhookType::Mutating => 4,
        }
    }

    /// Reviews a request.
    ///
    /// # Errors
    /// Returns an error if the body is no valid review or the handler did not respond. Never allows
    /// a request in that case.
    pub async fn answer(&self, body: &[u8]) -> Result<ReviewResponse, ReviewFailure> {
        let request = parse(body)?;
        let info = info(&request);
        match self.review(&request).await.and_then(|response| encode(&request, response)) {
            Ok((body, result, denial)) => Ok(ReviewResponse { body, info, result, denial }),
            Err(cause) => Err(ReviewFailure { info: Some(info), cause }),
        }
    }

    async fn review(&self, request: &AdmissionRequest<'_>) -> Result<HandlerResponse, ReviewError> {
        self.check(request)?;
        timeout(SYNC_TIMEOUT, self.synced.wait()).await.map_err(|_| ReviewError::NotSynced)?;
        let limit = Duration::from_secs(self.webhook.timeout_seconds.into()).saturating_sub(MARGIN);
        let handled = AssertUnwindSafe(self.handler.handle(request)).catch_unwind();
        match timeout(limit, handled).await {
            Err(_) => Err(ReviewError::TimedOut(limit)),
            Ok(Err(_)) => Err(ReviewError::Panicked),
            Ok(Ok(response)) => response,
        }
    }

    /// Checks that the webhook was declared for the request and that its objects are complete.
    fn check(&self, request: &AdmissionRequest<'_>) -> Result<(), ReviewError> {
        if !self.webhook.targets.iter().any(|target| matches(target, request)) {
            let reviews: Vec<_> = self.webhook.targets.iter().map(TargetRule::describe).collect();
            let found =
                format!("{} of {} (kind {})", request.operation, resource_of(request), request.kind.name);
            return Err(ReviewError::UnexpectedTarget {
                path: self.path.clone(),
                reviews: reviews.join("; "),
                found,
            });
        }
        check_objects(request)
    }
}

fn parse(body: &[u8]) -> Result<AdmissionRequest<'_>, ReviewError> {
    let review: Review<'_> = serde_json::from_slice(body).map_err(|error| {
        // Reviews of another version may have another structure.
        let header: Option<Header> = serde_json::from_slice(body).ok();
        let unexpected = header.and_then(|header| check_kind(&header.kind, &header.api_version).err());
        unexpected.unwrap_or_else(|| ReviewError::malformed(KIND)(error))
    })?;
    check_kind(&review.kind, &review.api_version)?;
    let request = review.request.ok_or(ReviewError::NoRequest(KIND))?;
    let user = request.user_info.username.as_ref().map_or(0, String::len);
    if user > MAX_USER_BYTES {
        return Err(ReviewError::TooLarge { what: "userInfo.username", found: user, limit: MAX_USER_BYTES });
    }
    Ok(request)
}

fn check_kind(kind: &str, api_version: &str) -> Result<(), ReviewError> {
    if kind == KIND && api_version == API_VERSION {
        return Ok(());
    }
    Err(ReviewError::UnexpectedKind {
        expected: KIND,
        versions: API_VERSION,
        found: describe_kind(kind, api_version),
        advice: "list v1 in admissionReviewVersions of the webhook configuration",
    })
}

fn matches(target: &TargetRule, request: &AdmissionRequest<'_>) -> bool {
    let is = |wanted: &str, actual: &str| wanted == "*" || wanted == actual;
    target.operations.contains(request.operation)
        && is(&target.group, &request.resource.group)
        && is(&target.version, &request.resource.version)
        && is(&target.resource, &request.resource.name)
        && target.subresource.as_deref() == request.subresource()
        && target.kind.as_ref().is_none_or(|kind| {
            *kind == request.kind.name
                && is(&target.group, &request.kind.group)
                && is(&target.version, &request.kind.version)
        })
}

/// Checks that the objects of the operation are present and have the kind of the request.
fn check_objects(request: &AdmissionRequest<'_>) -> Result<(), ReviewError> {
    use Operation::{Connect, Create, Delete, Update};
    let needs_new = matches!(request.operation, Create | Update | Connect);
    let needs_old = matches!(request.operation, Update | Delete);
    for (field, needed, object) in
        [("object", needs_new, request.object), ("oldObject", needs_old, request.old_object)]
    {
        if !needed {
            continue;
        }
        let object = object.ok_or(ReviewError::Missing { operation: request.operation, field })?;
        let header: Header = serde_json::from_str(object.get()).map_err(ReviewError::decode(field))?;
        if !header.kind.is_empty() && header.kind != request.kind.name {
            return Err(ReviewError::UnexpectedObject {
                field,
                expected: request.kind.name.clone(),
                found: describe_kind(&header.kind, &header.api_version),
            });
        }
    }
    Ok(())
}

fn resource_of(request: &AdmissionRequest<'_>) -> String {
    let name = match request.subresource() {
        Some(subresource) => format!("{}/{subresource}", request.resource.name),
        None => request.resource.name.clone(),
    };
    describe_resource(&name, &request.resource.group, &request.resource.version)
}

fn info(request: &AdmissionRequest<'_>) -> ReviewInfo {
    ReviewInfo {
        uid: request.uid.clone(),
        user: request.user_info.username.clone().unwrap_or_default(),
        operation: request.operation,
        resource: resource_of(request),
        namespace: request.namespace.clone().filter(|namespace| !namespace.is_empty()),
        name: request.name.clone().unwrap_or_default(),
        dry_run: request.dry_run.unwrap_or_default(),
    }
}

/// Returns the encoded response with its result.
fn encode(
    request: &AdmissionRequest<'_>,
    response: HandlerResponse,
) -> Result<(Vec<u8>, ReviewResult, Option<Denial>), ReviewError> {
    let HandlerResponse { verdict, patch } = response;
    let patch = patch.filter(|_| verdict.denial.is_none());
    let result = match (&verdict.denial, &patch) {
        (Some(_), _) => ReviewResult::Denied,
        (None, Some(_)) => ReviewResult::Changed,
        (None, None) => ReviewResult::Allowed,
    };
    let patch = patch.map(|patch| serde_json::to_vec(&patch)).transpose().map_err(ReviewError::Encode)?;
    let status = verdict.denial.as_ref().map(|denial| Status {
        outcome: "Failure",
        code: denial.reason.code(),
        reason: denial.reason.name(),
        message: &denial.message,
    });
    let response = Response {
        uid: &request.uid,
        allowed: verdict.denial.is_none(),
        status,
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch: patch.map(ByteString),
        warnings: &verdict.warnings,
    };
    let reply = ReviewReply { api_version: API_VERSION, kind: KIND, response };
    Ok((serde_json::to_vec(&reply).map_err(ReviewError::Encode)?, result, verdict.denial))
}

#[cfg(test)]
mod tests;

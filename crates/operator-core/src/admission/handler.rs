//! Traits of webhook handlers.

use std::future::Future;

use futures::future::BoxFuture;
use json_patch::Patch;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    caches::Caches,
    error::{BoxError, ReviewError},
    merge,
    request::{Operation, Request},
    review::AdmissionRequest,
    verdict::{Mutation, Verdict},
};

/// Validates objects of one type.
///
/// # Contract
/// - It runs in every replica, also if another replica leads.
/// - It has no side effects except those of [`Caches::writer`], and none in a dry run.
/// - It reads caches. One live read is allowed where a stale cache would deny wrongly.
/// - It trusts nothing in the objects that the user can write.
pub trait Validator: Send + Sync + Sized + 'static {
    /// Type of the objects: their kind, or [`Metadata`](super::Metadata) for any kind.
    type Object: DeserializeOwned + Send + Sync + 'static;

    /// Builds the handler and requests its caches.
    fn build(caches: &mut Caches<'_>) -> Self;

    /// Allows or denies a request.
    ///
    /// # Errors
    /// Returns an error if no decision is possible. The failure policy of the webhook then applies.
    fn validate(
        &self,
        request: &Request<Self::Object>,
    ) -> impl Future<Output = Result<Verdict, BoxError>> + Send;
}

/// Changes objects of one type before they are stored.
///
/// The contract of [`Validator`] applies. A mutator must also be idempotent: it must not change an
/// object again that it has changed before.
pub trait Mutator: Send + Sync + Sized + 'static {
    /// Type of the objects. Fields that the type does not have are preserved.
    type Object: DeserializeOwned + Serialize + Send + Sync + 'static;

    /// Builds the handler and requests its caches.
    fn build(caches: &mut Caches<'_>) -> Self;

    /// Changes, keeps, or denies an object.
    ///
    /// # Errors
    /// Returns an error if no decision is possible. The failure policy of the webhook then applies.
    fn mutate(
        &self,
        request: &Request<Self::Object>,
    ) -> impl Future<Output = Result<Mutation<Self::Object>, BoxError>> + Send;
}

/// Response of a validator or a mutator.
pub(super) struct HandlerResponse {
    pub(super) verdict: Verdict,
    pub(super) patch: Option<Patch>,
}

/// A validator or a mutator of any type.
pub(super) trait Handler: Send + Sync {
    fn handle<'a>(
        &'a self,
        request: &'a AdmissionRequest<'a>,
    ) -> BoxFuture<'a, Result<HandlerResponse, ReviewError>>;
}

pub(super) fn validating<V: Validator>(validator: V) -> Box<dyn Handler> {
    Box::new(ValidatingHandler(validator))
}

pub(super) fn mutating<M: Mutator>(mutator: M) -> Box<dyn Handler> {
    Box::new(MutatingHandler(mutator))
}

struct ValidatingHandler<V>(V);

impl<V: Validator> Handler for ValidatingHandler<V> {
    fn handle<'a>(
        &'a self,
        request: &'a AdmissionRequest<'a>,
    ) -> BoxFuture<'a, Result<HandlerResponse, ReviewError>> {
        Box::pin(async move {
            let verdict = self.0.validate(&decode(request)?).await.map_err(ReviewError::Failed)?;
            Ok(HandlerResponse { verdict, patch: None })
        })
    }
}

struct MutatingHandler<M>(M);

impl<M: Mutator> Handler for MutatingHandler<M> {
    fn handle<'a>(
        &'a self,
        request: &'a AdmissionRequest<'a>,
    ) -> BoxFuture<'a, Result<HandlerResponse, ReviewError>> {
        Box::pin(async move {
            let decoded = decode(request)?;
            let Mutation { changed, verdict } = self.0.mutate(&decoded).await.map_err(ReviewError::Failed)?;
            let patch = match (changed, &decoded.new, request.object) {
                (Some(after), Some(before), Some(object)) => Some(difference(object, before, &after)?),
                _ => None,
            };
            Ok(HandlerResponse { verdict, patch: patch.filter(|patch| !patch.is_empty()) })
        })
    }
}

fn difference<O: Serialize>(object: &RawValue, before: &O, after: &O) -> Result<Patch, ReviewError> {
    let before = serde_json::to_value(before).map_err(ReviewError::Encode)?;
    let after = serde_json::to_value(after).map_err(ReviewError::Encode)?;
    merge::patch(object, &before, &after).map_err(ReviewError::decode("object"))
}

/// Decodes the objects of a request as the type of the handler.
pub(super) fn decode<O: DeserializeOwned>(request: &AdmissionRequest<'_>) -> Result<Request<O>, ReviewError> {
    let old = request.old_object.filter(|_| request.operation != Operation::Create);
    let new = request.object.filter(|_| request.operation != Operation::Delete);
    Ok(Request {
        operation: request.operation,
        name: request.name.clone().unwrap_or_default(),
        namespace: request.namespace.clone().filter(|namespace| !namespace.is_empty()),
        subresource: request.subresource().map(str::to_owned),
        resource: request.resource.name.clone(),
        group: request.resource.group.clone(),
        user: request.user_info.clone(),
        dry_run: request.dry_run.unwrap_or_default(),
        old: object(old, "oldObject")?,
        new: object(new, "object")?,
        options: object(request.options, "options")?.unwrap_or_default(),
    })
}

fn object<O: DeserializeOwned>(
    text: Option<&RawValue>,
    field: &'static str,
) -> Result<Option<O>, ReviewError> {
    text.map(|text| serde_json::from_str(text.get()).map_err(ReviewError::decode(field))).transpose()
}

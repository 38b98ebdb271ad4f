//! Handlers: typed for those who write them, of one shape for those who call them.

use std::{error::Error, future::Future};

use futures::future::BoxFuture;
use json_patch::Patch;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::{
    caches::Caches,
    endpoint::ReviewError,
    merge,
    request::{Operation, Request},
    review::RequestInfo,
    verdict::{Mutation, Verdict},
};

/// Why a handler could not answer: a live read failed, for example. The failure policy then decides.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Judges objects of one type.
///
/// # Contract
/// It runs in every replica, whether it leads or not. It has no side effects, so a dry run needs no care (but for what
/// [`Caches::writer`] is for). It answers from caches; where a cache that is behind would deny wrongly, one live read is allowed. It looks at the objects
/// of the request and trusts nothing in them that the user may write.
pub trait Validator: Send + Sync + Sized + 'static {
    /// What it reads objects as: their type, or [`Metadata`](super::Metadata) for any kind.
    type Object: DeserializeOwned + Send + Sync + 'static;

    /// Makes the handler, and asks for the caches that it answers from.
    fn build(caches: &mut Caches<'_>) -> Self;

    /// Allows or denies.
    fn validate(
        &self,
        request: &Request<Self::Object>,
    ) -> impl Future<Output = Result<Verdict, BoxError>> + Send;
}

/// Changes objects of one type before they are stored. The contract is that of [`Validator`]; also, what it has
/// changed it leaves as it is when it sees it again.
pub trait Mutator: Send + Sync + Sized + 'static {
    /// What it reads objects as. Fields that the type does not know are kept.
    type Object: DeserializeOwned + Serialize + Send + Sync + 'static;

    /// Makes the handler, and asks for the caches that it answers from.
    fn build(caches: &mut Caches<'_>) -> Self;

    /// Changes, keeps or denies.
    fn mutate(
        &self,
        request: &Request<Self::Object>,
    ) -> impl Future<Output = Result<Mutation<Self::Object>, BoxError>> + Send;
}

/// What a handler of either sort gave.
pub(super) struct Given {
    pub(super) verdict: Verdict,
    pub(super) patch: Option<Patch>,
}

/// A handler of any type.
pub(super) trait Handle: Send + Sync {
    fn handle<'a>(&'a self, asked: &'a RequestInfo<'a>) -> BoxFuture<'a, Result<Given, ReviewError>>;
}

pub(super) fn validating<V: Validator>(validator: V) -> Box<dyn Handle> {
    Box::new(Validating(validator))
}

pub(super) fn mutating<M: Mutator>(mutator: M) -> Box<dyn Handle> {
    Box::new(Mutating(mutator))
}

struct Validating<V>(V);

impl<V: Validator> Handle for Validating<V> {
    fn handle<'a>(&'a self, asked: &'a RequestInfo<'a>) -> BoxFuture<'a, Result<Given, ReviewError>> {
        Box::pin(async move {
            let verdict = self.0.validate(&read(asked)?).await.map_err(ReviewError::Failed)?;
            Ok(Given { verdict, patch: None })
        })
    }
}

struct Mutating<M>(M);

impl<M: Mutator> Handle for Mutating<M> {
    fn handle<'a>(&'a self, asked: &'a RequestInfo<'a>) -> BoxFuture<'a, Result<Given, ReviewError>> {
        Box::pin(async move {
            let request = read(asked)?;
            let Mutation { changed, verdict } = self.0.mutate(&request).await.map_err(ReviewError::Failed)?;
            let patch = match (changed, &request.new, asked.object) {
                (Some(after), Some(before), Some(object)) => Some(difference(object, before, &after)?),
                _ => None,
            };
            Ok(Given { verdict, patch: patch.filter(|patch| !patch.is_empty()) })
        })
    }
}

fn difference<O: Serialize>(object: &RawValue, before: &O, after: &O) -> Result<Patch, ReviewError> {
    let object: Value = serde_json::from_str(object.get()).map_err(unreadable("object"))?;
    let before = serde_json::to_value(before).map_err(ReviewError::Unwritable)?;
    let after = serde_json::to_value(after).map_err(ReviewError::Unwritable)?;
    Ok(merge::patch(&object, &before, &after))
}

/// The request with its objects as the handler's type.
pub(super) fn read<O: DeserializeOwned>(asked: &RequestInfo<'_>) -> Result<Request<O>, ReviewError> {
    let old = asked.old_object.filter(|_| asked.operation != Operation::Create);
    let new = asked.object.filter(|_| asked.operation != Operation::Delete);
    Ok(Request {
        operation: asked.operation,
        name: asked.name.clone().unwrap_or_default(),
        namespace: asked.namespace.clone().filter(|namespace| !namespace.is_empty()),
        subresource: asked.subresource().map(str::to_owned),
        resource: asked.resource.name.clone(),
        group: asked.resource.group.clone(),
        user: asked.user_info.clone(),
        dry_run: asked.dry_run.unwrap_or_default(),
        old: object(old, "oldObject")?,
        new: object(new, "object")?,
        options: object(asked.options, "options")?.unwrap_or_default(),
    })
}

fn object<O: DeserializeOwned>(
    text: Option<&RawValue>,
    field: &'static str,
) -> Result<Option<O>, ReviewError> {
    text.map(|text| serde_json::from_str(text.get()).map_err(unreadable(field))).transpose()
}

/// The parser's own words quote what stands there, and that may be secret: only the place is told.
fn unreadable(field: &'static str) -> impl Fn(serde_json::Error) -> ReviewError {
    move |error| ReviewError::Unreadable { field, line: error.line(), column: error.column() }
}

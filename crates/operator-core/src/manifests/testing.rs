//! Webhook that the tests of this module declare.

use crate::admission::{BoxError, Caches, Metadata, Mutation, Mutator, Request, Validator, Verdict};

/// Allows every request, and changes no object.
pub(super) struct Anything;

impl Validator for Anything {
    type Object = Metadata;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, _: &Request<Metadata>) -> Result<Verdict, BoxError> {
        Ok(Verdict::allow())
    }
}

impl Mutator for Anything {
    type Object = Metadata;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn mutate(&self, _: &Request<Metadata>) -> Result<Mutation<Metadata>, BoxError> {
        Ok(Mutation::keep())
    }
}

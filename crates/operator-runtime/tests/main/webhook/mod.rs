//! Tests of the webhook server.

mod admission;
mod conversion;
mod converted_kind;
mod handlers;
mod support;

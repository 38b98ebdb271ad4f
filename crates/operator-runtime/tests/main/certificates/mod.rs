//! Tests of certificates in a Secret that replicas share.

mod ca_injection;
mod cert_manager;
mod replica;
mod rotation;
mod secret;
mod support;

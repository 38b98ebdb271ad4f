//! Certificates in a Secret that replicas share, and the API server that has to trust them.

mod ca_injection;
mod cert_manager;
mod replica;
mod rotation;
mod secret;
mod stage;

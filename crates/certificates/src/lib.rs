//! Certificate authorities of a program's own, and the certificates that they issue.
//!
//! The crate reads no clock, and it neither stores nor serves certificates: the program passes the
//! time, and keeps the PEM texts, for example in a Secret. All keys are ECDSA on P-256, which every
//! TLS client supports.
//!
//! # Guarantees
//! - A certificate never outlives the authority that issued it, and never begins before it.
//! - A certificate that was read belongs to its private key.
//! - A serving certificate is not accepted from a client, nor a client certificate from a server.
//! - Errors and `Debug` output never contain key material.
//!
//! A program that replaces its authority must keep the old one in the bundle until it expires, and
//! must use the new one only after [`Authority::signs_after`].
//!
//! # Examples
//! ```
//! use certificates::{
//!     Authority, Lifetimes, Serving, bundle, issue_client, issue_serving, new_authority,
//! };
//! use jiff::Timestamp;
//! use rustls::pki_types::ServerName;
//!
//! let (now, lifetimes) = (Timestamp::now(), Lifetimes::default());
//! let (authority, key) = new_authority(now, lifetimes)?;
//! let names = [ServerName::try_from("database-rw.default.svc")?];
//! let serving = issue_serving(now, lifetimes, &names, &authority, &key)?;
//! assert!(serving.validity().renewal_time() < serving.validity().not_after);
//!
//! // A server that trusts the authority knows its client by the common name.
//! let client = issue_client(now, lifetimes, "streaming_replica", &authority, &key)?;
//! assert_eq!(client.common_name().as_deref(), Some("streaming_replica"));
//!
//! // What a Secret holds, and what a program reads from it.
//! let (ca_crt, tls_crt, tls_key) = (bundle(&[authority]), serving.chain_pem(), serving.key_pem());
//! let read = Serving::read(tls_crt, tls_key)?;
//! assert!(read.issuer(&Authority::read_all(&ca_crt), now).is_some());
//! assert!(read.is_valid_for(&names));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod client;
mod identity;
mod issuer;
mod lifetimes;
mod serving;
#[cfg(test)]
mod testing;
mod x509;

pub use client::Client;
pub use identity::InvalidIdentity;
pub use issuer::{IssueError, SigningKey, issue_client, issue_serving, new_authority};
pub use lifetimes::{Lifetimes, LifetimesError, Validity};
pub use serving::Serving;
pub use x509::{Authority, bundle, lifetime, readable_certificates};

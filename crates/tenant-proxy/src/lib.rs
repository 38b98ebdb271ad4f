//! A proxy before the API server that lets owners of Tenants list what is theirs.
//!
//! Kubernetes cannot list "my namespaces": an owner gets 403, or everything. The proxy forwards each
//! request as the user. If the API server refuses a list that has a *view*, the proxy makes a request of
//! its own, which selects what the user owns.
//!
//! | module | contents |
//! |---|---|
//! | [`request`] | which requests are refused, which headers go on |
//! | [`authentication`], [`credential`], [`client_certificate`] | from whom a request is |
//! | [`view`], [`list_options`], [`selector`], [`accept`] | which requests have a view, and the request from which it is made |
//! | [`scope`], [`owners`], [`bound_namespaces`], [`ownership_log`], [`identity`] | what a user sees, from caches; what has changed about it; who a user is, as the API server says |
//! | [`upstream`] | requests to the API server: as the user, or as the proxy |
//! | [`proxy`] | the way of a request |
//! | [`views`], [`cluster_kinds`] | views; which kinds can have one by a rule |
//! | [`object_filter`], [`watch_expiry`] | lists and watches that the proxy reads; the end of a watch |
//! | [`self_review`] | reviews in which users ask what they may do |
//! | [`namespace_creation`] | namespaces that owners create, in which they have rights a moment later |
//! | [`named_object`] | what a request reads by its name, for namespaces that do not exist |
//! | [`tunnel`] | exec, attach, port-forward |
//! | [`flags`], [`run`], [`serving`], [`rbac`], [`metrics`] | the program `ensemble-proxy`, its rights, and its metrics |
//!
//! # Guarantees
//! - Each request to the API server has the credential of the user and no other, or is a GET of a view,
//!   of a cache, or of the names of kinds. Only if client certificates are enabled, the proxy sends requests
//!   of their users as itself, and impersonates the user.
//! - A request of a view is built from typed values. It contains no byte of the user's path, and no byte of
//!   the query that was not parsed.
//! - What cannot be parsed has no view: the user gets the response of the API server.
//! - If the proxy cannot tell what a user owns, there is no view, and all other requests go on.

pub mod accept;
pub mod authentication;
pub mod bound_namespaces;
pub mod client_certificate;
pub mod cluster_kinds;
pub mod credential;
pub mod error;
pub mod flags;
pub mod forbidden_lists;
pub mod identity;
pub mod limits;
pub mod list_options;
pub mod metrics;
mod metrics_server;
pub mod named_object;
pub mod namespace_creation;
pub mod object_filter;
pub mod owners;
pub mod ownership_log;
mod path;
pub mod proxy;
pub mod rbac;
pub mod request;
pub mod run;
pub mod scope;
pub mod selector;
pub mod self_review;
pub mod serving;
mod short_body;
pub mod tunnel;
pub mod upstream;
pub mod view;
pub mod views;
pub mod watch_expiry;

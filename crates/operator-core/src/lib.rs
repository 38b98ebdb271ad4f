//! A library for Kubernetes controllers, on top of [`kube`].
//!
//! Implement [`Controller`] for a type and pass it to [`register`]. The crate then provides:
//!
//! | module | contents |
//! |---|---|
//! | [`controller`], [`builder`], [`registration`] | the trait of a controller, its watches, and the entry for the manager |
//! | [`informer`] | shared caches: one watch per kind and process, with indexes |
//! | [`queue`], [`backoff`], [`outcome`] | a work queue without duplicates, exponential backoff per object, results of a reconcile |
//! | [`write`](mod@write), [`writer`], [`owner`], [`finalizer`] | writes of children, only if something changed and only if they are owned |
//! | [`status`], [`conditions`], [`events`] | status, conditions with common reasons, and Events |
//! | [`admission`] | webhooks, admission policies, and conversions |
//! | [`rbac`], [`manifests`] | permissions; roles, webhook configurations, and policies generated from the registrations |
//! | [`client`], [`endpoint`], [`fence`] | limits on requests in flight; other addresses of the API server; a fence that blocks the writes of a replica that does not lead |
//! | [`metrics`] | callbacks for a metrics backend |
//! | [`kind`], [`error`], [`environment`] | kinds and keys of objects, classification of API errors, clients and settings |
//! | [`rate_limit`] | token buckets |
//! | [`protobuf`] | kinds that are read as Protobuf |
//! | [`quantity`], [`pod`], [`labels`], [`template`] | quantities, a small type for cached Pods, labels, placeholders |
//! | [`network_policy`] | peers of a NetworkPolicy as a part of an API, and ingress rules |
//!
//! # The flow of an event
//!
//! ```text
//! API server ── watch ──▶ informer ── subscription ──▶ queue ──▶ runner ──▶ reconcile
//!                            ▲    (maps the change            (timeout, panics,   │
//!                            │     to keys of objects)         backoff, Events)   │
//!                            └──────── response of each write ◀── write, status ◀─┘
//! ```
//!
//! 1. A watch delivers an event. The informer of the kind updates its store and its indexes.
//! 2. Subscriptions map the change to the keys of the objects to reconcile, for example to the
//!    owner of a changed Pod. The keys enter the queue of the controller, without duplicates.
//! 3. The runner takes a key and calls [`Controller::reconcile`] with the cached object. It catches
//!    panics, enforces a timeout, and retries errors with backoff.
//! 4. The controller compares the cluster with the spec and writes the difference.
//! 5. The informer stores the response of each write, so the next read returns it even if the watch
//!    has not delivered the event yet.
//!
//! Start with [`controller`], which contains a complete example. Servers, leader election, and the
//! process itself are in the crate `operator-runtime`.

pub mod admission;
pub mod backoff;
pub mod builder;
pub mod client;
mod cluster_leftovers;
pub mod conditions;
pub mod controller;
pub mod endpoint;
pub mod environment;
pub mod error;
pub mod events;
pub mod fence;
pub mod finalizer;
pub mod informer;
pub mod kind;
pub mod labels;
pub mod manifests;
pub mod metrics;
pub mod network_policy;
pub mod outcome;
pub mod owner;
pub mod pod;
pub mod protobuf;
pub mod quantity;
pub mod queue;
pub mod rate_limit;
pub mod rbac;
pub mod registration;
mod request_info;
mod runner;
mod self_subject;
pub mod status;
pub mod template;
pub mod watch_connection;
pub mod write;
pub mod writer;

pub use builder::ControllerBuilder;
pub use cluster_leftovers::ClusterLeftovers;
pub use controller::{Controller, DrainResult, Runnable};
pub use environment::{Environment, Setting, Values};
pub use kind::ObjectKey;
pub use outcome::{Outcome, ReconcileError};
pub use registration::{OwnedFinalizer, Registration, register};
pub use self_subject::SelfSubject;

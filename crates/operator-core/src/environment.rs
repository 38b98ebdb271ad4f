//! Clients, informers, settings, and limits that a process provides to its controllers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    client::{Clients, MAX_IN_FLIGHT_LISTS, MAX_IN_FLIGHT_REVIEWS},
    endpoint::Connect,
    fence::Fence,
    informer::{Informers, Scope},
    metrics::{Metrics, NoMetrics},
    self_subject::SelfSubject,
};

/// Setting of a controller: a flag of the manager or an environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Flag without dashes, such as `podset-image`.
    pub flag: &'static str,
    /// Environment variable, such as `PODSET_IMAGE`.
    pub env: &'static str,
    /// Value if neither is set.
    pub default: &'static str,
    /// Allowed values. The manager does not start with another one.
    pub values: Values,
    /// Help text of the flag.
    pub help: &'static str,
}

/// Allowed values of a [`Setting`].
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// Any text.
    Any,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A text that the function accepts. Its error says what to write instead.
    Valid(fn(&str) -> Result<(), String>),
}

/// Values of the settings that were set, by flag.
pub type Settings = HashMap<&'static str, String>;

/// What a process provides to its controllers. Cheap to clone.
#[derive(Clone)]
pub struct Environment {
    /// Clients of the shared connection pool.
    pub clients: Clients,
    /// Clients for requests within an admission review. They have their own limit.
    pub review_clients: Clients,
    /// Connects to other addresses of the API server. `None`: it cannot.
    pub connect: Option<Connect>,
    /// Informers of the process.
    pub informers: Informers,
    /// User that the process is authenticated as.
    pub user: SelfSubject,
    /// Settings from the command line.
    pub settings: Arc<Settings>,
    /// Metrics backend.
    pub metrics: Arc<dyn Metrics>,
    /// Blocks the writes of a controller that this process does not lead. Each controller has its
    /// own.
    pub fence: Fence,
    /// Cancelled when the process stops: no new reconciles start, running ones finish.
    pub stop: CancellationToken,
    /// Number of objects of one controller that are reconciled at the same time:
    /// `MaxConcurrentReconciles` of controller-runtime.
    pub concurrency: usize,
    /// Timeout of one reconcile.
    pub reconcile_timeout: Duration,
    /// Time that running reconciles may take after `stop`.
    pub drain_timeout: Duration,
    /// Name of this replica in Events.
    pub instance: String,
    /// Namespace of the manager. No controller modifies it.
    pub namespace: String,
}

impl Environment {
    /// Returns an environment with the defaults of the manager's flags.
    pub fn new(client: kube::Client) -> Self {
        Self::with_metrics(client, Arc::new(NoMetrics))
    }

    /// Returns an environment like [`Environment::new`] that reports to `metrics`.
    pub fn with_metrics(client: kube::Client, metrics: Arc<dyn Metrics>) -> Self {
        Self::with_scope(client, metrics, Scope::Cluster)
    }

    /// Returns an environment like [`Environment::with_metrics`] whose informers watch `scope`.
    pub fn with_scope(client: kube::Client, metrics: Arc<dyn Metrics>, scope: Scope) -> Self {
        let clients = Clients::with_metrics(client, metrics.clone());
        let review_clients = clients.with_own_limit(MAX_IN_FLIGHT_REVIEWS);
        let lists = clients.with_own_limit(MAX_IN_FLIGHT_LISTS);
        let informers = Informers::with_scope(lists.named("informers"), metrics.clone(), scope);
        let user = SelfSubject::new(review_clients.named("own user"));
        Self {
            clients,
            review_clients,
            connect: None,
            informers,
            user,
            settings: Arc::default(),
            metrics,
            fence: Fence::open(),
            stop: CancellationToken::new(),
            concurrency: 16,
            reconcile_timeout: Duration::from_mins(1),
            drain_timeout: Duration::from_secs(4),
            instance: "ensemble".to_owned(),
            namespace: "ensemble-system".to_owned(),
        }
    }
}

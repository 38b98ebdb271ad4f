//! What a process gives to the controllers that it runs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    client::{Clients, MAX_IN_FLIGHT_LISTS, MAX_IN_FLIGHT_REVIEWS},
    fence::Fence,
    informer::{Informers, Scope},
    metrics::{Metrics, NoMetrics},
    own_user::OwnUser,
};

/// Something that can be set about a controller on the manager's command line, or by its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The flag, without the dashes: `podset-image`.
    pub flag: &'static str,
    /// The environment variable that stands in for the flag: `PODSET_IMAGE`.
    pub env: &'static str,
    /// The value if neither is given.
    pub default: &'static str,
    /// The values that it may have; any if there is none here.
    pub values: &'static [&'static str],
    /// What it does, for `--help`.
    pub help: &'static str,
}

/// The values of the settings that were given, by flag.
pub type Settings = HashMap<&'static str, String>;

/// What a process gives to the controllers that it runs. Cheap to clone.
#[derive(Clone)]
pub struct Environment {
    /// Clients over the process's one connection pool.
    pub clients: Clients,
    /// Clients for requests that are sent inside an admission review. They have a limit of their own.
    pub review_clients: Clients,
    /// The process's informers.
    pub informers: Informers,
    /// Who this process is to the API server.
    pub user: OwnUser,
    /// What was set on the command line.
    pub settings: Arc<Settings>,
    /// Where to report what was done.
    pub metrics: Arc<dyn Metrics>,
    /// Holds back the writes of a controller that this process does not lead. Of each controller its own.
    pub fence: Fence,
    /// Cancelled when the process is asked to stop: no reconcile begins any more, running ones finish.
    pub stop: CancellationToken,
    /// How many objects of one controller are reconciled at once.
    pub concurrency: usize,
    /// How long one reconcile may take.
    pub reconcile_timeout: Duration,
    /// How long running reconciles may still take after `stop`.
    pub drain_timeout: Duration,
    /// Which of several replicas this is; stands in Events.
    pub instance: String,
    /// The namespace that the manager itself runs in; no controller touches it.
    pub namespace: String,
}

impl Environment {
    /// An environment with the defaults of the manager's flags.
    pub fn new(client: kube::Client) -> Self {
        Self::measured(client, Arc::new(NoMetrics))
    }

    /// As [`Environment::new`], with everything that happens told to `metrics`.
    pub fn measured(client: kube::Client, metrics: Arc<dyn Metrics>) -> Self {
        Self::within(client, metrics, Scope::Cluster)
    }

    /// As [`Environment::measured`], for controllers that look into some namespaces only.
    pub fn within(client: kube::Client, metrics: Arc<dyn Metrics>, scope: Scope) -> Self {
        let clients = Clients::measured(client, metrics.clone());
        let review_clients = clients.with_own_limit(MAX_IN_FLIGHT_REVIEWS);
        let lists = clients.with_own_limit(MAX_IN_FLIGHT_LISTS);
        let informers = Informers::within(lists.named("informers"), metrics.clone(), scope);
        let user = OwnUser::new(review_clients.named("own user"));
        Self {
            clients,
            review_clients,
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

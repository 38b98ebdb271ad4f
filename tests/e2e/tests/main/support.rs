//! What the tests share: clusters at several stages, managers that run on them, and what can be asked of both.

mod curl;
mod forwarder;
mod kinds;
mod kubectl;
mod live_pods;
mod manager;
mod metrics_api;
mod program;
mod replicas;
mod stage;
mod stand_in;
mod webhooks;

use std::time::Duration;

pub(crate) use curl::{Answer, curl};
pub(crate) use forwarder::Forwarder;
pub(crate) use kinds::{CONFIGURATION, Kind, MEMCACHED, NAMESPACE_PLUS, POD_SET, TENANT, TENANT_OWNER};
pub(crate) use live_pods::LivePods;
pub(crate) use manager::Manager;
pub(crate) use metrics_api::MetricsApi;
pub(crate) use program::{Ended, free_port, program, run_to_end};
pub(crate) use replicas::QUICK;
pub(crate) use stage::{Account, NAMESPACE, Stage, path, sample, samples, tutorial, workbench};
pub(crate) use webhooks::Webhooks;

/// Long enough for a busy machine. Nothing that works takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

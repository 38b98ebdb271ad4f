//! Shared test code: clusters with different setups, managers that run on them, and queries of
//! both.

mod curl;
mod device_classes;
mod forwarder;
mod gateway_api;
mod kinds;
mod kubectl;
mod live_pods;
mod manager;
mod manager_pod;
mod metrics_api;
mod program;
mod replicas;
mod test_env;
mod webhooks;

use std::time::Duration;

pub(crate) use curl::{Response, curl};
pub(crate) use device_classes::DEVICES;
pub(crate) use forwarder::Forwarder;
pub(crate) use kinds::{
    CONFIGURATION, GLOBAL_PROXY_SETTINGS, GLOBAL_TENANT_RESOURCE, Kind, MEMCACHED, NAMESPACE_PLUS, POD_SET,
    POSTGRES_CLUSTER, PROXY_SETTING, TENANT, TENANT_OWNER, TENANT_RESOURCE,
};
pub(crate) use live_pods::LivePods;
pub(crate) use manager::Manager;
pub(crate) use metrics_api::MetricsApi;
pub(crate) use program::{ExitedManager, program, reserve_port, run_to_exit};
pub(crate) use replicas::{CONTROLLERS, QUICK};
pub(crate) use test_env::{Account, NAMESPACE, TestEnv, example, path, sample, samples, tutorial, workbench};
pub(crate) use webhooks::{Webhooks, webhooks_env};

/// Timeout of waits. Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

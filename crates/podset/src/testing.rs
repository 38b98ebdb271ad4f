//! Pods for unit tests.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use operator_core::pod::{Phase, PodView};

use crate::{
    pod_cache::CachedPod,
    pod_template::{APP_LABEL, VERSION, VERSION_LABEL},
};

/// Returns a ready Pod of the PodSet `web`, on its own node, with this change.
pub(crate) fn pod(number: usize, change: impl Fn(&mut PodView)) -> CachedPod {
    let mut pod = PodView { phase: Phase::Running, node: format!("node-{number}"), ..PodView::default() };
    pod.metadata.name = Some(format!("web-pod-{number}"));
    pod.metadata.uid = Some(format!("uid-{number}"));
    pod.labels = [(APP_LABEL, "web"), (VERSION_LABEL, VERSION)].into_iter().collect();
    pod.ready_since = Some(Timestamp::UNIX_EPOCH);
    change(&mut pod);
    Arc::new(pod)
}

//! Pods for the tests of what is pure.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use operator_core::pod::{Phase, PodView};

use crate::{
    build::{APP_LABEL, VERSION, VERSION_LABEL},
    observe::KnownPod,
};

/// A pod of the PodSet `web` that is ready and alone on its node, but for this change.
pub(crate) fn pod(number: usize, change: impl Fn(&mut PodView)) -> KnownPod {
    let mut pod = PodView { phase: Phase::Running, node: format!("node-{number}"), ..PodView::default() };
    pod.metadata.name = Some(format!("web-pod-{number}"));
    pod.metadata.uid = Some(format!("uid-{number}"));
    pod.labels = [(APP_LABEL, "web"), (VERSION_LABEL, VERSION)].into_iter().collect();
    pod.ready_since = Some(Timestamp::UNIX_EPOCH);
    change(&mut pod);
    Arc::new(pod)
}

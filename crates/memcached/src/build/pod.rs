//! The pods of a cache.

use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, SeccompProfile, TopologySpreadConstraint,
};

use super::{CONTAINER, container, selector};
use crate::api::Memcached;

/// The user and group `memcache` of the official images.
const MEMCACHE: i64 = 11211;
/// How long a pod may take to end, its farewell included.
const GRACE_SECONDS: i64 = 30;
/// The label that a Deployment puts on the pods of each of its revisions.
const REVISION_LABEL: &str = "pod-template-hash";

const HOSTNAME: &str = "kubernetes.io/hostname";
const SCHEDULE_ANYWAY: &str = "ScheduleAnyway";

/// Makes the pods what the cache asks.
pub(super) fn shape(cache: &Memcached, image: &str, pod: &mut PodSpec) {
    pod.security_context = Some(restricted());
    pod.automount_service_account_token = Some(false);
    pod.enable_service_links = Some(false);
    pod.termination_grace_period_seconds = Some(GRACE_SECONDS);
    let spread = pod.topology_spread_constraints.get_or_insert_default();
    put(
        spread,
        |one| one.topology_key == HOSTNAME && one.when_unsatisfiable == SCHEDULE_ANYWAY,
        || over_nodes(cache),
    );
    let serving = |one: &Container| one.name == CONTAINER;
    match pod.containers.iter_mut().find(|one| serving(one)) {
        Some(container) => container::shape(cache, image, container),
        None => pod.containers.insert(0, fresh(cache, image)),
    }
}

fn fresh(cache: &Memcached, image: &str) -> Container {
    let mut container = Container::default();
    container::shape(cache, image, &mut container);
    container
}

/// Replaces the element that `is_it` finds, or adds it.
fn put<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, wanted: impl FnOnce() -> T) {
    match list.iter_mut().find(|one| is_it(one)) {
        Some(found) => *found = wanted(),
        None => list.push(wanted()),
    }
}

fn restricted() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(MEMCACHE),
        run_as_group: Some(MEMCACHE),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Spreads the pods of one revision over the nodes, as far as there are nodes, so that the loss of a node
/// costs as little of the cache as can be.
fn over_nodes(cache: &Memcached) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: HOSTNAME.to_owned(),
        when_unsatisfiable: SCHEDULE_ANYWAY.to_owned(),
        label_selector: Some(selector(cache)),
        match_label_keys: Some(vec![REVISION_LABEL.to_owned()]),
        ..TopologySpreadConstraint::default()
    }
}

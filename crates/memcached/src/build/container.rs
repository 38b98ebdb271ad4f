//! The memcached container.

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, Lifecycle, LifecycleHandler, Probe, SecurityContext,
        SleepAction, TCPSocketAction,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{CONTAINER, DesiredCache, command::command, resources};

/// How long a terminating Pod keeps serving, so that clients learn of the termination first.
const PRE_STOP_SECONDS: i64 = 5;

/// Sets the desired state. Environment variables and mounts are left unchanged.
pub(super) fn mutate(desired: &DesiredCache<'_>, container: &mut Container) {
    let (spec, image) = (&desired.cache.spec, desired.image);
    CONTAINER.clone_into(&mut container.name);
    container.image = Some(image.to_owned());
    container.image_pull_policy = Some(pull_policy(image).to_owned());
    container.command = Some(command(spec));
    container.args = None;
    container.ports = Some(vec![port(CONTAINER, spec.container_port)]);
    resources::mutate(spec, container.resources.get_or_insert_default());
    container.security_context = Some(restricted());
    container.readiness_probe = Some(probe(CONTAINER, 5, 2));
    container.liveness_probe = Some(probe(CONTAINER, 10, 6));
    container.lifecycle = Some(pre_stop_sleep());
}

/// Returns a TCP port with this name and number.
pub(super) fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// Returns the pull policy that the API server would set: `Always` for images without a fixed tag.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let moves = !name.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
    if moves { "Always" } else { "IfNotPresent" }
}

/// Returns the security context for the restricted Pod Security Standard, with a read-only root
/// file system.
pub(super) fn restricted() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        ..SecurityContext::default()
    }
}

/// Returns a TCP probe. Use a high failure threshold for liveness, because a restart empties the
/// cache.
pub(super) fn probe(port: &str, period: i32, failures: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::String(port.to_owned()), host: None }),
        period_seconds: Some(period),
        timeout_seconds: Some(3),
        success_threshold: Some(1),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

fn pre_stop_sleep() -> Lifecycle {
    let sleep = SleepAction { seconds: PRE_STOP_SECONDS };
    Lifecycle {
        pre_stop: Some(LifecycleHandler { sleep: Some(sleep), ..LifecycleHandler::default() }),
        ..Lifecycle::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_is_always_only_for_moving_tags() {
        for moving in ["memcached", "memcached:latest", "registry:5000/memcached"] {
            assert_eq!(pull_policy(moving), "Always", "{moving}");
        }
        for fixed in ["memcached:1.6", "registry:5000/memcached:1.6", "memcached@sha256:00"] {
            assert_eq!(pull_policy(fixed), "IfNotPresent", "{fixed}");
        }
    }
}

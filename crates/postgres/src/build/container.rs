//! The containers of a member: one installs the instance manager, the other runs it with PostgreSQL.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector,
        Probe, ResourceFieldSelector, ResourceRequirements, SecurityContext, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use kube::ResourceExt;
use operator_core::kind::uid;
use postgres_model::{metrics, status_api};

use super::{
    APP, PORT, archive,
    pod::{DATA, MemberImages, PREVIOUS, PROGRAM, RUN, SCRATCH},
    queries,
    secret::Purpose,
};
use crate::api::PostgresCluster;

/// Where the instance manager is installed.
const PROGRAM_PATH: &str = "/ensemble";
/// Where the programs of the former major version are.
const PREVIOUS_PATH: &str = "/previous";
/// Where the volume of the member is mounted.
const DATA_PATH: &str = "/var/lib/ensemble";
/// Folder with a folder for each of the certificates.
const CERTIFICATES_PATH: &str = "/etc/ensemble/certificates";
/// Folder with the password of the application.
const APPLICATION_PATH: &str = "/etc/ensemble/app";
/// Folder with the passwords of the roles of the spec.
const ROLES_PATH: &str = "/etc/ensemble/roles";
/// Secrets that a member needs.
pub(super) const SECRETS: [Purpose<'static>; 4] =
    [Purpose::Server, Purpose::Replication, Purpose::Application, Purpose::Passwords];
const PROBES: &str = "probes";
const STATUS: &str = "status";
const METRICS: &str = "metrics";
/// Names of the ports that everybody may reach: the status API requires certificates, and the others
/// have no data.
pub(super) const PUBLIC_PORTS: [&str; 3] = [STATUS, METRICS, PROBES];

/// Returns the init container, which copies the instance manager into a volume.
pub(super) fn installer(images: &MemberImages<'_>) -> Container {
    Container {
        name: "install".to_owned(),
        image: Some(images.instance.to_owned()),
        command: Some(vec!["/ensemble-instance".to_owned(), "install".to_owned(), PROGRAM_PATH.to_owned()]),
        security_context: Some(restricted()),
        volume_mounts: Some(vec![mount(PROGRAM, PROGRAM_PATH)]),
        ..Container::default()
    }
}

/// Returns the init container that copies the programs of the former major version, for an upgrade.
pub(super) fn previous(images: &MemberImages<'_>) -> Option<Container> {
    Some(Container {
        name: PREVIOUS.to_owned(),
        image: Some(images.previous?.to_owned()),
        command: Some(vec![
            format!("{PROGRAM_PATH}/ensemble-instance"),
            "copy-programs".to_owned(),
            PREVIOUS_PATH.to_owned(),
        ]),
        security_context: Some(restricted()),
        volume_mounts: Some(vec![mount(PROGRAM, PROGRAM_PATH), mount(PREVIOUS, PREVIOUS_PATH)]),
        ..Container::default()
    })
}

/// Returns the container of PostgreSQL. The instance manager is its first process.
pub(super) fn postgres(cluster: &PostgresCluster, images: &MemberImages<'_>) -> Container {
    let secret = |purpose: Purpose<'_>| {
        let path = match purpose {
            Purpose::Application => APPLICATION_PATH.to_owned(),
            Purpose::Passwords => ROLES_PATH.to_owned(),
            _ => format!("{CERTIFICATES_PATH}/{}", purpose.suffix()),
        };
        VolumeMount { read_only: Some(true), ..mount(&purpose.suffix(), &path) }
    };
    let mounts = [
        mount(DATA, DATA_PATH),
        mount(PROGRAM, PROGRAM_PATH),
        mount(RUN, "/run/postgresql"),
        mount(SCRATCH, "/tmp"),
    ];
    let value =
        |name: &str, value: String| EnvVar { name: name.to_owned(), value: Some(value), ..EnvVar::default() };
    Container {
        name: APP.to_owned(),
        image: Some(images.postgres.to_owned()),
        command: Some(vec![format!("{PROGRAM_PATH}/ensemble-instance"), "run".to_owned()]),
        env: Some(
            [
                value("CLUSTER", cluster.name_any()),
                value("CLUSTER_UID", uid(cluster)),
                field("POD_NAME", "metadata.name"),
                field("POD_NAMESPACE", "metadata.namespace"),
                field("POD_UID", "metadata.uid"),
                value("LEASE_SECONDS", cluster.spec.failover.lease_seconds.to_string()),
            ]
            .into_iter()
            .chain(memory_limit(cluster))
            .chain(images.previous.map(|_| value("PREVIOUS_PROGRAMS", format!("{PREVIOUS_PATH}/bin"))))
            .collect(),
        ),
        ports: Some(vec![
            port(APP, PORT),
            port(STATUS, status_api::PORT.into()),
            port(METRICS, metrics::PORT.into()),
            port(PROBES, status_api::PROBE_PORT.into()),
        ]),
        resources: Some(cluster.spec.resources.clone().unwrap_or_else(default_resources)),
        security_context: Some(restricted()),
        startup_probe: Some(probe("/livez", 1, 60)),
        liveness_probe: Some(probe("/livez", 10, 3)),
        readiness_probe: Some(probe("/readyz", 2, 2)),
        volume_mounts: Some(
            mounts
                .into_iter()
                .chain(SECRETS.map(secret))
                .chain(archive::mounts(cluster))
                .chain(queries::mount(cluster))
                .chain(images.previous.map(|_| mount(PREVIOUS, PREVIOUS_PATH)))
                .collect(),
        ),
        ..Container::default()
    }
}

fn default_resources() -> ResourceRequirements {
    let requests = [("cpu", "100m"), ("memory", "256Mi")];
    let requests: BTreeMap<_, _> =
        requests.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into();
    ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }
}

/// Returns an environment variable with a field of the Pod.
fn field(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
}

/// Returns an environment variable with the memory limit in bytes, if there is one. Without one, it
/// would have the memory of the node.
fn memory_limit(cluster: &PostgresCluster) -> Option<EnvVar> {
    let resources = cluster.spec.resources.as_ref()?;
    resources.limits.as_ref()?.get("memory")?;
    let selector = ResourceFieldSelector {
        container_name: Some(APP.to_owned()),
        resource: "limits.memory".to_owned(),
        divisor: None,
    };
    let source = EnvVarSource { resource_field_ref: Some(selector), ..EnvVarSource::default() };
    Some(EnvVar { name: "MEMORY_LIMIT".to_owned(), value_from: Some(source), ..EnvVar::default() })
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort { name: Some(name.to_owned()), container_port: number, ..ContainerPort::default() }
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(PROBES.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(3),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// Returns the security context for the restricted Pod Security Standard, with a read-only root file
/// system.
fn restricted() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        ..SecurityContext::default()
    }
}

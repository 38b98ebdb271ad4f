//! Command line. Every flag has an environment variable.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use capsule::api::v1beta2::CONFIGURATION_NAME;
use clap::{ArgAction, Parser};
use operator_runtime::{
    flags::{Address, address, duration},
    logs::Format,
};

use crate::view::ViewKind;

/// A proxy before the API server that lets owners of Tenants list what is theirs
#[derive(Parser)]
#[command(name = "ensemble-proxy", version)]
pub struct Flags {
    /// Address to serve the API on, over HTTPS
    #[arg(long, env = "ENSEMBLE_PROXY_BIND_ADDRESS", default_value = "0.0.0.0:9443", value_parser = listening)]
    pub bind_address: std::net::SocketAddr,

    /// PEM file with the chain of the serving certificate. A replaced file is used within ten seconds
    #[arg(long, env = "ENSEMBLE_PROXY_TLS_CERT_FILE", value_name = "FILE", default_value = "/tls/tls.crt")]
    pub tls_cert_file: PathBuf,

    /// PEM file with the private key of the serving certificate
    #[arg(
        long,
        env = "ENSEMBLE_PROXY_TLS_PRIVATE_KEY_FILE",
        value_name = "FILE",
        default_value = "/tls/tls.key"
    )]
    pub tls_private_key_file: PathBuf,

    /// Comma-separated list of views: `*` enables all, `name` enables the view `name`, `-name` disables it. The views are `namespaces`, `tenants`, `persistentvolumes`, `storageclasses`, `ingressclasses`, `priorityclasses`, `runtimeclasses`, and `clusterresources` for all other kinds of GlobalProxySettings
    #[arg(long, env = "ENSEMBLE_PROXY_VIEWS", default_value = "*", value_parser = views, allow_hyphen_values = true)]
    pub views: Views,

    /// Show users the namespaces with a RoleBinding for them. Needs the right to watch RoleBindings
    #[arg(long, env = "ENSEMBLE_PROXY_NAMESPACES_BY_ROLE_BINDING", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub namespaces_by_role_binding: bool,

    /// Return 404 instead of 403 for objects in a namespace that does not exist, to users who may own Tenants
    #[arg(long, env = "ENSEMBLE_PROXY_NOT_FOUND_IN_MISSING_NAMESPACES", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub not_found_in_missing_namespaces: bool,

    /// Accept the client certificates that the API server accepts, and impersonate their users. Needs Kubernetes 1.36 and the right to impersonate
    #[arg(long, env = "ENSEMBLE_PROXY_CLIENT_CERTIFICATES", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub client_certificates: bool,

    /// Name of the CapsuleConfiguration that says who may own Tenants
    #[arg(
        long,
        env = "ENSEMBLE_PROXY_CAPSULE_CONFIGURATION",
        default_value = CONFIGURATION_NAME,
        value_name = "NAME"
    )]
    pub capsule_configuration: String,

    /// Maximum number of open connections. If there are more, the one that was idle for longest is closed
    #[arg(long, env = "ENSEMBLE_PROXY_MAX_CONNECTIONS", default_value = "4096", value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    pub max_connections: u32,

    /// Maximum bytes of the headers of a request
    #[arg(long, env = "ENSEMBLE_PROXY_MAX_HEADER_BYTES", default_value = "65536", value_parser = clap::value_parser!(u32).range(8192..=1_048_576))]
    pub max_header_bytes: u32,

    /// Time for which connections of exec, attach, and port-forward go on after the proxy was asked to stop
    #[arg(long, env = "ENSEMBLE_PROXY_DRAIN_TIMEOUT", default_value = "5m", value_name = "DURATION", value_parser = duration)]
    pub drain_timeout: Duration,

    /// Address to serve /metrics on, over HTTPS, to clients with a token and the permission to get /metrics. `0` disables them
    #[arg(long, env = "ENSEMBLE_METRICS_BIND_ADDRESS", default_value = "0.0.0.0:8443", value_parser = address)]
    pub metrics_bind_address: Address,

    /// Address to serve /healthz and /readyz on. `0` disables them
    #[arg(long, env = "ENSEMBLE_HEALTH_PROBE_BIND_ADDRESS", default_value = "0.0.0.0:8081", value_parser = address)]
    pub health_probe_bind_address: Address,

    /// Format of log lines
    #[arg(long, env = "ENSEMBLE_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: Format,

    /// Log level, or directives such as info,kube=debug
    #[arg(long, env = "ENSEMBLE_LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// Kinds whose views are enabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Views(pub BTreeSet<ViewKind>);

fn listening(text: &str) -> Result<std::net::SocketAddr, String> {
    address(text)?.0.ok_or_else(|| "the proxy must listen on an address, such as 0.0.0.0:9443".to_owned())
}

/// Parses a list of views. As with `--controllers` of the manager, what is not named is disabled, unless the
/// list has `*`.
fn views(text: &str) -> Result<Views, String> {
    let mut enabled = BTreeSet::new();
    let names: Vec<_> = text.split(',').map(str::trim).collect();
    if names.contains(&"*") {
        enabled.extend(ViewKind::ALL);
    }
    for name in names.into_iter().filter(|name| !matches!(*name, "*" | "")) {
        let (is_enabled, kind) = name.strip_prefix('-').map_or((true, name), |kind| (false, kind));
        let kind = ViewKind::ALL.into_iter().find(|one| one.name() == kind).ok_or_else(|| {
            let known = ViewKind::ALL.map(ViewKind::name).join(", ");
            format!("there is no view {kind:?}; the views are {known}")
        })?;
        if is_enabled {
            enabled.insert(kind);
        } else {
            enabled.remove(&kind);
        }
    }
    Ok(Views(enabled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_selected_like_controllers() {
        let names = |text: &str| views(text).unwrap().0.into_iter().map(ViewKind::name).collect::<Vec<_>>();
        assert_eq!(names("*").len(), ViewKind::ALL.len());
        assert_eq!(names("namespaces,tenants,-tenants"), ["namespaces"]);
        assert!(!names("*,-tenants").contains(&"tenants"));
        assert_eq!(names("tenants"), ["tenants"]);
        assert!(names("").is_empty() && names("-tenants").is_empty());
        assert!(views("pods").unwrap_err().contains("the views are namespaces, tenants, persistentvolumes"));
    }

    #[test]
    fn flags_have_defaults_and_clear_errors() {
        let parse = |args: &[&str]| Flags::try_parse_from([&["ensemble-proxy"], args].concat());
        let flags = parse(&[]).unwrap();
        assert_eq!((flags.max_connections, flags.drain_timeout), (4096, Duration::from_mins(5)));
        for (args, message) in [
            (["--bind-address", "0"], "must listen"),
            (["--bind-address", "here"], "use an address and port"),
            (["--views", "pods"], "there is no view"),
            (["--max-connections", "1"], "16..=1000000"),
            (["--drain-timeout", "5"], "such as 15s"),
        ] {
            let error = parse(&args).err().unwrap().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}

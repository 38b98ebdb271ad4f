//! Command line. Every flag has an environment variable.

mod certificates;
mod container;
mod election;
mod task;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use certificates::CertificateFlags;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, builder::PossibleValuesParser,
    error::ErrorKind,
};
pub use container::parse_args_and_env;
use election::ElectionFlags;
pub use election::LeaderElection;
use operator_core::{Registration, Setting, Values, environment::Settings, informer::Scope};
use operator_runtime::{
    certificates::{Host, Source},
    flags::{Address, address, duration},
    https::ClientCa,
    logs::Format,
    metrics::check_address,
};
pub use task::Task;

use crate::{CONTROLLERS, NAMESPACE, namespaces, select};

/// Configuration of the manager.
pub struct Flags {
    /// Task of the process.
    pub task: Task,
    /// Controllers to run.
    pub controllers: Vec<Registration>,
    /// Settings of the controllers.
    pub settings: Settings,
    /// Namespaces that the controllers watch.
    pub scope: Scope,
    /// Whether to install the CustomResourceDefinitions at startup.
    pub install_crds: bool,
    /// Number of concurrent reconciles of each controller: `MaxConcurrentReconciles` of
    /// controller-runtime.
    pub concurrency: usize,
    /// Timeout of one reconcile.
    pub reconcile_timeout: Duration,
    /// Address of the health probes. `None` disables them.
    pub health_probe_bind_address: Option<SocketAddr>,
    /// Address of the webhooks. `None` disables them.
    pub webhook_bind_address: Option<SocketAddr>,
    /// Certificate authority of clients that can send admission reviews. `None` accepts all clients.
    pub webhook_client_ca: Option<ClientCa>,
    /// Source of the certificates of the HTTPS servers.
    pub certificates: Source,
    /// DNS names and IP addresses of the manager, in addition to the names of its Services.
    pub webhook_hosts: Vec<Host>,
    /// Address of the metrics. `None` disables them.
    pub metrics_bind_address: Option<SocketAddr>,
    /// Whether the metrics require TLS and authorization.
    pub metrics_secure: bool,
    /// Format of log lines.
    pub log_format: Format,
    /// Level and directives of the logs.
    pub log_level: String,
    /// Address of the collector of traces. Always `None` without the feature `otlp`.
    pub otlp_endpoint: Option<String>,
    /// Namespace of the manager.
    pub namespace: String,
    /// Name of this replica.
    pub instance: String,
    /// Configuration of leader election. `None` disables it.
    pub leader_election: Option<LeaderElection>,
}

/// Flags that do not depend on the controllers.
#[derive(Args)]
struct ManagerFlags {
    /// Comma-separated list of controllers to enable: `*` enables all, `name` enables the controller `name`, `-name` disables it
    #[arg(
        long,
        env = "ENSEMBLE_CONTROLLERS",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,

    /// Comma-separated list of namespaces to watch. The controllers then need Roles only in these namespaces. Defaults to all namespaces
    #[arg(long, env = "ENSEMBLE_WATCH_NAMESPACES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,

    /// Install the CustomResourceDefinitions of the enabled controllers at startup
    #[arg(long, env = "ENSEMBLE_INSTALL_CRDS")]
    install_crds: bool,

    /// Number of objects that each controller reconciles concurrently
    #[arg(long, env = "ENSEMBLE_CONCURRENCY", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,

    /// Timeout of one reconcile, between 1s and 1h
    #[arg(long, env = "ENSEMBLE_RECONCILE_TIMEOUT", default_value = "1m", value_name = "DURATION", value_parser = reconcile_timeout)]
    reconcile_timeout: Duration,

    /// Address to serve /healthz and /readyz on. `0` disables them
    #[arg(long, env = "ENSEMBLE_HEALTH_PROBE_BIND_ADDRESS", default_value = "0.0.0.0:8081", value_parser = address)]
    health_probe_bind_address: Address,

    /// Address to serve admission and conversion webhooks on, over HTTPS. `0` disables them
    #[arg(long, env = "ENSEMBLE_WEBHOOK_BIND_ADDRESS", default_value = "0.0.0.0:9443", value_parser = address)]
    webhook_bind_address: Address,

    /// PEM file with the certificate authority of the API server's client certificate. If set, admission reviews require a client certificate signed by it. Conversion reviews never require one, because the API server sends none with them
    #[arg(long, env = "ENSEMBLE_WEBHOOK_CLIENT_CA_FILE", value_name = "FILE")]
    webhook_client_ca_file: Option<PathBuf>,

    /// Address to serve /metrics on. `0` disables them
    #[arg(long, env = "ENSEMBLE_METRICS_BIND_ADDRESS", default_value = "0.0.0.0:8443", value_parser = address)]
    metrics_bind_address: Address,

    /// Serve the metrics over TLS, to clients with a token and the permission to get /metrics. `false` requires a loopback address
    #[arg(long, env = "ENSEMBLE_METRICS_SECURE", default_value = "true", action = ArgAction::Set)]
    metrics_secure: bool,

    /// Format of log lines
    #[arg(long, env = "ENSEMBLE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: Format,

    /// Log level, or directives such as info,kube=debug
    #[arg(long, env = "ENSEMBLE_LOG_LEVEL", default_value = "info")]
    log_level: String,

    /// Base URL of the collector that receives traces by OTLP over HTTP, such as http://collector:4318
    #[cfg(feature = "otlp")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,

    /// Namespace of the manager. The controllers do not change it
    #[arg(long, env = "POD_NAMESPACE", default_value = NAMESPACE)]
    namespace: String,

    /// Name of this replica in Events and Leases
    #[arg(long, env = "POD_NAME", default_value = "ensemble")]
    instance: String,

    #[command(flatten)]
    election: ElectionFlags,

    #[command(flatten)]
    certificates: CertificateFlags,
}

fn reconcile_timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration(text)?;
    if !(Duration::from_secs(1)..=Duration::from_hours(1)).contains(&timeout) {
        return Err("use a duration between 1s and 1h".to_owned());
    }
    Ok(timeout)
}

/// Returns the command line, with the settings of all controllers.
pub fn command() -> Command {
    let command = Command::new("ensemble-manager")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs Kubernetes controllers in one process");
    ManagerFlags::augment_args(command).args(settings().map(setting)).subcommands(task::subcommands())
}

/// Parses the command line. Exits with a message for `--help` and for invalid flags.
pub fn parse() -> Flags {
    parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// Parses arguments, including the name of the program.
///
/// # Errors
/// Returns an error for `--help` and for invalid flags. The error contains the message to print.
pub fn parse_from(args: impl IntoIterator<Item = OsString>) -> Result<Flags, clap::Error> {
    parse_with(command(), args)
}

fn parse_with(definition: Command, args: impl IntoIterator<Item = OsString>) -> Result<Flags, clap::Error> {
    let matches = definition.try_get_matches_from(args)?;
    let flags = ManagerFlags::from_arg_matches(&matches)?;
    let controllers = select(CONTROLLERS, &flags.controllers)
        .map_err(|message| command().error(ErrorKind::InvalidValue, format!("--controllers: {message}")))?;
    let scope = namespaces::scope(&flags.watch_namespaces, &controllers).map_err(|message| {
        command().error(ErrorKind::InvalidValue, format!("--watch-namespaces: {message}"))
    })?;
    if let Some(address) = flags.metrics_bind_address.0 {
        check_address(address, flags.metrics_secure)
            .map_err(|error| command().error(ErrorKind::ValueValidation, error))?;
    }
    let leader_election = flags.election.validate(&flags.namespace);
    let leader_election =
        leader_election.map_err(|message| command().error(ErrorKind::InvalidValue, message))?;
    let (certificates, webhook_hosts) =
        flags.certificates.validate().map_err(|message| command().error(ErrorKind::InvalidValue, message))?;
    Ok(Flags {
        task: Task::of(&matches),
        controllers,
        leader_election,
        certificates,
        webhook_hosts,
        scope,
        settings: settings_of(&matches),
        install_crds: flags.install_crds,
        concurrency: usize::from(flags.concurrency),
        reconcile_timeout: flags.reconcile_timeout,
        health_probe_bind_address: flags.health_probe_bind_address.0,
        webhook_bind_address: flags.webhook_bind_address.0,
        webhook_client_ca: flags.webhook_client_ca_file.map(ClientCa::new),
        metrics_bind_address: flags.metrics_bind_address.0,
        metrics_secure: flags.metrics_secure,
        log_format: flags.log_format,
        log_level: flags.log_level,
        #[cfg(feature = "otlp")]
        otlp_endpoint: flags.otlp_endpoint.filter(|endpoint| !endpoint.is_empty()),
        #[cfg(not(feature = "otlp"))]
        otlp_endpoint: None,
        namespace: flags.namespace,
        instance: flags.instance,
    })
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    CONTROLLERS.iter().flat_map(|controller| (controller.settings)())
}

fn setting(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.flag)
        .long(setting.flag)
        .env(setting.env)
        .default_value(setting.default)
        .help(setting.help)
        .help_heading("Settings of controllers");
    match setting.values {
        Values::Any => arg,
        Values::OneOf(values) => arg.value_parser(PossibleValuesParser::new(values)),
        Values::Valid(check) => arg.value_parser(move |value: &str| check(value).map(|()| value.to_owned())),
    }
}

fn settings_of(matches: &ArgMatches) -> Settings {
    settings()
        .filter_map(|setting| Some((setting.flag, matches.get_one::<String>(setting.flag)?.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use operator_runtime::election::Timing;

    use super::*;

    fn flags(args: &[&str]) -> Result<Flags, clap::Error> {
        parse_from(["ensemble-manager"].iter().chain(args).map(OsString::from))
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        let built_in = ["help", "version"];
        for flag in command().get_arguments().filter(|flag| !built_in.contains(&flag.get_id().as_str())) {
            assert!(flag.get_env().is_some(), "{} has none", flag.get_id());
        }
        command().debug_assert();
    }

    #[test]
    fn rejects_invalid_values() {
        for (args, message) in [
            (["--controllers", "nothing"], "unknown controller `nothing`; use"),
            (["--concurrency", "0"], "1..=256"),
            (["--health-probe-bind-address", "here"], "such as 127.0.0.1:8081"),
            (["--certificates", "none"], "possible values: managed, cert-manager"),
            (
                ["--certificate-validity", "9s"],
                "--certificate-validity: the lifetime of a serving certificate must be at least",
            ),
            (
                ["--certificate-validity", "9000h"],
                "--certificate-authority-validity: the lifetime of the certificate authority",
            ),
            (["--webhook-host", "https://a"], "neither a DNS name nor an IP address"),
            (["--log-format", "xml"], "possible values: text, json"),
            (["--tenant-metrics", "maybe"], "possible values: true, false"),
            (["--watch-namespaces=shop", "--controllers=podset,tenant"], "use --controllers=podset"),
            (["--watch-namespaces", ""], "is not a valid namespace name"),
            (
                ["--metrics-bind-address=:8443", "--metrics-secure=false"],
                "expose the metrics on 0.0.0.0:8443",
            ),
            (["--leader-elect-lease-duration", "15"], "such as 15s"),
            (
                ["--leader-elect-lease-duration", "1500ms"],
                "--leader-elect-lease-duration: the lease duration must be whole seconds",
            ),
            (
                ["--leader-elect-renew-deadline", "15s"],
                "--leader-elect-renew-deadline: the renew deadline must be shorter",
            ),
            (["--leader-elect-retry-period", "9s"], "--leader-elect-retry-period: the retry period must be"),
        ] {
            let error = flags(&args).err().expect("the flags are invalid").to_string();
            assert!(error.contains(message), "{args:?}: {error}");
        }
    }

    #[test]
    fn accepts_namespaces_for_namespaced_controllers() {
        let flags = flags(&["--controllers=memcached,podset", "--watch-namespaces=shop,till"]).unwrap();
        assert_eq!(flags.scope, Scope::Namespaces(["shop".to_owned(), "till".to_owned()].into()));
    }

    #[test]
    fn disabled_controller_can_come_first() {
        let flags = flags(&["--controllers", "-tenant,*"]).unwrap();
        assert!(flags.controllers.iter().all(|controller| controller.name != "tenant"));
    }

    #[test]
    fn leader_election_is_enabled_by_default() {
        assert!(flags(&["--leader-elect=false"]).unwrap().leader_election.is_none());
        assert!(flags(&["--leader-elect"]).unwrap().leader_election.is_some());
        let election = flags(&["--namespace=own"]).unwrap().leader_election.unwrap();
        assert_eq!((election.namespace.as_str(), election.timing), ("own", Timing::default()));
        let election = flags(&["--leader-elect-resource-namespace=leases"]).unwrap().leader_election.unwrap();
        assert_eq!(election.namespace, "leases");
    }

    #[test]
    fn reconcile_timeout_is_bounded() {
        assert_eq!(flags(&[]).unwrap().reconcile_timeout, Duration::from_mins(1));
        assert_eq!(flags(&["--reconcile-timeout=1s"]).unwrap().reconcile_timeout, Duration::from_secs(1));
        for bad in ["60", "999ms", "1h1s"] {
            assert!(flags(&[&format!("--reconcile-timeout={bad}")]).is_err(), "{bad}");
        }
    }

    #[test]
    fn zero_disables_an_address() {
        assert_eq!(flags(&["--health-probe-bind-address=0"]).unwrap().health_probe_bind_address, None);
        let address = flags(&["--health-probe-bind-address=:9"]).unwrap().health_probe_bind_address;
        assert_eq!(address, Some("0.0.0.0:9".parse().unwrap()));
    }
}

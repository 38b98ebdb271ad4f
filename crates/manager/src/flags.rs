//! The command line. Every flag has an environment variable.

mod certificates;
mod deployed;
mod duration;
mod election;
mod task;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use certificates::CertificateFlags;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, builder::PossibleValuesParser,
    error::ErrorKind,
};
pub use deployed::parse_deployed;
use election::ElectionFlags;
pub use election::Sharing;
use operator_core::{Registration, Setting, environment::Settings, informer::Scope};
use operator_runtime::{
    certificates::{Host, Source},
    https::ClientCa,
    logs::Format,
    metrics::may_listen,
};
pub use task::Task;

use crate::{CONTROLLERS, NAMESPACE, namespaces, select};

/// What the manager was asked to do.
pub struct Flags {
    /// Whether to run the controllers at all.
    pub task: Task,
    /// The controllers to run.
    pub controllers: Vec<Registration>,
    /// What was set about them.
    pub settings: Settings,
    /// The namespaces that the controllers look into.
    pub scope: Scope,
    /// Whether to register the custom resource definitions first.
    pub install_crds: bool,
    /// How many objects of one controller are reconciled at once.
    pub concurrency: usize,
    /// How long one reconcile may take.
    pub reconcile_timeout: Duration,
    /// Where the probes are served; not at all if absent.
    pub health_probe_bind_address: Option<SocketAddr>,
    /// Where the webhooks are served; not at all if absent.
    pub webhook_bind_address: Option<SocketAddr>,
    /// The authority of the clients that admission reviews are answered to; all clients if absent.
    pub webhook_client_ca: Option<ClientCa>,
    /// Who makes the certificates of the HTTPS servers.
    pub certificates: Source,
    /// The names by which this manager is reached, besides those of its Services.
    pub webhook_hosts: Vec<Host>,
    /// Where the metrics are served; not at all if absent.
    pub metrics_bind_address: Option<SocketAddr>,
    /// Whether the metrics are served over TLS, to those who may see them.
    pub metrics_secure: bool,
    /// How log lines look.
    pub log_format: Format,
    /// Which log lines there are.
    pub log_level: String,
    /// Where traces go; nowhere if absent, and always if they are not built in.
    pub otlp_endpoint: Option<String>,
    /// The namespace that the manager itself runs in.
    pub namespace: String,
    /// Which of several replicas this is.
    pub instance: String,
    /// How the controllers are shared with other replicas, if they are.
    pub sharing: Option<Sharing>,
}

/// The flags that do not depend on the controllers.
#[derive(Args)]
struct Fixed {
    /// The controllers to run: names, `*` for all, `-name` to take one out
    #[arg(
        long,
        env = "ENSEMBLE_CONTROLLERS",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,

    /// The namespaces to look into and act in, so that Roles there are enough; all if none is named
    #[arg(long, env = "ENSEMBLE_WATCH_NAMESPACES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,

    /// Register the custom resource definitions of these controllers at the start
    #[arg(long, env = "ENSEMBLE_INSTALL_CRDS")]
    install_crds: bool,

    /// How many objects of one controller are reconciled at once
    #[arg(long, env = "ENSEMBLE_CONCURRENCY", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,

    /// How long one reconcile may take, in seconds
    #[arg(long, env = "ENSEMBLE_RECONCILE_TIMEOUT", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    reconcile_timeout: u64,

    /// Where /healthz and /readyz are served; `0` for nowhere
    #[arg(long, env = "ENSEMBLE_HEALTH_PROBE_BIND_ADDRESS", default_value = "0.0.0.0:8081", value_parser = address)]
    health_probe_bind_address: Address,

    /// Where admission and conversion webhooks are served, over HTTPS; `0` for nowhere
    #[arg(long, env = "ENSEMBLE_WEBHOOK_BIND_ADDRESS", default_value = "0.0.0.0:9443", value_parser = address)]
    webhook_bind_address: Address,

    /// A file in PEM with the certificate authority of the API server's client certificate: admission reviews are answered only to clients that show one of it. Conversion reviews are answered to everybody, for the API server shows no certificate with them
    #[arg(long, env = "ENSEMBLE_WEBHOOK_CLIENT_CA_FILE", value_name = "FILE")]
    webhook_client_ca_file: Option<PathBuf>,

    /// Where /metrics is served; `0` for nowhere
    #[arg(long, env = "ENSEMBLE_METRICS_BIND_ADDRESS", default_value = "0.0.0.0:8443", value_parser = address)]
    metrics_bind_address: Address,

    /// Serve the metrics over TLS, to whoever has a token and the right to get /metrics; `false` needs a loopback address
    #[arg(long, env = "ENSEMBLE_METRICS_SECURE", default_value = "true", action = ArgAction::Set)]
    metrics_secure: bool,

    /// How log lines look
    #[arg(long, env = "ENSEMBLE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: Format,

    /// Which log lines there are: a level, or directives such as info,kube=debug
    #[arg(long, env = "ENSEMBLE_LOG_LEVEL", default_value = "info")]
    log_level: String,

    /// Where traces go: the base address of a collector that takes OTLP by HTTP, such as http://collector:4318
    #[cfg(feature = "otlp")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,

    /// The namespace that the manager itself runs in; no controller touches it
    #[arg(long, env = "POD_NAMESPACE", default_value = NAMESPACE)]
    namespace: String,

    /// Which of several replicas this is; stands in Events and Leases
    #[arg(long, env = "POD_NAME", default_value = "ensemble")]
    instance: String,

    #[command(flatten)]
    election: ElectionFlags,

    #[command(flatten)]
    certificates: CertificateFlags,
}

/// An address to listen on, or none.
#[derive(Clone, Copy)]
struct Address(Option<SocketAddr>);

fn address(text: &str) -> Result<Address, String> {
    if text == "0" {
        return Ok(Address(None));
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse()
        .map(|address| Address(Some(address)))
        .map_err(|_| "use an address and port such as 127.0.0.1:8081, or 0 for none".to_owned())
}

/// The command line, with the settings of all controllers.
pub fn command() -> Command {
    let command = Command::new("ensemble-manager")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs Kubernetes controllers, many in one process");
    Fixed::augment_args(command).args(settings().map(setting)).subcommand(task::release())
}

/// Reads the command line; ends the process with a message if it asks for help or makes no sense.
pub fn parse() -> Flags {
    parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// When it asks for help or makes no sense; the error says what to print.
pub fn parse_from(args: impl IntoIterator<Item = OsString>) -> Result<Flags, clap::Error> {
    read(command(), args)
}

fn read(line: Command, args: impl IntoIterator<Item = OsString>) -> Result<Flags, clap::Error> {
    let matches = line.try_get_matches_from(args)?;
    let fixed = Fixed::from_arg_matches(&matches)?;
    let controllers = select(CONTROLLERS, &fixed.controllers)
        .map_err(|message| command().error(ErrorKind::InvalidValue, format!("--controllers: {message}")))?;
    let scope = namespaces::scope(&fixed.watch_namespaces, &controllers).map_err(|message| {
        command().error(ErrorKind::InvalidValue, format!("--watch-namespaces: {message}"))
    })?;
    if let Some(address) = fixed.metrics_bind_address.0 {
        may_listen(address, fixed.metrics_secure)
            .map_err(|error| command().error(ErrorKind::ValueValidation, error))?;
    }
    let sharing = fixed.election.sharing(&fixed.namespace);
    let sharing = sharing.map_err(|message| command().error(ErrorKind::InvalidValue, message))?;
    let (certificates, webhook_hosts) =
        fixed.certificates.read().map_err(|message| command().error(ErrorKind::InvalidValue, message))?;
    Ok(Flags {
        task: Task::of(&matches),
        controllers,
        sharing,
        certificates,
        webhook_hosts,
        scope,
        settings: given(&matches),
        install_crds: fixed.install_crds,
        concurrency: usize::from(fixed.concurrency),
        reconcile_timeout: Duration::from_secs(fixed.reconcile_timeout),
        health_probe_bind_address: fixed.health_probe_bind_address.0,
        webhook_bind_address: fixed.webhook_bind_address.0,
        webhook_client_ca: fixed.webhook_client_ca_file.map(ClientCa::new),
        metrics_bind_address: fixed.metrics_bind_address.0,
        metrics_secure: fixed.metrics_secure,
        log_format: fixed.log_format,
        log_level: fixed.log_level,
        #[cfg(feature = "otlp")]
        otlp_endpoint: fixed.otlp_endpoint.filter(|endpoint| !endpoint.is_empty()),
        #[cfg(not(feature = "otlp"))]
        otlp_endpoint: None,
        namespace: fixed.namespace,
        instance: fixed.instance,
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
    if setting.values.is_empty() { arg } else { arg.value_parser(PossibleValuesParser::new(setting.values)) }
}

fn given(matches: &ArgMatches) -> Settings {
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
    fn bad_values_are_refused_with_what_is_allowed() {
        for (args, says) in [
            (["--controllers", "nothing"], "known are"),
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
            (["--watch-namespaces=shop", "--controllers=podset,tenant"], "write --controllers=podset"),
            (["--watch-namespaces", ""], "is no namespace's name"),
            (
                ["--metrics-bind-address=:8443", "--metrics-secure=false"],
                "to everybody who reaches 0.0.0.0:8443",
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
            let error = flags(&args).err().expect("it should be refused").to_string();
            assert!(error.contains(says), "{args:?}: {error}");
        }
    }

    #[test]
    fn namespaces_are_watched_by_controllers_that_need_no_more() {
        let flags = flags(&["--controllers=memcached,podset", "--watch-namespaces=shop,till"]).unwrap();
        assert_eq!(flags.scope, Scope::Namespaces(["shop".to_owned(), "till".to_owned()].into()));
    }

    #[test]
    fn an_exception_may_come_first() {
        let flags = flags(&["--controllers", "-tenant,*"]).unwrap();
        assert!(flags.controllers.iter().all(|controller| controller.name != "tenant"));
    }

    #[test]
    fn controllers_are_shared_unless_that_is_turned_off() {
        assert!(flags(&["--leader-elect=false"]).unwrap().sharing.is_none());
        assert!(flags(&["--leader-elect"]).unwrap().sharing.is_some());
        let sharing = flags(&["--namespace=here"]).unwrap().sharing.unwrap();
        assert_eq!((sharing.namespace.as_str(), sharing.timing), ("here", Timing::default()));
        let sharing = flags(&["--lease-namespace=there"]).unwrap().sharing.unwrap();
        assert_eq!(sharing.namespace, "there");
    }

    #[test]
    fn probes_can_be_left_out() {
        assert_eq!(flags(&["--health-probe-bind-address=0"]).unwrap().health_probe_bind_address, None);
        let address = flags(&["--health-probe-bind-address=:9"]).unwrap().health_probe_bind_address;
        assert_eq!(address, Some("0.0.0.0:9".parse().unwrap()));
    }
}

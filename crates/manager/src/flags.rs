//! The command line. Every flag has an environment variable.

use std::{ffi::OsString, net::SocketAddr, time::Duration};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use operator_core::{Registration, Setting, environment::Settings};
use operator_runtime::logs::Format;

use crate::{CONTROLLERS, select};

/// What the manager was asked to do.
pub struct Flags {
    /// The controllers to run.
    pub controllers: Vec<Registration>,
    /// What was set about them.
    pub settings: Settings,
    /// Whether to register the custom resource definitions first.
    pub install_crds: bool,
    /// How many objects of one controller are reconciled at once.
    pub concurrency: usize,
    /// How long one reconcile may take.
    pub reconcile_timeout: Duration,
    /// Where the probes are served; not at all if absent.
    pub health_probe_bind_address: Option<SocketAddr>,
    /// How log lines look.
    pub log_format: Format,
    /// Which log lines there are.
    pub log_level: String,
    /// The namespace that the manager itself runs in.
    pub namespace: String,
    /// Which of several replicas this is.
    pub instance: String,
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

    /// How log lines look
    #[arg(long, env = "ENSEMBLE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: Format,

    /// Which log lines there are: a level, or directives such as info,kube=debug
    #[arg(long, env = "ENSEMBLE_LOG_LEVEL", default_value = "info")]
    log_level: String,

    /// The namespace that the manager itself runs in; no controller touches it
    #[arg(long, env = "POD_NAMESPACE", default_value = "ensemble-system")]
    namespace: String,

    /// Which of several replicas this is; stands in Events
    #[arg(long, env = "POD_NAME", default_value = "ensemble")]
    instance: String,
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
    Fixed::augment_args(command).args(settings().map(setting))
}

/// Reads the command line; ends the process with a message if it asks for help or makes no sense.
pub fn parse() -> Flags {
    parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

fn parse_from(args: impl IntoIterator<Item = OsString>) -> Result<Flags, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    let fixed = Fixed::from_arg_matches(&matches)?;
    let controllers = select(CONTROLLERS, &fixed.controllers)
        .map_err(|message| command().error(ErrorKind::InvalidValue, format!("--controllers: {message}")))?;
    Ok(Flags {
        controllers,
        settings: given(&matches),
        install_crds: fixed.install_crds,
        concurrency: usize::from(fixed.concurrency),
        reconcile_timeout: Duration::from_secs(fixed.reconcile_timeout),
        health_probe_bind_address: fixed.health_probe_bind_address.0,
        log_format: fixed.log_format,
        log_level: fixed.log_level,
        namespace: fixed.namespace,
        instance: fixed.instance,
    })
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    CONTROLLERS.iter().flat_map(|controller| (controller.settings)())
}

fn setting(setting: &'static Setting) -> Arg {
    Arg::new(setting.flag)
        .long(setting.flag)
        .env(setting.env)
        .default_value(setting.default)
        .help(setting.help)
        .help_heading("Settings of controllers")
}

fn given(matches: &ArgMatches) -> Settings {
    settings()
        .filter_map(|setting| Some((setting.flag, matches.get_one::<String>(setting.flag)?.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
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
            (["--log-format", "xml"], "possible values: text, json"),
        ] {
            let error = flags(&args).err().expect("it should be refused").to_string();
            assert!(error.contains(says), "{args:?}: {error}");
        }
    }

    #[test]
    fn an_exception_may_come_first() {
        let flags = flags(&["--controllers", "-tenant,*"]).unwrap();
        assert!(flags.controllers.iter().all(|controller| controller.name != "tenant"));
    }

    #[test]
    fn probes_can_be_left_out() {
        assert_eq!(flags(&["--health-probe-bind-address=0"]).unwrap().health_probe_bind_address, None);
        let address = flags(&["--health-probe-bind-address=:9"]).unwrap().health_probe_bind_address;
        assert_eq!(address, Some("0.0.0.0:9".parse().unwrap()));
    }
}

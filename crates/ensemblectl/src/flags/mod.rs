//! Command line.

pub(crate) mod postgres;

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use self::postgres::PostgresCommand;
use crate::wait_target::WaitTarget;

/// Check an Ensemble installation, show why an object is not ready, and operate PostgresClusters.
#[derive(Parser)]
#[command(name = "ensemblectl", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that select the cluster and the namespaces.
#[derive(Args, Clone)]
pub(crate) struct ConfigFlags {
    /// Path to the kubeconfig file. Defaults to KUBECONFIG, ~/.kube/config, or the ServiceAccount of the Pod
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Defaults to the current context
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Namespace of the object. Defaults to the namespace of the context
    #[arg(long, short, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Namespace of the manager. Defaults to the namespace of its Deployment
    #[arg(long, global = true, env = "ENSEMBLE_NAMESPACE", value_name = "NAME")]
    pub(crate) manager_namespace: Option<String>,
}

/// Command of `ensemblectl`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check the installation. Exits with 1 if a check failed, and with 2 if a check could not run
    Check(Check),
    /// Show all objects, or one object with its conditions, children, and Events
    Status(Status),
    /// Show the objects that belong to an object, as a tree
    Tree(Tree),
    /// Wait until an object is Ready, has a condition, or is deleted. Exits with 1 on timeout
    ///
    /// In contrast to `kubectl wait`, it prints the cause of a timeout: the message of the condition,
    /// or the finalizers that delay a deletion.
    Wait(Wait),
    /// Write an archive for troubleshooting, without Secrets and credentials
    Report(Report),
    /// Show a PostgresCluster, and request changes of it: switchover, fence, backup, and others
    #[command(visible_alias = "pg")]
    Postgres {
        /// Command
        #[command(subcommand)]
        command: PostgresCommand,
    },
    /// Print the completion script of a shell
    Completion {
        /// Shell
        shell: Shell,
    },
}

#[derive(Args)]
pub(crate) struct Check {
    /// Check whether you can install Ensemble, instead of an existing installation
    #[arg(long)]
    pub(crate) pre: bool,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// Durations after which an object is reported.
#[derive(Args, Clone, Copy)]
pub(crate) struct Limits {
    /// Report objects that have been terminating for longer than this
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = duration)]
    pub(crate) stuck_after: Duration,

    /// Report objects that have not been Ready for longer than this
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    pub(crate) unready_after: Duration,
}

#[derive(Args)]
pub(crate) struct Status {
    /// Kind, as kubectl accepts it, or KIND/NAME. Defaults to all kinds
    pub(crate) kind: Option<String>,

    /// Name of the object
    pub(crate) name: Option<String>,

    /// List the objects of all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "name"])]
    pub(crate) all_namespaces: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Tree {
    #[command(flatten)]
    pub(crate) object: Object,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) object: Object,

    /// State to wait for: CONDITION, CONDITION=STATUS, or deleted
    #[arg(long = "for", default_value = "Ready", value_name = "STATE")]
    pub(crate) target: WaitTarget,

    /// Maximum time to wait
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Args)]
pub(crate) struct Report {
    /// Path of the archive. The file must not exist
    #[arg(long, default_value = "ensemble-report.tar.gz", value_name = "FILE.tar.gz")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// Arguments that select one object.
#[derive(Args)]
pub(crate) struct Object {
    /// Kind, as kubectl accepts it, or KIND/NAME
    pub(crate) kind: String,

    /// Name of the object
    pub(crate) name: Option<String>,
}

#[derive(Args, Clone, Copy)]
pub(crate) struct Output {
    /// Output format
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable text
    Text,
    /// JSON
    Json,
}

/// Parses the command line. Exits with a message for `--help` and for invalid arguments.
pub(crate) fn parse() -> Flags {
    let mut command = Flags::command();
    if is_plugin(std::env::args_os().next().as_deref()) {
        command = command.bin_name("kubectl ensemble");
    }
    let matches = command.get_matches();
    Flags::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Returns whether the program runs as a kubectl plugin.
fn is_plugin(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| std::path::Path::new(program).file_stem());
    name.is_some_and(|name| name == "kubectl-ensemble")
}

/// Parses a duration in the notation of Go.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed =
        text.parse::<kube::core::Duration>().ok().filter(|parsed| !text.is_empty() && !parsed.is_negative());
    parsed.map(Duration::from).ok_or_else(|| "use a duration such as 30s, 5m, or 1h30m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Flags::command().debug_assert();
    }

    #[test]
    fn detects_kubectl_plugin_by_program_name() {
        assert!(is_plugin(Some(OsStr::new("/usr/local/bin/kubectl-ensemble"))));
        assert!(!is_plugin(Some(OsStr::new("ensemblectl"))));
        assert!(!is_plugin(None));
    }

    #[test]
    fn parses_go_durations_and_rejects_negative_ones() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for bad in ["-1s", "soon", "5", ""] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rejects_conflicting_arguments() {
        let is_rejected = |args: &[&str]| Flags::try_parse_from([&["ensemblectl"], args].concat()).is_err();
        assert!(is_rejected(&["status", "-A", "-n", "shop"]));
        assert!(is_rejected(&["status", "podset", "web", "-A"]));
        assert!(is_rejected(&["wait"]));
        assert!(is_rejected(&["postgres", "promote", "db"]), "it can lose rows");
        assert!(is_rejected(&["postgres", "fence", "db"]));
        assert!(is_rejected(&["postgres", "fence", "db", "db-1", "--all"]));
        assert!(is_rejected(&[
            "postgres",
            "restore",
            "new",
            "--from=db",
            "--to-lsn=0/1",
            "--to-end-of-backup"
        ]));
        assert!(is_rejected(&["postgres", "backup", "db", "--no-wait", "--timeout=1m"]));
        assert!(!is_rejected(&["pg", "promote", "db", "--accept-data-loss"]));
        assert!(!is_rejected(&["status", "-n", "shop"]));
        assert!(!is_rejected(&["wait", "podset/web", "--for=deleted", "--timeout=5m"]));
    }
}

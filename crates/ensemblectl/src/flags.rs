//! The command line.

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Sees that Ensemble is fine in a cluster, and finds out why it is not. Changes nothing.
#[derive(Parser)]
#[command(name = "ensemblectl", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Which cluster, and where in it.
#[derive(Args, Clone)]
pub(crate) struct Place {
    /// The kubeconfig file; without it KUBECONFIG, ~/.kube/config, or the ServiceAccount of the pod
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; the current one unless given
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// The namespace of the object; that of the context unless given
    #[arg(long, short, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// The namespace that the manager runs in; where its Deployment is unless given
    #[arg(long, global = true, env = "ENSEMBLE_NAMESPACE", value_name = "NAME")]
    pub(crate) manager_namespace: Option<String>,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Look at every part of the installation. Ends with 0 if all is fine, 1 if something is wrong, 2 if something
    /// could not be found out
    Check(Check),
    /// Show all objects, or one with its conditions, children and Events
    Status(Status),
    /// Show what belongs to an object, and what belongs to that
    Tree(Tree),
    /// Wait until an object is as asked; ends with 1 if it is not in time
    Wait(Wait),
    /// Gather what somebody needs who is to help, without Secrets and credentials
    Report(Report),
    /// Print the completion script of a shell
    Completion {
        /// The shell
        shell: Shell,
    },
}

#[derive(Args)]
pub(crate) struct Check {
    /// Look before an installation whether it can work, instead of at one that is there
    #[arg(long)]
    pub(crate) pre: bool,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// From when on something takes too long.
#[derive(Args, Clone, Copy)]
pub(crate) struct Limits {
    /// How long an object may take to be deleted before that is said
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = duration)]
    pub(crate) stuck_after: Duration,

    /// How long an object may be not Ready before that is said
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    pub(crate) unready_after: Duration,
}

#[derive(Args)]
pub(crate) struct Status {
    /// A kind: singular, plural, short or as in manifests; all kinds unless given. Also KIND/NAME
    pub(crate) kind: Option<String>,

    /// The name of an object
    pub(crate) name: Option<String>,

    /// Look into all namespaces
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

    /// What to wait for: a condition that is to be True, CONDITION=STATUS, or deleted
    #[arg(long = "for", default_value = "Ready", value_name = "WHAT")]
    pub(crate) what: crate::wait::Goal,

    /// How long to wait
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Args)]
pub(crate) struct Report {
    /// The archive to write; must not exist
    #[arg(long, default_value = "ensemble-report.tar.gz", value_name = "FILE.tar.gz")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// One object.
#[derive(Args)]
pub(crate) struct Object {
    /// Its kind: singular, plural, short or as in manifests. Also KIND/NAME
    pub(crate) kind: String,

    /// Its name
    pub(crate) name: Option<String>,
}

#[derive(Args, Clone, Copy)]
pub(crate) struct Output {
    /// How to print it
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Reads the command line; ends the process with a message if it asks for help or makes no sense.
pub(crate) fn parse() -> Flags {
    let mut command = Flags::command();
    if is_plugin(std::env::args_os().next().as_deref()) {
        command = command.bin_name("kubectl ensemble");
    }
    let matches = command.get_matches();
    Flags::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Whether kubectl has found us as one of its plugins.
fn is_plugin(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| std::path::Path::new(program).file_stem());
    name.is_some_and(|name| name == "kubectl-ensemble")
}

/// A duration as Go writes it.
fn duration(text: &str) -> Result<Duration, String> {
    let read =
        text.parse::<kube::core::Duration>().ok().filter(|read| !text.is_empty() && !read.is_negative());
    read.map(Duration::from).ok_or_else(|| "use a duration such as 30s, 5m or 1h30m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Flags::command().debug_assert();
    }

    #[test]
    fn kubectl_finds_us_by_name() {
        assert!(is_plugin(Some(OsStr::new("/usr/local/bin/kubectl-ensemble"))));
        assert!(!is_plugin(Some(OsStr::new("ensemblectl"))));
        assert!(!is_plugin(None));
    }

    #[test]
    fn durations_are_those_of_go_and_none_is_negative() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for bad in ["-1s", "soon", "5", ""] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |args: &[&str]| Flags::try_parse_from([&["ensemblectl"], args].concat()).is_err();
        assert!(refused(&["status", "-A", "-n", "shop"]));
        assert!(refused(&["status", "podset", "web", "-A"]));
        assert!(refused(&["wait"]));
        assert!(!refused(&["status", "-n", "shop"]));
        assert!(!refused(&["wait", "podset/web", "--for=deleted", "--timeout=5m"]));
    }
}

//! Command of the manager's command line.

use std::time::Duration;

use clap::{Arg, ArgMatches, Command};

use operator_runtime::flags::duration;

/// Subcommand of [`Task::Check`].
const CHECK: &str = "check";
/// Subcommand of [`Task::Cleanup`].
const CLEANUP: &str = "cleanup";
/// Flag of both subcommands.
const WAIT: &str = "wait";

/// Command of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Run the controllers until the process is stopped.
    Run,
    /// Check that the managers of the namespace work.
    Check {
        /// Maximum time to wait until they work.
        wait: Duration,
    },
    /// Remove webhooks, finalizers, and permissions of a manager that no longer runs.
    Cleanup {
        /// Maximum time to wait until no manager runs. Zero skips the check.
        wait: Duration,
    },
}

impl Task {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let wait = |matches: &ArgMatches| matches.get_one(WAIT).copied().unwrap_or_default();
        match matches.subcommand() {
            Some((CHECK, check)) => Self::Check { wait: wait(check) },
            Some((CLEANUP, cleanup)) => Self::Cleanup { wait: wait(cleanup) },
            _ => Self::Run,
        }
    }
}

/// Returns the subcommands. The flags before them are those of the manager.
pub(super) fn subcommands() -> [Command; 2] {
    [check(), cleanup()]
}

fn check() -> Command {
    Command::new(CHECK)
        .about("Check that the managers in --namespace work")
        .long_about(
            "Check that the managers in --namespace work.\n\nSucceeds if a manager is ready, each controller has a \
             leader among the ready managers, and the API server can call the webhooks. The command changes \
             nothing: it calls the webhooks with a dry run. It repeats failed checks until --wait has passed. Set \
             the flags of the managers before the command or in the environment.\n\n`helm test` runs this command. \
             Administrators can run `ensemblectl check` instead, which checks more.",
        )
        .arg(
            wait("ENSEMBLE_CHECK_WAIT")
                .help("Maximum time to wait until the checks succeed; 0s runs them once"),
        )
}

fn cleanup() -> Command {
    Command::new(CLEANUP)
        .about("Remove webhooks, finalizers, and permissions of a manager that no longer runs")
        .long_about(
            "Remove webhooks, finalizers, and permissions of a manager that no longer runs.\n\nDeletes the webhook \
             configurations, admission policies, and cluster roles of Tenant owners. Removes the finalizers of the \
             manager, and no others, from all objects of its kinds, so that deleting these objects does not wait \
             for a controller. Custom resources and the objects created for them stay. Objects that do not exist \
             are skipped.\n\nStop the manager first, because it adds finalizers again. The command waits until \
             no Pod of a manager runs in --namespace. To limit the cleanup, set --controllers and \
             --watch-namespaces before the command or in the environment.",
        )
        .arg(
            wait("ENSEMBLE_CLEANUP_WAIT")
                .help("Maximum time to wait for the Pods of managers to terminate; 0s skips the check"),
        )
}

fn wait(env: &'static str) -> Arg {
    Arg::new(WAIT).long(WAIT).env(env).value_name("DURATION").default_value("1m").value_parser(duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_from;

    #[test]
    fn subcommands_use_flags_before_them() {
        let parse = |args: &[&str]| parse_from(["ensemble-manager"].iter().chain(args).map(Into::into));
        assert_eq!(parse(&[]).unwrap().task, Task::Run);
        let flags = parse(&["--controllers=podset", "cleanup"]).unwrap();
        let wait = Duration::from_mins(1);
        assert_eq!((flags.task, flags.controllers.len()), (Task::Cleanup { wait }, 1));
        let flags = parse(&["cleanup", "--wait=0s"]).unwrap();
        assert_eq!(flags.task, Task::Cleanup { wait: Duration::ZERO });
        let flags = parse(&["--controllers=podset", "check", "--wait=5s"]).unwrap();
        let wait = Duration::from_secs(5);
        assert_eq!((flags.task, flags.controllers.len()), (Task::Check { wait }, 1));
        assert!(parse(&["cleanup", "--wait=soon"]).is_err());
        assert!(parse(&["clean"]).is_err());
    }
}

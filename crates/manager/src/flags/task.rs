//! What the manager is to do with its flags.

use std::time::Duration;

use clap::{Arg, ArgMatches, Command};

use super::duration::duration;

/// The word that asks for [`Task::Release`].
const RELEASE: &str = "release";
/// Its flag.
const WAIT: &str = "wait";

/// What the manager is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// To run the controllers until it is asked to stop.
    Run,
    /// To let go of the cluster, and end.
    Release {
        /// How long to wait for managers to end. Zero: they are not looked for.
        patience: Duration,
    },
}

impl Task {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let Some((RELEASE, release)) = matches.subcommand() else { return Self::Run };
        Self::Release { patience: release.get_one(WAIT).copied().unwrap_or_default() }
    }
}

/// The subcommand. It goes by the flags that stand before it: those of the manager that is removed.
pub(super) fn release() -> Command {
    Command::new(RELEASE).about("Lets go of the cluster and ends, for a manager that is removed or does not run").long_about(
        "Lets go of the cluster and ends, for a manager that is removed or does not run.\n\nDeletes the webhook \
         configurations, admission policies and cluster roles of Tenant owners, and takes the manager's finalizers \
         (no others) off all objects of its kinds, so that whatever is deleted then goes at once. Objects and what was \
         made for them stay. What is not there is no error. Stop the manager first: one that runs puts finalizers \
         back, so this waits until the pods of managers in --namespace have ended. --controllers and \
         --watch-namespaces, before the word or in the environment, limit it.",
    ).arg(wait())
}

fn wait() -> Arg {
    Arg::new(WAIT)
        .long(WAIT)
        .env("ENSEMBLE_RELEASE_WAIT")
        .value_name("DURATION")
        .default_value("1m")
        .value_parser(duration)
        .help("How long to wait for the pods of managers to end; 0s to look for none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_from;

    #[test]
    fn release_goes_by_the_flags_before_it() {
        let line = |args: &[&str]| parse_from(["ensemble-manager"].iter().chain(args).map(Into::into));
        assert_eq!(line(&[]).unwrap().task, Task::Run);
        let flags = line(&["--controllers=podset", "release"]).unwrap();
        let patience = Duration::from_mins(1);
        assert_eq!((flags.task, flags.controllers.len()), (Task::Release { patience }, 1));
        let flags = line(&["release", "--wait=0s"]).unwrap();
        assert_eq!(flags.task, Task::Release { patience: Duration::ZERO });
        assert!(line(&["release", "--wait=soon"]).is_err());
        assert!(line(&["let-go"]).is_err());
    }
}

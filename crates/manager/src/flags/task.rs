//! What the manager is to do with its flags.

use clap::{ArgMatches, Command};

/// The word that asks for [`Task::Release`].
const RELEASE: &str = "release";

/// What the manager is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// To run the controllers until it is asked to stop.
    Run,
    /// To let go of the cluster, and end.
    Release,
}

impl Task {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        if matches.subcommand_name() == Some(RELEASE) { Self::Release } else { Self::Run }
    }
}

/// The subcommand. It goes by the flags that stand before it: those of the manager that is removed.
pub(super) fn release() -> Command {
    Command::new(RELEASE).about("Lets go of the cluster and ends, for a manager that is removed or does not run").long_about(
        "Lets go of the cluster and ends, for a manager that is removed or does not run.\n\nDeletes the webhook \
         configurations, admission policies and cluster roles of Tenant owners, and takes the manager's finalizers \
         (no others) off all objects of its kinds, so that whatever is deleted then goes at once. Objects and what was \
         made for them stay. What is not there is no error. Stop the manager first: one that runs puts finalizers \
         back. --controllers and --watch-namespaces, before the word or in the environment, limit it.",
    )
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
        assert_eq!((flags.task, flags.controllers.len()), (Task::Release, 1));
        assert!(line(&["let-go"]).is_err());
    }
}

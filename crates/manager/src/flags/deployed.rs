//! The flags of a manager that runs elsewhere, read from what it is started with there.

use std::{collections::BTreeMap, ffi::OsString};

use clap::Command;

use super::{Flags, command, read};

/// The flags of a manager that is started with these arguments (without the program's name) and these environment
/// variables. The environment of the present process does not count.
///
/// # Errors
/// When the manager would not start with them; the error says why.
pub fn parse_deployed(args: &[String], env: &BTreeMap<String, String>) -> Result<Flags, clap::Error> {
    let command = command();
    let from_env = from_env(&command, args, env);
    let line = ["ensemble-manager".to_owned()].into_iter().chain(args.iter().cloned()).chain(from_env);
    read(command.mut_args(|arg| arg.env(None::<&'static str>)), line.map(OsString::from))
}

/// The environment variables that mean a flag, as that flag; one that is given as an argument wins.
fn from_env(command: &Command, args: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let given = |flag: &str| {
        args.iter().any(|arg| arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
    };
    let meant = command.get_arguments().filter_map(|arg| {
        let value = env.get(arg.get_env()?.to_str()?)?;
        let flag = format!("--{}", arg.get_long()?);
        if given(&flag) {
            return None;
        }
        match (arg.get_action().takes_values(), value.as_str()) {
            (true, value) => Some(format!("{flag}={value}")),
            (false, "" | "0" | "f" | "false" | "n" | "no" | "off") => None,
            (false, _) => Some(flag),
        }
    });
    meant.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str], env: &[(&str, &str)]) -> Vec<&'static str> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let flags = parse_deployed(&args, &env).unwrap();
        flags.controllers.iter().map(|controller| controller.name).collect()
    }

    #[test]
    fn arguments_and_environment_count_and_an_argument_wins() {
        let env = [("ENSEMBLE_CONTROLLERS", "memcached"), ("UNRELATED", "x")];
        assert_eq!(names(&[], &env), ["memcached"]);
        assert_eq!(names(&["--controllers=podset"], &env), ["podset"]);
        assert_eq!(names(&["--controllers", "podset"], &env), ["podset"]);
        assert!(names(&[], &[]).len() > 3);
    }

    #[test]
    fn a_switch_counts_by_its_value() {
        let installs = |value: &str| {
            let env = [("ENSEMBLE_INSTALL_CRDS".to_owned(), value.to_owned())].into();
            parse_deployed(&[], &env).unwrap().install_crds
        };
        assert!(installs("true"));
        assert!(!installs("false"));
    }

    #[test]
    fn what_the_manager_would_refuse_is_an_error() {
        assert!(parse_deployed(&["--controllers=nothing".to_owned()], &BTreeMap::new()).is_err());
    }
}

//! Flags of a manager in another process, from the arguments and environment of its container.

use std::{collections::BTreeMap, ffi::OsString};

use clap::Command;

use super::{Flags, command, parse_with};

/// Parses arguments, without the name of the program, and environment variables.
///
/// Ignores the environment of the current process.
///
/// # Errors
/// Returns an error if the manager would not start with them.
pub fn parse_args_and_env(args: &[String], env: &BTreeMap<String, String>) -> Result<Flags, clap::Error> {
    let command = command();
    let from_env = from_env(&command, args, env);
    let line = ["ensemble-manager".to_owned()].into_iter().chain(args.iter().cloned()).chain(from_env);
    parse_with(command.mut_args(|arg| arg.env(None::<&'static str>)), line.map(OsString::from))
}

/// Converts environment variables to flags. Arguments take precedence.
fn from_env(command: &Command, args: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let is_argument = |flag: &str| {
        args.iter().any(|arg| arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
    };
    let flags = command.get_arguments().filter_map(|arg| {
        let value = env.get(arg.get_env()?.to_str()?)?;
        let flag = format!("--{}", arg.get_long()?);
        if is_argument(&flag) {
            return None;
        }
        match (arg.get_action().takes_values(), value.as_str()) {
            (true, value) => Some(format!("{flag}={value}")),
            (false, "" | "0" | "f" | "false" | "n" | "no" | "off") => None,
            (false, _) => Some(flag),
        }
    });
    flags.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str], env: &[(&str, &str)]) -> Vec<&'static str> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let flags = parse_args_and_env(&args, &env).unwrap();
        flags.controllers.iter().map(|controller| controller.name).collect()
    }

    #[test]
    fn arguments_take_precedence_over_the_environment() {
        let env = [("ENSEMBLE_CONTROLLERS", "memcached"), ("UNRELATED", "x")];
        assert_eq!(names(&[], &env), ["memcached"]);
        assert_eq!(names(&["--controllers=podset"], &env), ["podset"]);
        assert_eq!(names(&["--controllers", "podset"], &env), ["podset"]);
        assert!(names(&[], &[]).len() > 3);
    }

    #[test]
    fn parses_the_value_of_a_boolean_variable() {
        let installs = |value: &str| {
            let env = [("ENSEMBLE_INSTALL_CRDS".to_owned(), value.to_owned())].into();
            parse_args_and_env(&[], &env).unwrap().install_crds
        };
        assert!(installs("true"));
        assert!(!installs("false"));
    }

    #[test]
    fn rejects_invalid_flags() {
        assert!(parse_args_and_env(&["--controllers=nothing".to_owned()], &BTreeMap::new()).is_err());
    }
}

//! Redaction of command lines. Pure.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{REDACTED, allowlist, text};

/// Removes all arguments except the names of flags and the values on the allowlist.
pub(super) fn redact(arguments: &mut [Value]) {
    let mut is_value = false;
    for argument in arguments {
        let original = argument.as_str().unwrap_or_default();
        let is_flag = is_flag_name(original);
        let redacted = match original.split_once('=') {
            Some((flag, _)) if is_flag_name(flag) && allowlist::is_flag(flag) => text(original),
            Some((flag, _)) if is_flag_name(flag) => format!("{flag}={REDACTED}"),
            _ if is_flag || is_value || allowlist::is_argument(original) => text(original),
            _ => REDACTED.to_owned(),
        };
        is_value = is_flag && allowlist::takes_value(original);
        *argument = redacted.into();
    }
}

/// Returns whether an argument is only the name of a flag.
///
/// `-psecret` is not, because it is unknown where the name ends.
fn is_flag_name(argument: &str) -> bool {
    static NAME: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^(-[A-Za-z]|--[a-z][a-z.-]{0,40})$").ok());
    NAME.as_ref().is_some_and(|name| name.is_match(argument))
}

//! Command lines. Pure.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{REDACTED, harmless, text};

/// Takes out all arguments but the names of flags and what is known to be harmless.
pub(super) fn redact(arguments: &mut [Value]) {
    let mut is_value = false;
    for argument in arguments {
        let word = argument.as_str().unwrap_or_default();
        let is_flag = is_flag_name(word);
        let shown = match word.split_once('=') {
            Some((flag, _)) if is_flag_name(flag) && harmless::is_flag(flag) => text(word),
            Some((flag, _)) if is_flag_name(flag) => format!("{flag}={REDACTED}"),
            _ if is_flag || is_value || harmless::is_word(word) => text(word),
            _ => REDACTED.to_owned(),
        };
        is_value = is_flag && harmless::takes_value(word);
        *argument = shown.into();
    }
}

/// Whether a word is the name of a flag. Of `-psecret` nobody knows where the name ends.
fn is_flag_name(word: &str) -> bool {
    static NAME: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^(-[A-Za-z]|--[a-z][a-z.-]{0,40})$").ok());
    NAME.as_ref().is_some_and(|name| name.is_match(word))
}

//! Regular expressions in specs: RE2 syntax, unanchored, as in Capsule.

use regex::{Regex, RegexBuilder};

/// Limit of the compiled size of a pattern, in bytes. A Tenant's patterns stay compiled while it
/// exists.
const MAX_COMPILED_SIZE: usize = 1 << 20;

/// Compiles a pattern. Returns `None` for an empty pattern.
///
/// An empty pattern would match every name, but Helm charts write it for unset fields. It therefore
/// counts as absent.
///
/// # Errors
/// Returns the reason in one sentence.
pub fn compile(pattern: &str) -> Result<Option<Regex>, String> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_COMPILED_SIZE).build();
    compiled.map(Some).map_err(|error| summary(&error))
}

fn summary(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "it is too large; use fewer or smaller repetitions".to_owned();
    }
    // The parser prints the position on separate lines and the error on the last line.
    let text = error.to_string();
    let message = text.lines().last().unwrap_or_default().trim();
    message.strip_prefix("error: ").unwrap_or(message).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_pattern_is_absent() {
        assert!(compile("").unwrap().is_none());
        assert!(compile("^$").unwrap().unwrap().is_match(""));
        assert!(compile("(").is_err());
    }
}

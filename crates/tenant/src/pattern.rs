//! Regular expressions that people write. They are RE2, as the contract says, and matched anywhere in a text.

use regex::{Regex, RegexBuilder};

/// The largest program that a pattern may become, in bytes: it is kept for as long as the Tenant is there.
const LARGEST: usize = 1 << 20;

/// Compiles a pattern. Returns `None` for an empty one, which counts as absent in every field: it would match
/// every name, and charts write it where nothing is set.
///
/// # Errors
/// Why the pattern cannot be used, in one sentence.
pub fn compile(pattern: &str) -> Result<Option<Regex>, String> {
    if pattern.is_empty() {
        return Ok(None);
    }
    RegexBuilder::new(pattern).size_limit(LARGEST).build().map(Some).map_err(|error| why(&error))
}

fn why(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "it is too large; use fewer or smaller repetitions".to_owned();
    }
    // The parser draws the place on lines of its own; the last line has the words.
    let text = error.to_string();
    let words = text.lines().last().unwrap_or_default().trim();
    words.strip_prefix("error: ").unwrap_or(words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_pattern_is_absent() {
        assert!(compile("").unwrap().is_none());
        assert!(compile("^$").unwrap().unwrap().is_match(""));
        assert!(compile("(").is_err());
    }
}

//! Regular expressions that people write. They are RE2, as the contract says, and matched anywhere in a text.

use regex::{Regex, RegexBuilder};

/// The largest program that a pattern may become, in bytes: it is kept for as long as the Tenant is there.
const LARGEST: usize = 1 << 20;

/// Compiles a pattern, or says in one sentence why it cannot be used.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(LARGEST).build().map_err(|error| why(&error))
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

//! Tokens of runs. The name or namespace of each object starts with the token of its run, so that
//! concurrent runs can be distinguished.

use std::fmt;

/// Number of digits. It is fixed, so that no token is a prefix of another.
const DIGITS: usize = 6;
/// Replaces the token in names, to compare several runs.
pub const PLACEHOLDER: &str = "RUN";

/// Token of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u32);

impl Token {
    /// The n-th token.
    pub fn nth(number: u32) -> Self {
        Self(number)
    }

    /// Returns the run of an object with this namespace and name.
    pub fn of(namespace: &str, name: &str) -> Option<Self> {
        Self::beginning(namespace).or_else(|| Self::beginning(name))
    }

    fn beginning(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('r')?.get(..DIGITS)?;
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_whole.then(|| digits.parse().ok().map(Self)).flatten()
    }

    /// Replaces the token in a text.
    pub fn erase(self, text: &str) -> String {
        text.replace(&self.to_string(), PLACEHOLDER)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{:0DIGITS$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_found_in_namespace_or_name() {
        let run = Some(Token::nth(17));
        assert_eq!(Token::of("r000017-a", "capsule-x"), run);
        assert_eq!(Token::of("home", "r000017-pod-0"), run);
        assert_eq!(Token::of("", "r000017"), run);
        for foreign_pod in ["", "r", "r00001", "r00001x-pod", "rest-of-them", "x000017"] {
            assert_eq!(Token::of("home", foreign_pod), None, "{foreign_pod}");
        }
    }

    #[test]
    fn erased_texts_of_different_runs_are_equal() {
        let (one, other) = (Token::nth(1), Token::nth(2));
        assert_eq!(one.erase(&format!("{one}-a of {one}")), other.erase(&format!("{other}-a of {other}")));
    }
}

//! The names of runs. Whatever a run makes has a name or a namespace that begins with its token, so that what belongs
//! to several runs that go on at once can be told apart.

use std::fmt;

/// How many digits a token has: always as many, so that none is the beginning of another.
const DIGITS: usize = 6;
/// What stands for the token where names of several runs are compared.
pub const PLACEHOLDER: &str = "RUN";

/// The name of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u32);

impl Token {
    /// The n-th token.
    pub fn nth(number: u32) -> Self {
        Self(number)
    }

    /// The run that an object of this namespace and name belongs to.
    pub fn of(namespace: &str, name: &str) -> Option<Self> {
        Self::beginning(namespace).or_else(|| Self::beginning(name))
    }

    fn beginning(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('r')?.get(..DIGITS)?;
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_whole.then(|| digits.parse().ok().map(Self)).flatten()
    }

    /// The text without what is particular to this run.
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
    fn objects_belong_to_a_run_by_their_namespace_or_name() {
        let run = Some(Token::nth(17));
        assert_eq!(Token::of("r000017-a", "capsule-x"), run);
        assert_eq!(Token::of("home", "r000017-pod-0"), run);
        assert_eq!(Token::of("", "r000017"), run);
        for stranger in ["", "r", "r00001", "r00001x-pod", "rest-of-them", "x000017"] {
            assert_eq!(Token::of("home", stranger), None, "{stranger}");
        }
    }

    #[test]
    fn a_text_without_its_token_is_that_of_any_run() {
        let (one, other) = (Token::nth(1), Token::nth(2));
        assert_eq!(one.erase(&format!("{one}-a of {one}")), other.erase(&format!("{other}-a of {other}")));
    }
}

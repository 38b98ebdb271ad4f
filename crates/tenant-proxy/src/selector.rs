//! Label selectors, parsed exactly as the API server does (`k8s.io/apimachinery/pkg/labels`).
//!
//! The proxy puts requirements of its own before those of a user. So it must know where each of the
//! user's requirements ends, and writes them anew.

use std::{collections::BTreeSet, fmt};

use capsule::syntax::{is_label_key, is_label_value};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Most bytes of a selector. The API server accepts more, and nobody needs that.
const MAX_BYTES: usize = 16 << 10;

/// Requirements that all must be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// A requirement for one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(String),
    LessThan(String),
}

/// Why a selector cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It has too many bytes.
    #[error("the label selector has {0} bytes, and at most {MAX_BYTES} are read")]
    TooLong(usize),
    /// The API server would refuse it.
    #[error("the label selector is malformed: {0}")]
    Malformed(&'static str),
}

impl Requirement {
    /// Requires that a label has one of some values.
    ///
    /// Returns `None` if the key or a value is invalid, or if there is no value: such a requirement has no
    /// form in a query.
    pub fn is_in(key: &str, values: impl IntoIterator<Item = String>) -> Option<Self> {
        let values: BTreeSet<_> = values.into_iter().collect();
        let is_valid = is_label_key(key)
            && !values.is_empty()
            && values.iter().all(|value| !value.is_empty() && is_label_value(value));
        is_valid.then(|| Self { key: key.to_owned(), operator: Operator::In(values) })
    }

    /// Returns the requirements of a selector in an object. `None` if it is empty or invalid.
    pub fn of(selector: &LabelSelector) -> Option<Vec<Self>> {
        let new = |key: &str, operator: &str, values: BTreeSet<String>| {
            let operator = match (operator, values.is_empty()) {
                ("Exists", true) => Operator::Exists,
                ("DoesNotExist", true) => Operator::DoesNotExist,
                ("In", false) => Operator::In(values.clone()),
                ("NotIn", false) => Operator::NotIn(values.clone()),
                _ => return None,
            };
            let is_valid = is_label_key(key) && values.iter().all(|value| is_label_value(value));
            is_valid.then(|| Self { key: key.to_owned(), operator })
        };
        let labels = selector.match_labels.iter().flatten();
        let labels = labels.map(|(key, value)| new(key, "In", BTreeSet::from([value.clone()])));
        let expressions = selector.match_expressions.iter().flatten().map(|expression| {
            let values = expression.values.iter().flatten().cloned().collect();
            new(&expression.key, &expression.operator, values)
        });
        let all: Vec<_> = labels.chain(expressions).collect::<Option<_>>()?;
        (!all.is_empty()).then_some(all)
    }

    /// Returns two requirements for a label that no object meets.
    pub fn impossible(key: &str) -> [Self; 2] {
        [Operator::Exists, Operator::DoesNotExist].map(|operator| Self { key: key.to_owned(), operator })
    }
}

impl Selector {
    /// Parses the text of a query parameter.
    ///
    /// # Errors
    /// Returns an error if it is too long, or if the API server would refuse it.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > MAX_BYTES {
            return Err(SelectorError::TooLong(text.len()));
        }
        if text.contains('\0') {
            return Err(SelectorError::Malformed("it contains a zero byte"));
        }
        let tokens = tokens(text);
        Parser { tokens: tokens.into_iter() }.selector().map_err(SelectorError::Malformed)
    }

    /// Puts requirements before all others.
    #[must_use]
    pub fn with_first(self, requirements: impl IntoIterator<Item = Requirement>) -> Self {
        Self(requirements.into_iter().chain(self.0).collect())
    }

    /// Returns whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes the selector in a form that [`Selector::parse`] and the API server read.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        match &self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::GreaterThan(value) => write!(f, "{key}>{value}"),
            Operator::LessThan(value) => write!(f, "{key}<{value}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    /// A key or a value, which can also be `in` or `notin`.
    Word(&'t str),
    Not,
    NotEqual,
    /// `=` or `==`.
    Equal,
    Greater,
    Less,
    Open,
    Close,
    Comma,
}

/// Splits a text into tokens. All characters that are no symbol and no space belong to words.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut rest = text.trim_start_matches(is_space);
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let symbols = [
            ("==", Token::Equal),
            ("!=", Token::NotEqual),
            ("=", Token::Equal),
            ("!", Token::Not),
            (">", Token::Greater),
            ("<", Token::Less),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
        ];
        let symbol = symbols.into_iter().find(|(symbol, _)| is_symbol(first) && rest.starts_with(symbol));
        let (length, token) = symbol.map_or_else(
            || {
                let length = rest.find(|c| is_space(c) || is_symbol(c)).unwrap_or(rest.len());
                (length, Token::Word(rest.get(..length).unwrap_or_default()))
            },
            |(symbol, token)| (symbol.len(), token),
        );
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default().trim_start_matches(is_space);
    }
    tokens
}

struct Parser<'t> {
    tokens: std::vec::IntoIter<Token<'t>>,
}

type Parsed<T> = Result<T, &'static str>;

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.as_slice().first().copied()
    }

    fn selector(mut self) -> Parsed<Selector> {
        let mut requirements = Vec::new();
        if self.peek().is_none() {
            return Ok(Selector(requirements));
        }
        loop {
            requirements.push(self.requirement()?);
            match self.tokens.next() {
                None => return Ok(Selector(requirements)),
                Some(Token::Comma) => {}
                Some(_) => return Err("a comma or the end is expected after a requirement"),
            }
        }
    }

    fn requirement(&mut self) -> Parsed<Requirement> {
        let is_negated = self.peek() == Some(Token::Not);
        if is_negated {
            self.tokens.next();
        }
        let Some(Token::Word(key)) = self.tokens.next() else { return Err("a key is expected") };
        if !is_label_key(key) {
            return Err("a key is invalid");
        }
        let is_last = matches!(self.peek(), None | Some(Token::Comma));
        let operator = match (is_negated, is_last) {
            // What follows another token is refused as the end of the requirement.
            (true, _) => Operator::DoesNotExist,
            (false, true) => Operator::Exists,
            (false, false) => self.operator()?,
        };
        Ok(Requirement { key: key.to_owned(), operator })
    }

    fn operator(&mut self) -> Parsed<Operator> {
        let one = |value: String| BTreeSet::from([value]);
        match self.tokens.next() {
            Some(Token::Word("in")) => Ok(Operator::In(self.values()?)),
            Some(Token::Word("notin")) => Ok(Operator::NotIn(self.values()?)),
            Some(Token::Equal) => Ok(Operator::In(one(self.value()?))),
            Some(Token::NotEqual) => Ok(Operator::NotIn(one(self.value()?))),
            Some(Token::Greater) => Ok(Operator::GreaterThan(self.number()?)),
            Some(Token::Less) => Ok(Operator::LessThan(self.number()?)),
            _ => Err("an operator is expected after a key"),
        }
    }

    /// Reads one value, which can be missing.
    fn value(&mut self) -> Parsed<String> {
        if matches!(self.peek(), None | Some(Token::Comma)) {
            return Ok(String::new());
        }
        match self.tokens.next() {
            Some(Token::Word(value)) => checked(value),
            _ => Err("a value is expected after an operator"),
        }
    }

    fn number(&mut self) -> Parsed<String> {
        let value = self.value()?;
        if value.parse::<i64>().is_ok() { Ok(value) } else { Err("a number is expected after < or >") }
    }

    /// Reads values in parentheses. `(a,)` has the values `a` and empty.
    fn values(&mut self) -> Parsed<BTreeSet<String>> {
        if self.tokens.next() != Some(Token::Open) {
            return Err("an opening parenthesis is expected after in and notin");
        }
        let mut values = BTreeSet::new();
        if self.peek() == Some(Token::Close) {
            self.tokens.next();
            return Ok([String::new()].into());
        }
        loop {
            match self.tokens.next() {
                Some(Token::Word(value)) => {
                    values.insert(checked(value)?);
                    match self.peek() {
                        Some(Token::Comma) => continue,
                        Some(Token::Close) => {}
                        _ => return Err("a comma or a closing parenthesis is expected after a value"),
                    }
                    self.tokens.next();
                    return Ok(values);
                }
                Some(Token::Comma) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek() {
                        Some(Token::Close) => {
                            self.tokens.next();
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Some(Token::Comma) => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                _ => return Err("a value is expected between parentheses"),
            }
        }
    }
}

fn checked(value: &str) -> Parsed<String> {
    if is_label_value(value) { Ok(value.to_owned()) } else { Err("a value is invalid") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> Result<String, SelectorError> {
        Selector::parse(text).map(|selector| selector.to_string())
    }

    #[test]
    fn every_form_is_written_anew() {
        for (text, expected) in [
            ("", ""),
            (" \t\r\n", ""),
            ("a", "a"),
            ("!a", "!a"),
            ("! a", "!a"),
            ("a=b", "a in (b)"),
            ("a == b", "a in (b)"),
            ("a!=b", "a notin (b)"),
            ("a=", "a in ()"),
            ("a=,b", "a in (),b"),
            ("a in (c,b,c)", "a in (b,c)"),
            ("a notin(b)", "a notin (b)"),
            ("a in ()", "a in ()"),
            ("a in (,)", "a in ()"),
            ("a in (b,)", "a in (,b)"),
            ("a in (,b)", "a in (,b)"),
            ("a in (b,,c)", "a in (,b,c)"),
            ("a in (b,,)", "a in (,b)"),
            ("a>1,b<2", "a>1,b<2"),
            ("in in (in, notin)", "in in (in,notin)"),
            ("notin", "notin"),
            ("x.y/a=b,c", "x.y/a in (b),c"),
        ] {
            assert_eq!(written(text).as_deref(), Ok(expected), "{text}");
            assert_eq!(Selector::parse(expected), Selector::parse(text), "{text}");
        }
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for text in [
            ",",
            "a,",
            ",a",
            "a,,b",
            "!",
            "!!a",
            "!a=b",
            "a=b=c",
            "a b",
            "a in",
            "a in (",
            "a in (b",
            "a in (b c)",
            "a in b",
            "a in ((b))",
            "a in (!b)",
            "a>b",
            "a>",
            "a>1.5",
            "a===b",
            "=b",
            "(a)",
            "a)",
            "ä",
            "a=ä",
            "a/b/c",
            "/a",
            "A/b=c",
            "-a",
            "a=-b",
            "a;b",
            "a in (b),",
        ] {
            assert!(written(text).is_err(), "{text}: {:?}", written(text));
        }
        assert!(written(&"a".repeat(64)).is_err());
        assert!(written("a\0").is_err());
        assert_eq!(written(&"a,".repeat(MAX_BYTES)), Err(SelectorError::TooLong(2 * MAX_BYTES)));
    }

    #[test]
    fn requirement_of_the_proxy_comes_first() {
        let tenant = Requirement::is_in("capsule.clastix.io/tenant", ["oil".into(), "gas".into()]).unwrap();
        let selector = Selector::parse("env=dev").unwrap().with_first([tenant]);
        assert_eq!(selector.to_string(), "capsule.clastix.io/tenant in (gas,oil),env in (dev)");
        for values in [vec![], vec![""], vec!["a,b"], vec!["a)"], vec!["oil", "x y"]] {
            let values = values.into_iter().map(str::to_owned);
            assert_eq!(Requirement::is_in("capsule.clastix.io/tenant", values), None);
        }
        assert_eq!(Requirement::is_in("a b", ["c".to_owned()]), None);
    }

    proptest! {
        #[test]
        fn written_selector_is_the_same_and_no_input_panics(text in "[ab1=!(),<> intour/.\t-]{0,24}|.{0,24}") {
            if let Ok(selector) = Selector::parse(&text) {
                prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}

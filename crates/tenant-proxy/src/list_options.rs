//! The query of a list or a watch (`ListOptions` of the API server).

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::selector::{Requirement, Selector, SelectorError};

/// Most bytes of a query.
const MAX_BYTES: usize = 64 << 10;
/// Longest watch, in seconds.
const MAX_WATCH_SECONDS: u32 = 600;
/// What is written without an encoding.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Options of a list or a watch. Everything is what the user asked for, and has the right form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Selector of labels.
    pub label_selector: Selector,
    /// Whether changes follow.
    pub watch: bool,
    /// The other parameters, by name. Their values are valid.
    others: BTreeMap<&'static str, String>,
}

/// Why a query has no view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is too long.
    #[error("the query has {0} bytes, and at most {MAX_BYTES} are read")]
    TooLong(usize),
    /// The encoding is broken, or one that programs read in different ways.
    #[error("the query is not encoded as a form")]
    Encoding,
    /// The parameter is not one of a list.
    #[error("lists have no parameter {0:?}")]
    Unknown(String),
    /// The parameter is there twice.
    #[error("the parameter {0} is there twice")]
    Repeated(&'static str),
    /// The value has another form.
    #[error("the parameter {0} has an invalid value")]
    Value(&'static str),
    /// The label selector cannot be parsed.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

/// A view without pages was asked for a further one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this list has no pages; list again without continue")]
pub struct NoPages;

/// Returns whether a value has the form of its parameter.
type IsValid = fn(&str) -> bool;

/// The parameters of a list, in the order in which they are written, and the form of each.
const PARAMETERS: [(&str, IsValid); 12] = [
    ("labelSelector", |_| true),
    ("fieldSelector", is_text),
    ("limit", |value| !value.is_empty() && is_number(value)),
    ("continue", is_text),
    ("resourceVersion", is_number),
    ("resourceVersionMatch", |value| matches!(value, "Exact" | "NotOlderThan")),
    ("watch", is_flag),
    ("allowWatchBookmarks", is_flag),
    ("sendInitialEvents", is_flag),
    ("timeoutSeconds", |value| is_number(value) && value.parse::<u32>().is_ok()),
    ("includeObject", |value| matches!(value, "None" | "Metadata" | "Object")),
    // client-go sends it beside timeoutSeconds.
    ("timeout", is_duration),
];

impl ListOptions {
    /// Parses a query without the question mark.
    ///
    /// # Errors
    /// Returns an error for everything that the API server may read in another way: unknown and repeated
    /// parameters, broken encodings, and other values than the API defines.
    pub fn parse(query: &str) -> Result<Self, QueryError> {
        if query.len() > MAX_BYTES {
            return Err(QueryError::TooLong(query.len()));
        }
        let mut options = Self::default();
        let mut found = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            let known = PARAMETERS.iter().find(|(known, _)| *known == name);
            let (name, is_valid) =
                known.ok_or_else(|| QueryError::Unknown(name.chars().take(64).collect()))?;
            if !is_valid(&value) {
                return Err(QueryError::Value(name));
            }
            if found.insert(*name, value).is_some() {
                return Err(QueryError::Repeated(name));
            }
        }
        if let Some(selector) = found.remove("labelSelector") {
            options.label_selector = Selector::parse(&selector)?;
        }
        options.watch = found.remove("watch").is_some_and(|value| is_true(&value));
        options.others = found;
        Ok(options)
    }

    /// Returns the options of a list from which the proxy removes what is hidden: without pages, because a
    /// token of a page contains the name of the next object.
    ///
    /// # Errors
    /// Returns an error if the user asks for a further page.
    pub fn without_pages(mut self) -> Result<Self, NoPages> {
        self.others.remove("limit");
        // The rows of a Table have no name without it.
        self.others.remove("includeObject");
        match self.others.get("continue") {
            Some(token) if !token.is_empty() => Err(NoPages),
            _ => Ok(self),
        }
    }

    /// Returns the options of a list with the same selectors, as it was at a version.
    #[must_use]
    pub fn at_version(&self, version: u64) -> Self {
        let mut others = self.others.clone();
        others.retain(|name, _| *name == "fieldSelector");
        others.insert("resourceVersion", version.to_string());
        others.insert("resourceVersionMatch", "Exact".to_owned());
        Self { label_selector: self.label_selector.clone(), watch: false, others }
    }

    /// Returns the version from which a watch goes on. `None` if the request is no watch, or a watch that begins
    /// with all objects.
    pub fn resumed_from(&self) -> Option<u64> {
        let is = |name: &str, expected: fn(&str) -> bool| {
            self.others.get(name).is_some_and(|value| expected(value))
        };
        if !self.watch || is("sendInitialEvents", is_true) {
            return None;
        }
        let version = self.others.get("resourceVersion")?.parse().ok()?;
        (version != 0).then_some(version)
    }

    /// Returns the query of a view: only what meets the requirements, and what the user asked for. Watches
    /// end after ten minutes at the latest.
    pub fn query(&self, requirements: Vec<Requirement>) -> String {
        let mut values: BTreeMap<&str, Cow<'_, str>> =
            self.others.iter().map(|(name, value)| (*name, Cow::Borrowed(value.as_str()))).collect();
        let selector = self.label_selector.clone().with_first(requirements);
        if !selector.is_empty() {
            values.insert("labelSelector", selector.to_string().into());
        }
        if self.watch {
            let asked = self.others.get("timeoutSeconds").and_then(|value| value.parse().ok());
            let seconds = asked.unwrap_or(MAX_WATCH_SECONDS).min(MAX_WATCH_SECONDS);
            values.insert("watch", "true".into());
            values.insert("timeoutSeconds", seconds.to_string().into());
            // The API server reads it for lists only.
            values.remove("timeout");
        }
        let mut query = String::new();
        for (name, value) in PARAMETERS.iter().filter_map(|(name, _)| Some((name, values.get(name)?))) {
            let separator = if query.is_empty() { "" } else { "&" };
            // Writing to a string does not fail.
            let _ = write!(query, "{separator}{name}={}", utf8_percent_encode(value, ENCODED));
        }
        query
    }
}

/// Decodes a name or a value of a form.
fn decoded(text: &str) -> Result<String, QueryError> {
    // Some programs separate parameters by semicolons too.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b';' && byte != b'#';
    if !text.bytes().all(is_plain) {
        return Err(QueryError::Encoding);
    }
    let mut parts = text.split('%');
    parts.next();
    let is_hex = |part: &str| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !parts.all(is_hex) {
        return Err(QueryError::Encoding);
    }
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map_err(|_| QueryError::Encoding)?;
    Ok(decoded.into_owned())
}

fn is_text(value: &str) -> bool {
    !value.chars().any(char::is_control)
}

fn is_number(value: &str) -> bool {
    let is_short = (1..=19).contains(&value.len());
    value.is_empty() || (is_short && value.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a value is a duration as Go writes it, such as `7m12s`.
fn is_duration(value: &str) -> bool {
    const UNITS: [&str; 6] = ["ms", "us", "ns", "h", "m", "s"];
    let mut rest = value;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after_number =
            after.strip_prefix('.').map_or(after, |it| it.trim_start_matches(|c: char| c.is_ascii_digit()));
        let has_digits = rest.starts_with(|c: char| c.is_ascii_digit());
        let unit = UNITS.iter().find_map(|unit| after_number.strip_prefix(unit));
        let Some(next) = unit.filter(|_| has_digits) else { return false };
        rest = next;
    }
    (1..=32).contains(&value.len())
}

fn is_flag(value: &str) -> bool {
    matches!(value, "true" | "1" | "false" | "0")
}

fn is_true(value: &str) -> bool {
    matches!(value, "true" | "1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn oil() -> Requirement {
        Requirement::is_in("capsule.clastix.io/tenant", ["oil".to_owned()]).unwrap()
    }

    fn view(query: &str) -> Result<String, QueryError> {
        Ok(ListOptions::parse(query)?.query(vec![oil()]))
    }

    const OIL: &str = "labelSelector=capsule.clastix.io%2Ftenant%20in%20%28oil%29";

    #[test]
    fn query_of_a_view_has_what_was_asked_for_in_a_fixed_order() {
        for (query, rest) in [
            ("", ""),
            ("limit=500", "&limit=500"),
            ("&limit=500&", "&limit=500"),
            ("labelSelector=env%3Ddev", "%2Cenv%20in%20%28dev%29"),
            ("labelSelector=env+in+(a,b)", "%2Cenv%20in%20%28a%2Cb%29"),
            ("labelSelector=", ""),
            ("resourceVersion=0&limit=1", "&limit=1&resourceVersion=0"),
            ("fieldSelector=metadata.name!%3Dx", "&fieldSelector=metadata.name%21%3Dx"),
            ("watch=false", ""),
            ("watch=1", "&watch=true&timeoutSeconds=600"),
            ("watch=true&timeoutSeconds=30", "&watch=true&timeoutSeconds=30"),
            ("watch=true&timeoutSeconds=999999", "&watch=true&timeoutSeconds=600"),
            ("timeoutSeconds=999999", "&timeoutSeconds=999999"),
            ("timeout=1m30.5s", "&timeout=1m30.5s"),
            ("timeout=7m12s&timeoutSeconds=432&watch=true", "&watch=true&timeoutSeconds=432"),
            ("continue=a%2Bb%3D", "&continue=a%2Bb%3D"),
            ("l%69mit=1", "&limit=1"),
        ] {
            assert_eq!(view(query), Ok(format!("{OIL}{rest}")), "{query}");
        }
    }

    #[test]
    fn query_that_could_be_read_in_another_way_has_no_view() {
        for query in [
            "labelSelector=a&labelSelector=b",
            "LabelSelector=a",
            "labelselector=a",
            "labelSelector=a in (",
            "labelSelector=a%20in%20%28",
            "labelSelector=a,,b",
            "labelSelector=!",
            "labelSelector=%C3%A4",
            "labelSelector=%ff",
            "labelSelector=%",
            "labelSelector=%4",
            "labelSelector=%zz",
            "labelSelector=a;watch=true",
            "labelSelector=a%00",
            "watch=banana",
            "watch",
            "watch=",
            "watch=True",
            "watch=true&watch=false",
            "limit=-1",
            "limit=+1",
            "limit=",
            "limit",
            "timeoutSeconds=%2B5",
            "timeoutSeconds=",
            "limit=1e3",
            "limit=99999999999999999999",
            "timeoutSeconds=-1",
            "timeout=",
            "timeout=5",
            "timeout=s",
            "timeout=-5s",
            "timeout=5s,",
            "timeout=.5s",
            "timeout=1s&timeout=2s",
            "resourceVersion=latest",
            "resourceVersionMatch=exact",
            "dryRun=All",
            "pretty=true",
            "continue=%0d%0a",
            "a=b",
            "a",
            "=",
            "limit=1 ",
            "limit=1#",
        ] {
            assert!(view(query).is_err(), "{query}: {:?}", view(query));
        }
        assert_eq!(view(&"&".repeat(MAX_BYTES + 1)), Err(QueryError::TooLong(MAX_BYTES + 1)));
    }

    #[test]
    fn list_without_pages_has_no_selector_and_no_token() {
        let query = |query: &str| Ok(ListOptions::parse(query).unwrap().without_pages()?.query(Vec::new()));
        assert_eq!(query("limit=500&continue=&includeObject=None"), Ok("continue=".to_owned()));
        assert_eq!(query("limit=1&labelSelector=a"), Ok("labelSelector=a".to_owned()));
        assert_eq!(query("watch=1"), Ok("watch=true&timeoutSeconds=600".to_owned()));
        assert_eq!(query("limit=1&continue=abc"), Err(NoPages));
    }

    #[test]
    fn list_at_a_version_keeps_the_selectors_only() {
        let options =
            ListOptions::parse("watch=1&resourceVersion=7&labelSelector=a&fieldSelector=b%3Dc&limit=5");
        let expected =
            "labelSelector=a&fieldSelector=b%3Dc&resourceVersion=7&resourceVersionMatch=Exact".to_owned();
        assert_eq!(options.unwrap().at_version(7).query(Vec::new()), expected);
    }

    #[test]
    fn watch_goes_on_from_a_version_unless_it_begins_with_all_objects() {
        for (query, expected) in [
            ("watch=true&resourceVersion=7", Some(7)),
            ("watch=true&resourceVersion=7&sendInitialEvents=false", Some(7)),
            ("watch=true&resourceVersion=7&sendInitialEvents=true", None),
            ("watch=true&resourceVersion=0", None),
            ("watch=true&resourceVersion=", None),
            ("watch=true", None),
            ("resourceVersion=7", None),
        ] {
            assert_eq!(ListOptions::parse(query).unwrap().resumed_from(), expected, "{query}");
        }
    }

    proptest! {
        /// Whatever a user sends, the view begins with the requirement, and reads back as it was meant.
        #[test]
        fn view_begins_with_the_requirement(query in "(labelSelector|limit|watch|fieldSelector|continue)=[a-z0-9%=!(),+&;-]{0,20}|.{0,30}") {
            if let Ok(options) = ListOptions::parse(&query) {
                let view = options.query(vec![oil()]);
                prop_assert!(view.starts_with(OIL), "{}", view);
                prop_assert_eq!(view.matches("labelSelector").count(), 1);
                let read = ListOptions::parse(&view).unwrap();
                prop_assert_eq!(read.label_selector, options.label_selector.clone().with_first([oil()]));
                prop_assert_eq!(read.watch, options.watch);
            }
        }
    }
}

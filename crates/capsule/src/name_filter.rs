//! Lists of names and patterns: what a Tenant allows or forbids. Pure.

use std::{collections::HashSet, fmt};

use regex::Regex;

use crate::{
    api::v1beta2::{AllowedList, ForbiddenList},
    pattern,
};

/// Compiled list of names with an unanchored pattern.
#[derive(Clone, Debug, Default)]
pub struct NameFilter {
    names: HashSet<String>,
    pattern: Option<Regex>,
    description: String,
}

impl NameFilter {
    /// Compiles names and a pattern. An empty or invalid pattern matches nothing. Admission rejects
    /// Tenants with invalid patterns.
    pub fn new(names: &[String], pattern: Option<&str>) -> Self {
        let pattern = pattern.filter(|pattern| !pattern.is_empty());
        let described = pattern.map(|pattern| format!("names that match {pattern:?}"));
        let all: Vec<_> = names.iter().cloned().chain(described).collect();
        Self {
            names: names.iter().cloned().collect(),
            pattern: pattern.and_then(|pattern| pattern::compile(pattern).ok().flatten()),
            description: if all.is_empty() { "none".to_owned() } else { all.join(", ") },
        }
    }

    /// Returns whether the list contains a name, or the pattern matches it.
    pub fn matches(&self, name: &str) -> bool {
        self.names.contains(name) || self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(name))
    }
}

impl From<&AllowedList> for NameFilter {
    fn from(list: &AllowedList) -> Self {
        Self::new(&list.allowed, list.allowed_regex.as_deref())
    }
}

impl From<&ForbiddenList> for NameFilter {
    fn from(list: &ForbiddenList) -> Self {
        Self::new(&list.denied, list.denied_regex.as_deref())
    }
}

/// Lists names and pattern, for messages.
impl fmt::Display for NameFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn matches_exact_names_and_unanchored_pattern() {
        let list: AllowedList =
            serde_json::from_value(json!({ "allowed": ["docker.io"], "allowedRegex": "^quay\\." })).unwrap();
        let filter = NameFilter::from(&list);
        for name in ["docker.io", "quay.io", "quay.example"] {
            assert!(filter.matches(name), "{name}");
        }
        for name in ["Docker.io", "docker.io:443", "my.quay.io", ""] {
            assert!(!filter.matches(name), "{name}");
        }
        assert_eq!(filter.to_string(), "docker.io, names that match \"^quay\\\\.\"");
    }

    #[test]
    fn empty_list_and_invalid_pattern_match_nothing() {
        for pattern in [None, Some(""), Some("(")] {
            let filter = NameFilter::new(&[], pattern);
            assert!(!filter.matches("") && !filter.matches("a") && !filter.matches("("), "{pattern:?}");
        }
        assert_eq!(NameFilter::new(&[], Some("")).to_string(), "none");
    }
}

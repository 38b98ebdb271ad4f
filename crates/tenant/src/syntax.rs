//! Syntax of names, labels and annotations, as the API server checks it when it stores an object. Pure.

use std::collections::BTreeMap;

/// Length limit of the name part of a key, and of the value of a label.
const MAX_NAME_LENGTH: usize = 63;
/// Length limit of a DNS subdomain.
const MAX_SUBDOMAIN_LENGTH: usize = 253;
/// Size limit of all annotations of one object together, in bytes.
pub(crate) const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// What a key of a label must be.
pub(crate) const LABEL_KEY: &str = "a key must be a name, or a DNS subdomain in lower case, a slash and a name; a name has \
     1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit";
/// What a key of an annotation must be.
pub(crate) const ANNOTATION_KEY: &str = "a key must be a name, or a DNS subdomain, a slash and a name; a name has \
     1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit";
/// What the value of a label must be.
pub(crate) const LABEL_VALUE: &str = "the value of a label must be empty, or have at most 63 letters, digits, '-', '_' and '.', \
     and begin and end with a letter or digit";
/// What the name of an RBAC object must be.
pub(crate) const RBAC_NAME: &str =
    "the name of a ClusterRole must not be empty, '.' or '..', and have no '/' and no '%'";
/// What the name of a ServiceAccount must be.
pub(crate) const SUBDOMAIN: &str = "the name of a ServiceAccount must be a DNS subdomain: at most 253 lower-case letters, digits, '-' and '.', \
     and each part between dots begins and ends with a letter or digit";

/// Returns whether a text can be the key of a label.
pub(crate) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Returns whether a text can be the key of an annotation.
pub(crate) fn is_annotation_key(key: &str) -> bool {
    is_label_key(&key.to_lowercase())
}

/// Returns whether a text can be the value of a label.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// Returns whether a text is a DNS subdomain of RFC 1123, such as the name of a ServiceAccount.
pub(crate) fn is_subdomain(name: &str) -> bool {
    let is_inner = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
    let is_part = |part: &str| {
        part.bytes().all(is_inner) && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= MAX_SUBDOMAIN_LENGTH && name.split('.').all(is_part)
}

/// Returns whether a text can be the name of an RBAC object, which becomes a segment of a path.
pub(crate) fn is_rbac_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// Returns the size of annotations, as the API server limits it.
pub(crate) fn annotations_size(annotations: &BTreeMap<String, String>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn is_name(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    let is_inner = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.');
    name.len() <= MAX_NAME_LENGTH
        && is_end(name.chars().next())
        && is_end(name.chars().next_back())
        && name.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges one text.
    type Judge = fn(&str) -> bool;

    /// The same cases are put to a real API server by the test `the_api_server_judges_copied_values_alike`.
    #[test]
    fn keys_and_values_are_judged_as_by_the_api_server() {
        let cases: serde_json::Value =
            serde_json::from_str(include_str!("../tests/fixtures/propagated-values.json")).unwrap();
        let judges: [(&str, Judge); 3] = [
            ("labelKeys", is_label_key),
            ("annotationKeys", is_annotation_key),
            ("labelValues", is_label_value),
        ];
        for (name, judge) in judges {
            for (list, expected) in [("valid", true), ("invalid", false)] {
                let texts = cases[name][list].as_array().unwrap();
                assert!(!texts.is_empty());
                for text in texts {
                    assert_eq!(judge(text.as_str().unwrap()), expected, "{name}: {text}");
                }
            }
        }
    }

    #[test]
    fn names_of_roles_and_accounts() {
        for (name, is_role, is_account) in [
            ("admin", true, true),
            ("system:node", true, false),
            ("Admin", true, false),
            ("...", true, false),
            ("", false, false),
            ("..", false, false),
            ("a/b", false, false),
            ("a%b", false, false),
            ("a.b-1", true, true),
        ] {
            assert_eq!((is_rbac_name(name), is_subdomain(name)), (is_role, is_account), "{name}");
        }
    }
}

//! Syntax of names, labels, and annotations, as validated by the API server. Pure.

use std::collections::BTreeMap;

/// Limit of the length of the name part of a key, and of a label value.
const MAX_NAME_LENGTH: usize = 63;
/// Limit of the length of a DNS subdomain.
const MAX_SUBDOMAIN_LENGTH: usize = 253;
/// Limit of the total size of the annotations of an object, in bytes.
pub const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Rule for label keys, for messages.
pub const LABEL_KEY: &str = "a key must be a name, or a DNS subdomain in lower case, a slash and a name; a name has \
     1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit";
/// Rule for annotation keys, for messages.
pub const ANNOTATION_KEY: &str = "a key must be a name, or a DNS subdomain, a slash and a name; a name has \
     1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit";
/// Rule for label values, for messages.
pub const LABEL_VALUE: &str = "the value of a label must be empty, or have at most 63 letters, digits, '-', '_' and '.', \
     and begin and end with a letter or digit";
/// Rule for names of ClusterRoles, for messages.
pub const RBAC_NAME: &str =
    "the name of a ClusterRole must not be empty, '.' or '..', and have no '/' and no '%'";
/// Rule for names of ServiceAccounts, for messages.
pub const SUBDOMAIN: &str = "the name of a ServiceAccount must be a DNS subdomain: at most 253 lower-case letters, digits, '-' and '.', \
     and each part between dots begins and ends with a letter or digit";

/// Returns whether a string is a valid label key.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Returns whether a string is a valid annotation key.
pub fn is_annotation_key(key: &str) -> bool {
    is_label_key(&key.to_lowercase())
}

/// Returns whether a string is a valid label value.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// Returns whether a string is a DNS subdomain (RFC 1123), such as the name of a ServiceAccount.
pub fn is_subdomain(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part = |part: &str| {
        part.bytes().all(is_inner) && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= MAX_SUBDOMAIN_LENGTH && name.split('.').all(is_part)
}

/// Returns whether a string is a valid name of an RBAC object, that is, a valid path segment.
pub fn is_rbac_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// Returns the size of annotations as the API server measures it.
pub fn annotations_size(annotations: &BTreeMap<String, String>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn is_name(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= MAX_NAME_LENGTH
        && is_end(name.chars().next())
        && is_end(name.chars().next_back())
        && name.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Validator = fn(&str) -> bool;

    /// The test `the_api_server_judges_copied_values_alike` sends the same cases to a real API
    /// server.
    #[test]
    fn keys_and_values_are_validated_like_the_api_server_does() {
        let cases: serde_json::Value =
            serde_json::from_str(include_str!("../tests/fixtures/propagated-values.json")).unwrap();
        let validators: [(&str, Validator); 3] = [
            ("labelKeys", is_label_key),
            ("annotationKeys", is_annotation_key),
            ("labelValues", is_label_value),
        ];
        for (name, is_valid) in validators {
            for (list, expected) in [("valid", true), ("invalid", false)] {
                let values = cases[name][list].as_array().unwrap();
                assert!(!values.is_empty());
                for value in values {
                    assert_eq!(is_valid(value.as_str().unwrap()), expected, "{name}: {value}");
                }
            }
        }
    }

    #[test]
    fn names_of_roles_and_service_accounts_are_validated() {
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

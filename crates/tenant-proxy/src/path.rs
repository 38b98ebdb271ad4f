//! The paths of the API server, read byte for byte.

use std::str::Split;

use capsule::syntax::is_subdomain;

/// Splits a path into the API group, which is empty for the core group, and the parts after it: the version, and what
/// follows. Returns `None` for paths that have no group, or an invalid one.
pub(crate) fn group_and_rest(path: &str) -> Option<(&str, Split<'_, char>)> {
    let mut parts = path.strip_prefix('/')?.split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next().filter(|group| is_subdomain(group))?,
        _ => return None,
    };
    Some((group, parts))
}

/// Returns whether a text is a part of a name, such as `v1` and `nodes`.
pub(crate) fn is_label(text: &str) -> bool {
    is_subdomain(text) && !text.contains('.')
}

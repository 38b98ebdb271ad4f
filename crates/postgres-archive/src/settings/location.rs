//! The URL of the archive, and the URL of its bucket.

use http::Uri;

use super::SettingsError;

/// Longest prefix. Keys have at most 1024 bytes, and those of the archive are shorter than 400.
const MAX_PREFIX: usize = 512;

/// Validated place of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) bucket: String,
    /// First part of all keys, without slashes at its ends. May be empty.
    pub(crate) prefix: String,
    /// URL to which a slash and a key are appended.
    pub(crate) bucket_url: String,
}

/// Splits the URL of an archive into bucket and prefix.
pub(super) fn split(url: &str) -> Result<(String, String), SettingsError> {
    let rest = url.strip_prefix("s3://").ok_or_else(|| SettingsError::Scheme(without_user(url)))?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if !is_bucket(bucket) {
        return Err(SettingsError::Bucket(without_user(url)));
    }
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if !is_prefix(prefix) {
        return Err(SettingsError::Prefix(without_user(url)));
    }
    Ok((bucket.to_owned(), prefix.to_owned()))
}

/// Returns a URL for an error message, without the user and the password that it may contain.
fn without_user(url: &str) -> String {
    url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, rest)| format!("...@{rest}"))
}

fn is_bucket(bucket: &str) -> bool {
    let is_letter = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let has_edges = is_edge(bucket.bytes().next()) && is_edge(bucket.bytes().last());
    (3..=63).contains(&bucket.len()) && bucket.bytes().all(is_letter) && has_edges && !bucket.contains("..")
}

fn is_prefix(prefix: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'=' | b'-');
    let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_letter);
    prefix.len() <= MAX_PREFIX && (prefix.is_empty() || prefix.split('/').all(is_part))
}

/// Returns an error unless the text can be a region.
pub(super) fn check_region(region: &str) -> Result<(), SettingsError> {
    let is_letter = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let is_region = (1..=64).contains(&region.len()) && region.bytes().all(is_letter);
    is_region.then_some(()).ok_or_else(|| SettingsError::Region(region.to_owned()))
}

/// Returns the URL of a bucket.
pub(super) fn bucket_url(
    endpoint: Option<&str>,
    region: &str,
    bucket: &str,
    path_style: bool,
) -> Result<String, SettingsError> {
    let (scheme, authority) = match endpoint {
        Some(endpoint) => server(endpoint).ok_or_else(|| SettingsError::Endpoint(without_user(endpoint)))?,
        None => ("https", format!("s3.{region}.amazonaws.com")),
    };
    Ok(if path_style {
        format!("{scheme}://{authority}/{bucket}")
    } else {
        format!("{scheme}://{bucket}.{authority}")
    })
}

/// Returns the scheme and the authority of an endpoint.
fn server(endpoint: &str) -> Option<(&'static str, String)> {
    let uri: Uri = endpoint.parse().ok()?;
    let scheme = ["http", "https"].into_iter().find(|scheme| uri.scheme_str() == Some(scheme))?;
    let authority = uri.authority()?.as_str();
    let is_server = uri.path() == "/" && uri.query().is_none() && !authority.contains('@');
    is_server.then(|| (scheme, authority.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn url_is_split_at_the_bucket() {
        for (url, bucket, prefix) in [
            ("s3://backups", "backups", ""),
            ("s3://backups/", "backups", ""),
            ("s3://my.backups-1/eu/db_1/", "my.backups-1", "eu/db_1"),
        ] {
            assert_eq!(split(url), Ok((bucket.to_owned(), prefix.to_owned())), "{url}");
        }
    }

    #[test]
    fn other_schemes_are_refused_with_the_supported_one() {
        for url in ["gs://backups", "azblob://backups", "file:///backups", "S3://backups", "backups", ""] {
            let error = split(url).unwrap_err();
            assert_eq!(error, SettingsError::Scheme(url.to_owned()));
            assert!(error.to_string().contains("the only supported scheme is s3://"));
        }
    }

    #[test]
    fn malformed_buckets_and_prefixes_are_refused() {
        for url in ["s3://", "s3://ab", "s3://Backups", "s3://-abc", "s3://abc.", "s3://a..b", "s3://a b/c"] {
            assert_eq!(split(url), Err(SettingsError::Bucket(url.to_owned())));
        }
        let long = format!("s3://backups/{}", "a".repeat(513));
        for url in [
            "s3://backups/a//",
            "s3://backups/a//b",
            "s3://backups/..",
            "s3://backups/a/./b",
            "s3://backups/é",
            "s3://backups/a?b",
            &long,
        ] {
            assert_eq!(split(url), Err(SettingsError::Prefix(url.to_owned())));
        }
    }

    #[test]
    fn endpoints_have_a_scheme_and_a_host_only() {
        for endpoint in ["", "s3.example.com", "ftp://a", "https://", "https://a/b", "https://a?b"] {
            let error = bucket_url(Some(endpoint), "r", "b", true).unwrap_err();
            assert_eq!(error, SettingsError::Endpoint(endpoint.to_owned()), "{endpoint}");
        }
    }

    #[test]
    fn passwords_in_urls_are_not_printed() {
        let endpoint = bucket_url(Some("https://user:secret@host"), "r", "b", true).unwrap_err();
        assert_eq!(endpoint, SettingsError::Endpoint("...@host".to_owned()));
        assert_eq!(split("s3://key:secret@bucket"), Err(SettingsError::Bucket("...@bucket".to_owned())));
    }

    proptest! {
        #[test]
        fn accepted_url_has_parts_of_a_path(url in "\\PC*|s3://[a-z.-]{1,8}(/[a-z./]{0,12})?") {
            if let Ok((bucket, prefix)) = split(&url) {
                prop_assert!(bucket.len() > 2 && !bucket.contains('/'));
                prop_assert!(prefix.is_empty() || prefix.split('/').all(|part| !part.is_empty() && part != ".."));
            }
        }
    }
}

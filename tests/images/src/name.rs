//! Names of images.

use std::{fmt, str::FromStr};

use anyhow::{Result, ensure};

const DEFAULT_HOST: &str = "docker.io";
const DEFAULT_TAG: &str = "latest";
/// Tag that stands for every tag without an image of its own.
pub(crate) const ANY_TAG: &str = "*";

/// Repository of a registry host, with the defaults of Docker Hub applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Repository {
    host: String,
    path: String,
}

impl Repository {
    /// Returns the repository at a path of a host. Official images of Docker Hub are in `library/`.
    ///
    /// # Errors
    /// Returns an error if a character or an empty element is not allowed in names.
    pub(crate) fn new(host: &str, path: &str) -> Result<Self> {
        let host =
            if matches!(host, "index.docker.io" | "registry-1.docker.io") { DEFAULT_HOST } else { host };
        let is_element = |element: &str| {
            element.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
                && element.chars().all(|character| {
                    character.is_ascii_lowercase()
                        || character.is_ascii_digit()
                        || matches!(character, '.' | '_' | '-')
                })
        };
        ensure!(path.split('/').all(is_element), "the repository {path:?} of an image is not valid");
        let official = host == DEFAULT_HOST && !path.contains('/');
        let path = if official { format!("library/{path}") } else { path.to_owned() };
        Ok(Self { host: host.to_owned(), path })
    }

    /// Returns the repository that a client asks for. Without a host it is one of Docker Hub.
    pub(crate) fn requested(host: Option<&str>, path: &str) -> Result<Self> {
        Self::new(host.unwrap_or(DEFAULT_HOST), path)
    }
}

/// Name of an image: registry host, repository, and tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageName {
    pub(crate) repository: Repository,
    pub(crate) tag: String,
}

impl FromStr for ImageName {
    type Err = anyhow::Error;

    /// Parses a name as container runtimes do: the first element is a host if it contains a dot or
    /// a colon, or is `localhost`.
    fn from_str(text: &str) -> Result<Self> {
        let (host, rest) = match text.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
            _ => (DEFAULT_HOST, text),
        };
        let (path, tag) = rest.rsplit_once(':').unwrap_or((rest, DEFAULT_TAG));
        ensure!(is_tag(tag) || tag == ANY_TAG, "the tag {tag:?} of the image {text:?} is not valid");
        Ok(Self { repository: Repository::new(host, path)?, tag: tag.to_owned() })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

/// Reports whether a text can be a tag.
pub(crate) fn is_tag(text: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    (1..=128).contains(&text.len())
        && text.starts_with(is_word)
        && text.chars().all(|character| is_word(character) || matches!(character, '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_defaults_to_names() {
        for (name, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("memcached:1.6-alpine", "docker.io/library/memcached:1.6-alpine"),
            ("prom/memcached-exporter:v0.17.0", "docker.io/prom/memcached-exporter:v0.17.0"),
            ("docker.io/busybox:1", "docker.io/library/busybox:1"),
            ("registry-1.docker.io/library/busybox:1", "docker.io/library/busybox:1"),
            ("quay.io/a/b", "quay.io/a/b:latest"),
            ("localhost/x:1", "localhost/x:1"),
            ("127.0.0.1:5000/x", "127.0.0.1:5000/x:latest"),
            ("nginx:*", "docker.io/library/nginx:*"),
        ] {
            assert_eq!(name.parse::<ImageName>().unwrap().to_string(), full);
        }
    }

    #[test]
    fn rejects_names_that_are_not_valid() {
        for name in
            ["", "..", "a/../b", "docker.io/", "a//b", "A", "/a", "a:", "a/a:b/c", "a:..", "a b", "a@b"]
        {
            assert!(name.parse::<ImageName>().is_err(), "{name}");
        }
    }
}

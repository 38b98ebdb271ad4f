//! The key with which requests are signed.

use std::fmt;

use super::SettingsError;

/// Key with which requests to the object store are signed. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Identifier of the key.
    pub access_key_id: String,
    /// Secret of the key.
    pub secret_access_key: String,
    /// Token of a temporary key.
    pub session_token: Option<String>,
}

impl Credentials {
    /// Returns the credentials of a permanent key.
    pub fn new(access_key_id: impl Into<String>, secret_access_key: impl Into<String>) -> Self {
        Self {
            access_key_id: access_key_id.into(),
            secret_access_key: secret_access_key.into(),
            session_token: None,
        }
    }

    /// Returns an error that names the part that cannot be sent in a header.
    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        let parts = [
            ("access key ID", Some(&self.access_key_id)),
            ("secret access key", Some(&self.secret_access_key)),
            ("session token", self.session_token.as_ref()),
        ];
        let mut invalid = parts.into_iter().filter(|(_, part)| part.is_some_and(|part| !is_token(part)));
        invalid.next().map_or(Ok(()), |(name, _)| Err(SettingsError::Credentials(name)))
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

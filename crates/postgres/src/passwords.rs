//! The password of the application, in a Secret with all that the application needs to connect.
//!
//! A password that a user has set stays. The Secret is checked again from time to time.

use std::collections::HashMap;

use operator_core::kind::uid;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use crate::{
    api::PostgresCluster,
    build::{
        application,
        secret::{self, Content, Purpose},
    },
    children::key,
    error::Error,
    live_owner::LiveOwner,
    secrets::{Secrets, recheck},
};

/// Characters of a new password, each with six bits of entropy.
const LENGTH: usize = 32;

/// Passwords of all clusters.
pub(crate) struct Passwords {
    secrets: Secrets,
    checked: Mutex<HashMap<String, Instant>>,
}

impl Passwords {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, checked: Mutex::default() }
    }

    /// Creates and completes the Secret of a cluster.
    ///
    /// # Errors
    /// Returns an error if the Secret cannot be written, belongs to somebody else, or holds a password
    /// that cannot be used.
    pub(crate) async fn ensure(&self, owner: &LiveOwner<'_>) -> Result<(), Error> {
        let cluster = owner.cluster;
        let uid = uid(cluster);
        if self.checked.lock().get(&uid).is_some_and(|checked| checked.elapsed() < recheck(cluster)) {
            return Ok(());
        }
        let next = |known: Option<&Content>| next(cluster, known);
        self.secrets.reconcile(owner, Purpose::Application, next).await?;
        self.checked.lock().insert(uid, Instant::now());
        Ok(())
    }

    /// Forgets a cluster that no longer exists.
    pub(crate) fn forget(&self, uid: &str) {
        self.checked.lock().remove(uid);
    }
}

/// Returns the Secret of the application if it has to change. A password that exists stays, as does
/// what others have added.
fn next(cluster: &PostgresCluster, known: Option<&Content>) -> Result<Option<Content>, Error> {
    let invalid = || Error::InvalidPassword(key(cluster, &Purpose::Application.name(cluster)).to_string());
    let password = match known.map_or(&[][..], |known| secret::value(known, secret::PASSWORD)) {
        [] => new_password()?,
        present => str::from_utf8(present).map_err(|_| invalid())?.to_owned(),
    };
    if !application::is_usable(&password) {
        return Err(invalid());
    }
    let mut content = known.cloned().unwrap_or_default();
    content.extend(application::connection(cluster, &password));
    Ok((known != Some(&content)).then_some(content))
}

fn new_password() -> Result<String, Error> {
    let mut random = [0; LENGTH];
    SystemRandom::new().fill(&mut random).map_err(|_| Error::Random)?;
    Ok(application::password(&random))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    #[test]
    fn password_stays_and_its_copies_follow() {
        let cluster = cluster(&json!({}));
        let mut content = next(&cluster, None).unwrap().unwrap();
        assert_eq!(secret::value(&content, secret::PASSWORD).len(), LENGTH);
        assert_eq!(next(&cluster, Some(&content)).unwrap(), None, "nothing has changed");
        let mut set = |key: &str, value: &[u8]| {
            content.insert(key.to_owned(), ByteString(value.to_vec()));
            next(&cluster, Some(&content))
        };
        let changed = set("password", b"new").unwrap().unwrap();
        assert!(secret::value(&changed, "uri").starts_with(b"postgresql://app:new@"));
        assert_eq!(secret::value(&set("note", b"mine").unwrap().unwrap(), "note"), b"mine");
        for invalid in [&b"\xff"[..], b"two\nlines"] {
            let error = set("password", invalid).unwrap_err().to_string();
            assert!(error.contains("the Secret shop/db-app must be text"), "{error}");
        }
        let replaced = set("password", b"").unwrap().unwrap();
        assert_eq!(secret::value(&replaced, "password").len(), LENGTH);
    }
}

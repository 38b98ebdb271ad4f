//! The passwords of the application and of the roles of the spec, each in a Secret with all that is needed
//! to connect.
//!
//! A password that a user has set stays. The Secrets are checked again from time to time.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::ByteString;
use operator_core::{ObjectKey, kind::uid};
use parking_lot::Mutex;
use postgres_model::databases::DeclaredRole;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use crate::{
    api::PostgresCluster,
    build::{
        application::{self, Login},
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
    checked: Mutex<HashMap<String, Checked>>,
}

/// When the Secrets of a cluster were checked, and for which generation of the spec.
#[derive(Clone, Copy)]
struct Checked {
    at: Instant,
    generation: Option<i64>,
}

impl Passwords {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, checked: Mutex::default() }
    }

    /// Creates and completes the Secrets of a cluster. A failure on one of them does not block the others.
    /// Returns all failures: a Secret cannot be read or written, belongs to somebody else, or holds no
    /// password that can be used.
    pub(crate) async fn ensure(&self, owner: &LiveOwner<'_>) -> Vec<Error> {
        let cluster = owner.cluster;
        let (uid, generation) = (uid(cluster), cluster.metadata.generation);
        let is_current =
            |checked: &Checked| checked.generation == generation && checked.at.elapsed() < recheck(cluster);
        if self.checked.lock().get(&uid).is_some_and(is_current) {
            return Vec::new();
        }
        let application = Login::of_application(cluster);
        let mut failures: Vec<_> =
            self.ensure_login(owner, Purpose::Application, application).await.err().into_iter().collect();
        failures.extend(self.ensure_roles(owner).await);
        if failures.is_empty() {
            self.checked.lock().insert(uid, Checked { at: Instant::now(), generation });
        }
        failures
    }

    /// Forgets a cluster that no longer exists.
    pub(crate) fn forget(&self, uid: &str) {
        self.checked.lock().remove(uid);
    }

    /// Creates the Secrets of the roles of the spec, and the one with all of their passwords, which the
    /// members mount. A password that cannot be had stays as it is there.
    async fn ensure_roles(&self, owner: &LiveOwner<'_>) -> Vec<Error> {
        let roles = &owner.cluster.spec.roles;
        if roles.is_empty() {
            return Vec::new();
        }
        let (mut failures, mut passwords) = (Vec::new(), BTreeMap::new());
        for role in roles.iter().filter(|role| role.has_password()) {
            match self.password(owner, role).await {
                Ok(password) => drop(passwords.insert(role.name.clone(), Some(password))),
                Err(error) => {
                    failures.push(error);
                    passwords.insert(role.name.clone(), None);
                }
            }
        }
        let next = |known: Option<&Content>| {
            let former = |role: &String| known.and_then(|known| known.get(role)).cloned();
            let next: Content = passwords
                .iter()
                .filter_map(|(role, password)| {
                    Some((role.clone(), password.clone().map(ByteString).or_else(|| former(role))?))
                })
                .collect();
            Ok((known != Some(&next)).then_some(next))
        };
        failures.extend(self.secrets.reconcile(owner, Purpose::Passwords, next).await.err());
        failures
    }

    /// Returns the password of a role: that of the user's Secret, or that of the one which is created.
    async fn password(&self, owner: &LiveOwner<'_>, role: &DeclaredRole) -> Result<Vec<u8>, Error> {
        let cluster = owner.cluster;
        let Some(name) = &role.password_secret_name else {
            let login = Login::of_role(cluster, &role.name);
            return self.ensure_login(owner, Purpose::Role(&role.name), login).await;
        };
        let key = key(cluster, name);
        let content = self.secrets.read(&key).await?;
        match secret::value(&content, secret::PASSWORD) {
            [] => Err(Error::MissingPassword { secret: key.to_string(), role: role.name.clone() }),
            password => usable(password, &key).map(|password| password.as_bytes().to_vec()),
        }
    }

    /// Creates and completes the Secret with which a role connects. Returns the password.
    async fn ensure_login(
        &self,
        owner: &LiveOwner<'_>,
        purpose: Purpose<'_>,
        login: Login<'_>,
    ) -> Result<Vec<u8>, Error> {
        let key = key(owner.cluster, &purpose.name(owner.cluster));
        let next = |known: Option<&Content>| next(owner.cluster, &key, login, known);
        let content = self.secrets.reconcile(owner, purpose, next).await?;
        Ok(secret::value(&content, secret::PASSWORD).to_vec())
    }
}

/// Returns the Secret of a role if it has to change. A password that exists stays, as does what others have
/// added.
fn next(
    cluster: &PostgresCluster,
    key: &ObjectKey,
    login: Login<'_>,
    known: Option<&Content>,
) -> Result<Option<Content>, Error> {
    let password = match known.map_or(&[][..], |known| secret::value(known, secret::PASSWORD)) {
        [] => new_password()?,
        present => usable(present, key)?.to_owned(),
    };
    let mut content = known.cloned().unwrap_or_default();
    content.extend(application::connection(cluster, login, &password));
    Ok((known != Some(&content)).then_some(content))
}

/// Returns a password as text.
fn usable<'p>(password: &'p [u8], secret: &ObjectKey) -> Result<&'p str, Error> {
    let text = str::from_utf8(password).ok().filter(|text| application::is_usable(text));
    text.ok_or_else(|| Error::InvalidPassword(secret.to_string()))
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
        let key = key(&cluster, "db-app");
        let next = |known: Option<&Content>| next(&cluster, &key, Login::of_application(&cluster), known);
        let mut content = next(None).unwrap().unwrap();
        assert_eq!(secret::value(&content, secret::PASSWORD).len(), LENGTH);
        assert_eq!(next(Some(&content)).unwrap(), None, "nothing has changed");
        let mut set = |key: &str, value: &[u8]| {
            content.insert(key.to_owned(), ByteString(value.to_vec()));
            next(Some(&content))
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

//! Certificates of a cluster: its authority, those of its members, and the one of the operator.
//!
//! The Secrets are checked again from time to time, and when the cluster needs other names.

use std::{collections::HashMap, sync::Arc, time::Duration};

use certificates::{
    Authority, Client as ClientCertificate, Lifetimes, Serving, SigningKey, bundle, issue_client,
    issue_serving, new_authority,
};
use jiff::Timestamp;
use operator_core::kind::uid;
use parking_lot::Mutex;
use postgres_model::status_api::{MEMBER, OPERATOR};
use rustls::pki_types::ServerName;
use tokio::time::Instant;

use crate::{
    build::secret::{self, Content, Purpose},
    error::Error,
    live_owner::LiveOwner,
    secrets::{Secrets, recheck},
    status_client::StatusClient,
};

/// Lifetime of the authority, which is not renewed.
const AUTHORITY: Duration = Duration::from_hours(10 * 365 * 24);
/// Lifetime of the certificates.
const CERTIFICATE: Duration = Duration::from_hours(90 * 24);

/// Certificates of all clusters.
pub(crate) struct Identities {
    secrets: Secrets,
    lifetimes: Lifetimes,
    known: Mutex<HashMap<String, Known>>,
}

/// What was found or issued last.
struct Known {
    checked: Instant,
    names: Vec<String>,
    client: OperatorClient,
}

/// The client for the members of a cluster. Another one breaks all connections to them, so it is kept
/// while it can be used.
#[derive(Clone)]
struct OperatorClient {
    issued: Instant,
    authorities: Vec<u8>,
    client: Arc<StatusClient>,
}

/// The authority of a cluster, which issues everything else.
struct Issuer {
    authority: Authority,
    key: SigningKey,
    now: Timestamp,
    lifetimes: Lifetimes,
}

impl Identities {
    pub(crate) fn new(secrets: Secrets) -> Self {
        let lifetimes = Lifetimes::new(AUTHORITY, CERTIFICATE).unwrap_or_default();
        Self { secrets, lifetimes, known: Mutex::default() }
    }

    /// Creates and renews the Secrets of a cluster, and returns the client for its members. `names`
    /// are those of the servers.
    ///
    /// # Errors
    /// Returns an error if a Secret cannot be written, belongs to somebody else, or holds an authority
    /// that cannot be used.
    pub(crate) async fn ensure(
        &self,
        owner: &LiveOwner<'_>,
        names: Vec<String>,
    ) -> Result<Arc<StatusClient>, Error> {
        let cluster = owner.cluster;
        if let Some(known) = self.known.lock().get(&uid(cluster))
            && known.checked.elapsed() < recheck(cluster)
            && known.names == names
        {
            return Ok(known.client.client.clone());
        }
        let issuer = self.issuer(owner).await?;
        let hosts: Vec<_> = names.iter().filter_map(|name| ServerName::try_from(name.clone()).ok()).collect();
        self.secrets.reconcile(owner, Purpose::Server, |known| issuer.serving(known, &hosts)).await?;
        self.secrets.reconcile(owner, Purpose::Replication, |known| issuer.member(known)).await?;
        let known = self.known.lock().get(&uid(cluster)).map(|known| known.client.clone());
        let is_usable = |client: &OperatorClient| {
            client.authorities == issuer.authorities() && client.issued.elapsed() < CERTIFICATE / 3
        };
        let client = known.filter(is_usable).map_or_else(|| issuer.operator(), Ok)?;
        let known = Known { checked: Instant::now(), names, client: client.clone() };
        self.known.lock().insert(uid(cluster), known);
        Ok(client.client)
    }

    /// Forgets a cluster that no longer exists.
    pub(crate) fn forget(&self, uid: &str) {
        self.known.lock().remove(uid);
    }

    async fn issuer(&self, owner: &LiveOwner<'_>) -> Result<Issuer, Error> {
        let (now, lifetimes) = (Timestamp::now(), self.lifetimes);
        // An authority that exists is never replaced.
        let new = |known: Option<&Content>| {
            if known.is_some() {
                return Ok(None);
            }
            let (authority, key) = new_authority(now, lifetimes)?;
            Ok(Some(secret::authority(&bundle(&[authority]), &key.pem())))
        };
        let content = self.secrets.reconcile(owner, Purpose::Authority, new).await?;
        let key = SigningKey::read(secret::value(&content, secret::AUTHORITY_KEY));
        let authorities = Authority::read_all(secret::value(&content, secret::AUTHORITY));
        let pair = key.and_then(|key| {
            let authority = authorities.into_iter().find(|authority| key.belongs_to(authority))?;
            Some((authority, key))
        });
        let (authority, key) =
            pair.ok_or_else(|| Error::InvalidAuthority(Purpose::Authority.name(owner.cluster)))?;
        Ok(Issuer { authority, key, now, lifetimes })
    }
}

impl Issuer {
    fn serving(
        &self,
        known: Option<&Content>,
        names: &[ServerName<'static>],
    ) -> Result<Option<Content>, Error> {
        let read = known.and_then(|known| {
            Serving::read(secret::value(known, secret::CHAIN), secret::value(known, secret::KEY)).ok()
        });
        let is_current = read.is_some_and(|serving| {
            self.is_current(serving.validity().renewal_time())
                && serving.is_trusted_by(&self.authority, self.now)
                && serving.is_valid_for(names)
        });
        if is_current && self.is_trusted(known) {
            return Ok(None);
        }
        let serving = issue_serving(self.now, self.lifetimes, names, &self.authority, &self.key)?;
        Ok(Some(secret::identity(&self.authorities(), serving.chain_pem(), serving.key_pem())))
    }

    fn member(&self, known: Option<&Content>) -> Result<Option<Content>, Error> {
        let read = known.and_then(|known| {
            let (chain, key) = (secret::value(known, secret::CHAIN), secret::value(known, secret::KEY));
            ClientCertificate::read(chain, key).ok()
        });
        let is_current = read.is_some_and(|client| {
            self.is_current(client.validity().renewal_time())
                && client.issuer(std::slice::from_ref(&self.authority), self.now).is_some()
                && client.common_name().as_deref() == Some(MEMBER)
        });
        if is_current && self.is_trusted(known) {
            return Ok(None);
        }
        let client = issue_client(self.now, self.lifetimes, MEMBER, &self.authority, &self.key)?;
        Ok(Some(secret::identity(&self.authorities(), client.chain_pem(), client.key_pem())))
    }

    /// Returns a client with a certificate that exists only in this process.
    fn operator(&self) -> Result<OperatorClient, Error> {
        let client = issue_client(self.now, self.lifetimes, OPERATOR, &self.authority, &self.key)?;
        let authorities = self.authorities();
        let client = Arc::new(StatusClient::new(&authorities, client.chain_pem(), client.key_pem())?);
        Ok(OperatorClient { issued: Instant::now(), authorities, client })
    }

    fn authorities(&self) -> Vec<u8> {
        bundle(std::slice::from_ref(&self.authority))
    }

    fn is_current(&self, renewal: Timestamp) -> bool {
        self.now < renewal
    }

    /// Returns whether a Secret has the present authority.
    fn is_trusted(&self, known: Option<&Content>) -> bool {
        known.is_some_and(|known| secret::value(known, secret::AUTHORITY) == self.authorities())
    }
}

//! Certificates of the members, and of the operator.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, Result};
use certificates::{Authority, Lifetimes, SigningKey, bundle, issue_client, issue_serving, new_authority};
use jiff::Timestamp;
use rustls::pki_types::ServerName;

/// The authority of one cluster.
pub(crate) struct Identities {
    authority: Authority,
    key: SigningKey,
    now: Timestamp,
}

impl Identities {
    pub(crate) fn new() -> Result<Self> {
        let now = Timestamp::now();
        let (authority, key) = new_authority(now, Lifetimes::default())?;
        Ok(Self { authority, key, now })
    }

    /// Writes the certificate of a server, for a name.
    pub(crate) fn write_serving(&self, folder: &Path, name: &str) -> Result<()> {
        let names = [ServerName::try_from(name.to_owned())?];
        let serving = issue_serving(self.now, Lifetimes::default(), &names, &self.authority, &self.key)?;
        self.write(folder, serving.chain_pem(), serving.key_pem())
    }

    /// Writes the certificate of a client.
    pub(crate) fn write_client(&self, folder: &Path, common_name: &str) -> Result<()> {
        let client = issue_client(self.now, Lifetimes::default(), common_name, &self.authority, &self.key)?;
        self.write(folder, client.chain_pem(), client.key_pem())
    }

    fn write(&self, folder: &Path, chain: &[u8], key: &[u8]) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let authorities = bundle(std::slice::from_ref(&self.authority));
        for (name, content) in [("ca.crt", authorities.as_slice()), ("tls.crt", chain), ("tls.key", key)] {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            // PostgreSQL refuses keys that others can read.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        }
        Ok(())
    }
}

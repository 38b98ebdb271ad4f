//! Users with tokens, as people have them who use a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::Cluster;
use crate::components::Layout;
use crate::kubeconfig::{self, Credential};
use crate::pki::{self, write_private};
use crate::private_dir::private_dir;

/// Names and groups of the users. They have no rights until a test or a controller gives them some.
const USERS: [(&str, &str); 4] = [
    ("alice", "projectcapsule.dev"),
    ("bob", "projectcapsule.dev"),
    ("carol", ""),
    ("dan", "projectcapsule.dev"),
];

/// Writes the file from which the API server reads tokens.
pub(crate) fn write(layout: &Layout) -> Result<()> {
    let lines = USERS.map(|(user, group)| format!("{:032x},{user},{user},\"{group}\"\n", fastrand::u128(..)));
    write_private(&layout.tokens(), &lines.concat())
}

impl Cluster {
    /// Writes a kubeconfig with the token of a user: `alice`, `bob`, and `dan` are in the group
    /// `projectcapsule.dev`, `carol` is in none. Its server is the API server.
    pub fn user_kubeconfig(&self, user: &str) -> Result<PathBuf> {
        let server = format!("https://127.0.0.1:{}", self.record().ports.api_server);
        self.write_user(user, &self.user_token(user)?, "direct", &server, &self.certificate_authority()?)
    }

    /// Writes a kubeconfig with a token for a server before the API server, whose certificate is signed
    /// by `authority` (PEM).
    pub fn kubeconfig_through(
        &self,
        user: &str,
        token: &str,
        server: &str,
        authority: &str,
    ) -> Result<PathBuf> {
        let port = server.rsplit(':').next().unwrap_or_default();
        self.write_user(user, token, port, server, authority)
    }

    /// Writes a kubeconfig with a client certificate of the cluster, for a server before the API server whose
    /// certificate is signed by `authority` (PEM).
    pub fn certificate_kubeconfig(
        &self,
        user: &str,
        groups: &[&str],
        server: &str,
        authority: &str,
    ) -> Result<PathBuf> {
        let issued = pki::issue_client(&self.record().dir.join("pki"), user, groups)?;
        let dir = self.record().dir.join("identities");
        private_dir(&dir)?;
        let path = dir.join(format!("certificate-{:08x}.kubeconfig", fastrand::u32(..)));
        kubeconfig::write(&path, user, server, authority, &Credential::Certificate(&issued))?;
        Ok(path)
    }

    fn write_user(
        &self,
        user: &str,
        token: &str,
        way: &str,
        server: &str,
        authority: &str,
    ) -> Result<PathBuf> {
        let dir = self.record().dir.join("identities");
        private_dir(&dir)?;
        let path = dir.join(format!("{user}.{way}.kubeconfig"));
        kubeconfig::write(&path, user, server, authority, &Credential::Token(token))?;
        Ok(path)
    }

    /// Returns the token of a user; see [`Cluster::user_kubeconfig`].
    pub fn user_token(&self, user: &str) -> Result<String> {
        token(&Layout::new(&self.record().dir).tokens(), user)
    }
}

fn token(file: &Path, user: &str) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let token = text.lines().find_map(|line| {
        let mut fields = line.split(',');
        let token = fields.next()?;
        (fields.next()? == user).then(|| token.to_owned())
    });
    token.with_context(|| format!("there is no user {user} in {}", file.display()))
}

//! Kubeconfig files with one user and one cluster. All data is inline, so a file can be moved.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::pki::{IssuedCertificate, write_private};

/// Credential of a user.
pub(crate) enum Credential<'a> {
    Certificate(&'a IssuedCertificate),
    Token(&'a str),
}

/// Writes a kubeconfig for `server`, whose certificate is signed by `authority` (PEM).
pub(crate) fn write(
    path: &Path,
    name: &str,
    server: &str,
    authority: &str,
    credential: &Credential<'_>,
) -> Result<()> {
    let user = match credential {
        Credential::Certificate(IssuedCertificate { certificate, key }) => json!({
            "client-certificate-data": base64(certificate),
            "client-key-data": base64(key),
        }),
        Credential::Token(token) => json!({ "token": token }),
    };
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        "clusters": [{ "name": name, "cluster": { "server": server, "certificate-authority-data": base64(authority) } }],
        "users": [{ "name": name, "user": user }],
    });
    let text = serde_saphyr::to_string(&document).context("write a kubeconfig as YAML")?;
    write_private(path, &text)
}

/// Reads a kubeconfig into a client configuration.
///
/// The client's retries of overload responses stay enabled, as in production.
pub(crate) async fn load(path: &Path) -> Result<Config> {
    let file =
        Kubeconfig::read_from(path).with_context(|| format!("read the kubeconfig {}", path.display()))?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("use the kubeconfig {}", path.display()))
}

fn base64(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_written_kubeconfig() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let authority = crate::pki::Authority::new("test").unwrap();
        let credential = Credential::Token("secret");
        write(&path, "someone", "https://127.0.0.1:1234", &authority.certificate(), &credential).unwrap();
        let config = load(&path).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:1234/");
        assert!(config.auth_info.token.is_some());
        assert_eq!(config.root_cert.unwrap().len(), 1);
    }
}

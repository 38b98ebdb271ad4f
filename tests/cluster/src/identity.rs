//! Clients for ServiceAccounts and impersonated users.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::Cluster;
use crate::kubeconfig::{self, Credential};
use crate::private_dir::private_dir;

/// Longest token lifetime that the API server grants by default. No test takes longer.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

impl Cluster {
    /// Writes a kubeconfig with a token of an existing ServiceAccount and returns its path. RBAC
    /// and the audit log treat its user as the ServiceAccount. The file is removed with the
    /// cluster.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name).await?;
        let authority = self.certificate_authority()?;
        let dir = self.record().dir.join("identities");
        private_dir(&dir)?;
        let path = dir.join(format!("{namespace}.{name}.kubeconfig"));
        let server = format!("https://127.0.0.1:{}", self.record().ports.api_server);
        kubeconfig::write(&path, name, &server, &authority, &Credential::Token(&token))?;
        Ok(path)
    }

    /// Returns a client that authenticates as an existing ServiceAccount.
    pub async fn client_for_service_account(&self, namespace: &str, name: &str) -> Result<Client> {
        let path = self.service_account_kubeconfig(namespace, name).await?;
        Client::try_from(kubeconfig::load(&path).await?)
            .with_context(|| format!("create a client for the ServiceAccount {namespace}/{name}"))
    }

    /// Returns an administrator's client that impersonates a user. RBAC applies to the impersonated
    /// user. The audit log names both.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
        Client::try_from(config).with_context(|| format!("create a client that impersonates {user}"))
    }

    /// Returns a token of an existing ServiceAccount.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = Api::<ServiceAccount>::namespaced(self.client().await?, namespace)
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("request a token for the ServiceAccount {namespace}/{name}"))?;
        answer.status.and_then(|status| status.token).context("the response to a TokenRequest has no token")
    }

    /// Returns the certificate authority of the API server in PEM.
    pub fn certificate_authority(&self) -> Result<String> {
        let path = self.record().dir.join("pki/ca.crt");
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }
}

//! Kubeconfig for the ServiceAccount of `deploy/rbac`.
//!
//! With it, a manager on a workstation has the permissions of a deployed manager.

use std::io::Write;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api,
    api::PostParams,
    config::{Context as KubeContext, Kubeconfig, NamedAuthInfo, NamedContext},
};
use operator_runtime::connect::connect;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::rbac::{ACCOUNT, NAMESPACE};

/// Requested lifetime of the token. The API server can choose a shorter one.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Writes a kubeconfig for the ServiceAccount in the current cluster.
///
/// Only the owner can read the file. It is deleted when dropped.
///
/// # Errors
/// Returns an error if there is no kubeconfig, if the ServiceAccount does not exist, or if you lack
/// the permission to create its token.
pub(crate) async fn kubeconfig() -> Result<NamedTempFile> {
    let current = Kubeconfig::read().context("cannot read the kubeconfig")?;
    let kubeconfig = for_service_account(current, &token().await?)?;
    let text = serde_saphyr::to_string(&kubeconfig).context("cannot serialize a kubeconfig")?;
    let mut file =
        NamedTempFile::with_prefix("ensemble-kubeconfig-").context("cannot create a temporary file")?;
    file.write_all(text.as_bytes()).context("cannot write a kubeconfig")?;
    Ok(file)
}

/// Creates a token of the ServiceAccount.
async fn token() -> Result<String> {
    let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let response = Api::<ServiceAccount>::namespaced(connect().await?, NAMESPACE)
        .create_token_request(ACCOUNT, &PostParams::default(), &request)
        .await
        .with_context(|| {
            format!(
                "cannot create a token of the ServiceAccount {NAMESPACE}/{ACCOUNT}; run `kubectl apply --server-side -f deploy/rbac`"
            )
        })?;
    response.status.and_then(|status| status.token).context("the status of the TokenRequest has no token")
}

/// Returns a kubeconfig with the current cluster of another one, and only this token as
/// credentials.
fn for_service_account(kubeconfig: Kubeconfig, token: &str) -> Result<Kubeconfig> {
    let current = kubeconfig.current_context.context("the kubeconfig has no current context")?;
    let context = kubeconfig.contexts.into_iter().find(|context| context.name == current);
    let cluster = context
        .and_then(|named| named.context)
        .with_context(|| format!("the kubeconfig has no context {current}"))?
        .cluster;
    let user =
        serde_json::from_value(json!({ "token": token })).context("cannot add the token to a kubeconfig")?;
    let context =
        KubeContext { cluster: cluster.clone(), user: Some(ACCOUNT.to_owned()), ..KubeContext::default() };
    Ok(Kubeconfig {
        clusters: kubeconfig.clusters.into_iter().filter(|named| named.name == cluster).collect(),
        auth_infos: vec![NamedAuthInfo {
            name: ACCOUNT.to_owned(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: ACCOUNT.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(ACCOUNT.to_owned()),
        api_version: Some("v1".to_owned()),
        kind: Some("Config".to_owned()),
        ..Kubeconfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Kubeconfig {
        Kubeconfig::from_yaml(
            "current-context: here\n\
             clusters: [{name: a, cluster: {server: 'https://a'}}, {name: b, cluster: {server: 'https://b'}}]\n\
             users: [{name: admin, user: {token: admin-token}}]\n\
             contexts: [{name: here, context: {cluster: b, user: admin, namespace: shop}}]\n",
        )
        .unwrap()
    }

    #[test]
    fn keeps_current_cluster_and_drops_other_credentials() {
        let written = serde_saphyr::to_string(&for_service_account(example(), "new-token").unwrap()).unwrap();
        assert!(written.contains("https://b") && written.contains("new-token"), "{written}");
        assert!(!written.contains("https://a") && !written.contains("admin-token"), "{written}");
    }

    #[test]
    fn reports_missing_current_context() {
        let unset = Kubeconfig { current_context: None, ..example() };
        let error = for_service_account(unset, "new-token").unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no current context");
        let unknown = Kubeconfig { current_context: Some("there".to_owned()), ..example() };
        let error = for_service_account(unknown, "new-token").unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no context there");
    }
}

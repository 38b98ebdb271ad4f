//! The ServiceAccount of `deploy/rbac`, for a manager on a workstation: it may then do what it may where it is deployed,
//! and no more.

use std::io::Write;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api,
    api::PostParams,
    config::{Context as Choice, Kubeconfig, NamedAuthInfo, NamedContext},
};
use operator_runtime::connect::connect;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::rbac::{ACCOUNT, NAMESPACE};

/// For how long the token is good. The API server may give a shorter one.
const SECONDS: i64 = 24 * 60 * 60;

/// A kubeconfig of the cluster that the environment names, for the ServiceAccount. Only its owner may read the file,
/// which is removed when dropped.
///
/// # Errors
/// When there is no kubeconfig, when the ServiceAccount is not there, or when its token may not be asked for.
pub(crate) async fn kubeconfig() -> Result<NamedTempFile> {
    let present = Kubeconfig::read().context("no usable kubeconfig")?;
    let written = for_account(present, &token().await?)?;
    let text = serde_saphyr::to_string(&written).context("cannot write a kubeconfig as YAML")?;
    let mut file = NamedTempFile::with_prefix("ensemble-kubeconfig-").context("cannot make a file")?;
    file.write_all(text.as_bytes()).context("cannot write a kubeconfig")?;
    Ok(file)
}

async fn token() -> Result<String> {
    let spec = TokenRequestSpec { expiration_seconds: Some(SECONDS), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = Api::<ServiceAccount>::namespaced(connect().await?, NAMESPACE)
        .create_token_request(ACCOUNT, &PostParams::default(), &request)
        .await
        .with_context(|| {
            format!(
                "no token of the ServiceAccount {NAMESPACE}/{ACCOUNT}; it comes with `kubectl apply --server-side -f deploy/rbac`"
            )
        })?;
    answer.status.and_then(|status| status.token).context("the answer to a TokenRequest has no token")
}

/// The current cluster of a kubeconfig, with a token and nobody else's credentials.
fn for_account(present: Kubeconfig, token: &str) -> Result<Kubeconfig> {
    let current = present.current_context.context("the kubeconfig has no current context")?;
    let chosen = present.contexts.into_iter().find(|context| context.name == current);
    let cluster = chosen
        .and_then(|chosen| chosen.context)
        .with_context(|| format!("the kubeconfig has no context {current}"))?
        .cluster;
    let user = serde_json::from_value(json!({ "token": token }))
        .context("a token cannot be put into a kubeconfig")?;
    let choice = Choice { cluster: cluster.clone(), user: Some(ACCOUNT.to_owned()), ..Choice::default() };
    Ok(Kubeconfig {
        clusters: present.clusters.into_iter().filter(|named| named.name == cluster).collect(),
        auth_infos: vec![NamedAuthInfo {
            name: ACCOUNT.to_owned(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: ACCOUNT.to_owned(),
            context: Some(choice),
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

    fn present() -> Kubeconfig {
        Kubeconfig::from_yaml(
            "current-context: here\n\
             clusters: [{name: a, cluster: {server: 'https://a'}}, {name: b, cluster: {server: 'https://b'}}]\n\
             users: [{name: admin, user: {token: all-powerful}}]\n\
             contexts: [{name: here, context: {cluster: b, user: admin, namespace: shop}}]\n",
        )
        .unwrap()
    }

    #[test]
    fn the_present_cluster_is_kept_and_nobody_elses_credentials_are() {
        let written = serde_saphyr::to_string(&for_account(present(), "ours").unwrap()).unwrap();
        assert!(written.contains("https://b") && written.contains("ours"), "{written}");
        assert!(!written.contains("https://a") && !written.contains("all-powerful"), "{written}");
    }

    #[test]
    fn without_a_current_context_it_is_said_what_is_missing() {
        let told = for_account(Kubeconfig { current_context: None, ..present() }, "ours").unwrap_err();
        assert_eq!(told.to_string(), "the kubeconfig has no current context");
        let elsewhere = Kubeconfig { current_context: Some("there".to_owned()), ..present() };
        let told = for_account(elsewhere, "ours").unwrap_err();
        assert_eq!(told.to_string(), "the kubeconfig has no context there");
    }
}

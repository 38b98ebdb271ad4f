//! Error messages with their remedy. Pure.

use std::error::Error as StdError;

use anyhow::Error;
use kube::{
    config::{InferConfigError, KubeconfigError},
    core::Status,
};
use operator_core::error::{chain, is_unavailable, status};

use crate::output::{ERROR, paint};

/// The API server does not serve the kinds of Ensemble.
#[derive(Debug, thiserror::Error)]
#[error("Ensemble is not installed: the API server {url} does not serve {kinds}")]
pub(crate) struct NotInstalled {
    pub(crate) url: String,
    pub(crate) kinds: String,
}

/// The object does not exist.
#[derive(Debug, thiserror::Error)]
#[error("{what} not found")]
pub(crate) struct NoSuchObject {
    pub(crate) what: String,
    /// Command that lists the existing objects.
    pub(crate) list: String,
}

/// Formats an error with its causes and its remedy.
pub(crate) fn format(error: &Error) -> String {
    let message = format!("{} {}\n", paint(ERROR, "error:"), chain(error.as_ref()));
    match remedy(error) {
        Some(remedy) => format!("{message}  → {remedy}\n"),
        None => message,
    }
}

/// Returns the remedy for an error, if one is known.
pub(crate) fn remedy(error: &Error) -> Option<String> {
    if error.downcast_ref::<NotInstalled>().is_some() {
        return Some(
            "select another cluster with --context, or run `ensemblectl check --pre` to check whether you can \
             install Ensemble"
                .to_owned(),
        );
    }
    if let Some(missing) = error.downcast_ref::<NoSuchObject>() {
        return Some(format!("run `{}` to list the existing objects", missing.list));
    }
    let is_configuration =
        error.chain().any(|cause| cause.is::<KubeconfigError>() || cause.is::<InferConfigError>());
    if is_configuration {
        return Some(
            "set KUBECONFIG, --kubeconfig, or --context; run `kubectl config get-contexts` to list the contexts"
                .to_owned(),
        );
    }
    let mut requests = error.chain().filter_map(|cause| cause.downcast_ref::<kube::Error>());
    if let Some(remedy) = requests.find_map(request_remedy) {
        return Some(remedy);
    }
    let is_timeout = error.chain().any(<dyn StdError>::is::<tokio::time::error::Elapsed>);
    (is_timeout || is_unavailable(error.as_ref()))
        .then(|| "check the address and that the cluster is running with `kubectl cluster-info`".to_owned())
}

/// Returns the remedy for a failed request, if one is known.
fn request_remedy(error: &kube::Error) -> Option<String> {
    if let kube::Error::Auth(_) = error {
        return Some("log in again: the credentials of the kubeconfig cannot be loaded".to_owned());
    }
    let status = status(error)?;
    let remedy = match status.code {
        401 => {
            "log in again, or select another --context: the credentials have expired or belong to another cluster"
        }
        403 if is_rbac_denial(status) => {
            "ask an administrator for this permission or for the ClusterRole `view`; \
             run `kubectl auth can-i --list` to list your permissions"
        }
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// Returns whether a request was denied by authorization and not by admission.
pub(crate) fn is_rbac_denial(status: &Status) -> bool {
    status.is_forbidden()
        && !status.message.contains("admission")
        && !status.message.contains("ValidatingAdmissionPolicy")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::output::plain;

    fn api_error(code: u16, reason: &str, message: &str) -> Error {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        Error::new(kube::Error::Api(Box::new(status))).context("cannot list the PodSets")
    }

    #[test]
    fn errors_have_context_and_remedy() {
        let missing = kube::config::Kubeconfig::read_from("/nowhere")
            .map_err(Error::new)
            .context("cannot load a cluster configuration");
        let formatted = [
            api_error(401, "Unauthorized", "Unauthorized"),
            api_error(
                403,
                "Forbidden",
                "podsets.app.example.com is forbidden: User \"eve\" cannot list resource",
            ),
            api_error(404, "NotFound", "the server could not find the requested resource"),
            Error::new(NotInstalled { url: "https://127.0.0.1:6443/".into(), kinds: "PodSet".into() }),
            Error::new(NoSuchObject {
                what: "PodSet shop/web".into(),
                list: "ensemblectl status podset -n shop".into(),
            }),
            missing.unwrap_err(),
        ]
        .map(|error| plain(&format(&error)));
        insta::assert_snapshot!(formatted.concat());
    }
}

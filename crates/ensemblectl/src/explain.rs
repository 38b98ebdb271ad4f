//! What a person can do about an error. Pure.

use std::error::Error as StdError;

use anyhow::Error;
use kube::{
    config::{InferConfigError, KubeconfigError},
    core::Status,
};
use operator_core::error::{chain, is_unavailable, status};

use crate::output::{BAD, paint};

/// The cluster does not know our kinds.
#[derive(Debug, thiserror::Error)]
#[error("Ensemble is not installed: the API server {url} does not know {kinds}")]
pub(crate) struct NotInstalled {
    pub(crate) url: String,
    pub(crate) kinds: String,
}

/// There is no such object.
#[derive(Debug, thiserror::Error)]
#[error("there is no {what}")]
pub(crate) struct NoSuchObject {
    pub(crate) what: String,
    /// A command that lists those that are there.
    pub(crate) list: String,
}

/// An error as it is printed: what went wrong, and what to do.
pub(crate) fn text(error: &Error) -> String {
    let said = format!("{} {}\n", paint(BAD, "error:"), chain(error.as_ref()));
    advice(error).map_or_else(|| said.clone(), |advice| format!("{said}  → {advice}\n"))
}

/// What to do, if anything is known.
pub(crate) fn advice(error: &Error) -> Option<String> {
    if error.downcast_ref::<NotInstalled>().is_some() {
        return Some(
            "is this the right cluster? `--context` names another; `ensemblectl check --pre` says whether it could \
             be installed here"
                .to_owned(),
        );
    }
    if let Some(missing) = error.downcast_ref::<NoSuchObject>() {
        return Some(format!("`{}` lists those that are there", missing.list));
    }
    let is_configuration =
        error.chain().any(|cause| cause.is::<KubeconfigError>() || cause.is::<InferConfigError>());
    if is_configuration {
        return Some(
            "set KUBECONFIG, or name a file with --kubeconfig and a context with --context; \
             `kubectl config get-contexts` lists the contexts"
                .to_owned(),
        );
    }
    let mut requests = error.chain().filter_map(|cause| cause.downcast_ref::<kube::Error>());
    if let Some(advice) = requests.find_map(refused) {
        return Some(advice);
    }
    let is_late = error.chain().any(<dyn StdError>::is::<tokio::time::error::Elapsed>);
    (is_late || is_unavailable(error.as_ref())).then(|| {
        "does the cluster run, and is the address right? `kubectl cluster-info` asks the same".to_owned()
    })
}

/// What to do about a request that failed, if anything is known.
pub(crate) fn refused(error: &kube::Error) -> Option<String> {
    if let kube::Error::Auth(_) = error {
        return Some("log in again: the credentials of the kubeconfig could not be had".to_owned());
    }
    let status = status(error)?;
    let advice = match status.code {
        401 => {
            "log in again, or choose another --context: the credentials have expired or are not of this cluster"
        }
        403 if is_rbac(status) => {
            "ask an administrator for this right, or for the ClusterRole `view`; `kubectl auth can-i --list` shows \
             what you have"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Whether a refusal is about the rights of who asks, and not what admission says.
pub(crate) fn is_rbac(status: &Status) -> bool {
    status.is_forbidden()
        && !status.message.contains("admission")
        && !status.message.contains("ValidatingAdmissionPolicy")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::output::plain;

    fn answer(code: u16, reason: &str, message: &str) -> Error {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        Error::new(kube::Error::Api(Box::new(status))).context("cannot list the PodSets")
    }

    #[test]
    fn every_error_says_what_was_being_done_and_what_to_do() {
        let missing =
            kube::config::Kubeconfig::read_from("/nowhere").map_err(Error::new).context("found no cluster");
        let told = [
            answer(401, "Unauthorized", "Unauthorized"),
            answer(
                403,
                "Forbidden",
                "podsets.app.example.com is forbidden: User \"eve\" cannot list resource",
            ),
            answer(404, "NotFound", "the server could not find the requested resource"),
            Error::new(NotInstalled { url: "https://127.0.0.1:6443/".into(), kinds: "PodSet".into() }),
            Error::new(NoSuchObject {
                what: "PodSet shop/web".into(),
                list: "ensemblectl status podset -n shop".into(),
            }),
            missing.unwrap_err(),
        ]
        .map(|error| plain(&text(&error)));
        insta::assert_snapshot!(told.concat());
    }
}

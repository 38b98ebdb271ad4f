//! `wait`: watches one object until it reaches a state.

use std::pin::pin;

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use operator_core::error::status;

use crate::{
    cluster::Cluster,
    flags::Wait,
    kinds,
    output::{ERROR, ExitStatus, SUCCESS, paint, print_error, print_text},
};

/// Watches the object until it reaches the state or the timeout expires.
pub(crate) async fn run(cluster: &Cluster, flags: &Wait) -> Result<ExitStatus> {
    let (kind, name) = kinds::find_object(&flags.object.kind, flags.object.name.as_deref())?;
    let namespace = cluster.namespace();
    let what = kind.describe(namespace, &name);
    let api = kind.api(&cluster.client, Some(namespace));
    let mut reason = "the API server has not sent the object".to_owned();
    let mut watch_error = String::new();
    let watch = async {
        let mut states = pin!(watcher::watch_object(api, &name).default_backoff());
        while let Some(state) = states.next().await {
            match state.map(|object| flags.target.check(object.as_ref())) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(message)) => (reason, watch_error) = (message, String::new()),
                Err(error) => match transient_message(error) {
                    Ok(message) => watch_error = format!("; the watch has since failed: {message}"),
                    Err(error) => return Err(error.context(format!("cannot watch {what}"))),
                },
            }
        }
        bail!("the watch of {what} has ended")
    };
    match tokio::time::timeout(flags.timeout, watch).await {
        Ok(Ok(())) => {
            print_text(&format!("{what} is {}\n", paint(SUCCESS, &flags.target.to_string())))?;
            Ok(ExitStatus::Success)
        }
        Ok(Err(error)) => {
            // Returns `NotInstalled` instead if the API server does not serve the kind.
            kinds::list_all(cluster, std::slice::from_ref(&kind), Some(namespace)).await?;
            Err(error)
        }
        Err(_) => {
            let not = paint(ERROR, "not");
            print_error(&format!(
                "{what} is {not} {} after {:?}: {reason}{watch_error}\n",
                flags.target, flags.timeout
            ));
            Ok(ExitStatus::Failure)
        }
    }
}

/// Returns the message of a transient error of a watch.
///
/// # Errors
/// Returns the error if the API server rejected the watch with status 401, 403, or 404.
pub(crate) fn transient_message(error: watcher::Error) -> Result<String> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)
            if status(&error).is_some_and(|status| [401, 403, 404].contains(&status.code)) =>
        {
            Err(anyhow::Error::new(error))
        }
        other => Ok(operator_core::error::chain(&other)),
    }
}

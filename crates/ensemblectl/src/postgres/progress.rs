//! Waits for the result of a request.

use std::{pin::pin, time::Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;

use crate::{
    flags::postgres::Waiting,
    output::{ERROR, ExitStatus, SUCCESS, paint, print_error, print_text},
    wait::transient_message,
};

/// State of a request, as an object shows it.
pub(super) enum Progress {
    /// It has been carried out, with this result.
    Done(String),
    /// It will not be carried out, for this reason.
    Failed(String),
    /// It is still carried out: what it waits for.
    Waiting(String),
}

/// An object to watch, and how it is called in messages.
pub(super) struct Watched<'a, K> {
    pub(super) api: Api<K>,
    pub(super) name: &'a str,
    pub(super) what: String,
}

/// Watches an object until the request is carried out, and prints the result.
///
/// # Errors
/// Returns an error if the object cannot be watched.
pub(super) async fn follow<K>(
    watched: Watched<'_, K>,
    waiting: Waiting,
    check: impl Fn(&K) -> Progress,
) -> Result<ExitStatus>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let Watched { api, name, what } = watched;
    if waiting.no_wait {
        print_text(&format!("{what}: requested\n"))?;
        return Ok(ExitStatus::Success);
    }
    let began = Instant::now();
    let mut missing = "the API server has not sent the object".to_owned();
    let watch = async {
        let mut states = pin!(watcher::watch_object(api, name).default_backoff());
        while let Some(state) = states.next().await {
            match state {
                Ok(None) => return Ok(Err("it was deleted".to_owned())),
                Ok(Some(object)) => match check(&object) {
                    Progress::Done(result) => return Ok(Ok(result)),
                    Progress::Failed(reason) => return Ok(Err(reason)),
                    Progress::Waiting(reason) => missing = reason,
                },
                Err(error) => {
                    let message = transient_message(error).with_context(|| format!("cannot watch {what}"))?;
                    missing = format!("the watch has failed: {message}");
                }
            }
        }
        bail!("the watch of {what} has ended")
    };
    let ended = tokio::time::timeout(waiting.timeout, watch).await;
    let failure = match ended.map_err(|_| waiting.timeout) {
        Err(limit) => format!("{} after {limit:?}, the request remains: {missing}", paint(ERROR, "not done")),
        Ok(ended) => match ended? {
            Err(reason) => format!("{} {reason}", paint(ERROR, "failed:")),
            Ok(result) => {
                let seconds = began.elapsed().as_secs_f64();
                print_text(&format!("{what}: {} after {seconds:.1} s\n", paint(SUCCESS, &result)))?;
                return Ok(ExitStatus::Success);
            }
        },
    };
    print_error(&format!("{what}: {failure}\n"));
    Ok(ExitStatus::Failure)
}

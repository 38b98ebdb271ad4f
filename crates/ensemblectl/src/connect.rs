//! Finding the cluster, and the first request to it.

use std::time::Duration;

use anyhow::{Context, Result};
use http::{Request, header::DATE};
use jiff::{Timestamp, fmt::rfc2822};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use operator_core::client::Clients;

use crate::flags::Place;

/// How long the API server may take for its first answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the API server may be silent within an answer.
const SILENCE: Duration = Duration::from_secs(30);

/// The cluster that is looked at.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// The address of the API server.
    pub(crate) url: String,
    /// What the API server says of itself.
    pub(crate) version: Info,
    /// How much later it is for the API server than here.
    ahead: jiff::SignedDuration,
    /// What was asked for.
    pub(crate) place: Place,
}

impl Cluster {
    /// Reads the kubeconfig and asks the API server for its version, so that whatever stands in the way of all
    /// requests is said once and first.
    pub(crate) async fn connect(place: &Place) -> Result<Self> {
        let mut config = config(place).await?;
        config.connect_timeout = Some(PATIENCE);
        // An API server that hangs is a finding, too. A watch that is quiet for as long begins anew.
        config.read_timeout = Some(SILENCE);
        // A person waits: what does not work is said at once.
        config.default_retry = false;
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config).context("cannot use the cluster configuration")?;
        let client = Clients::new(client).named("ensemblectl");
        let first = tokio::time::timeout(PATIENCE, greet(&client));
        let (version, ahead) = first
            .await
            .with_context(|| format!("the API server {url} did not answer within {PATIENCE:?}"))?
            .with_context(|| format!("cannot ask the API server {url} for its version"))?;
        Ok(Self { client, url, version, ahead, place: place.clone() })
    }

    /// The time of the API server.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now().saturating_add(self.ahead).unwrap_or_else(|_| Timestamp::now())
    }

    /// The namespace that was asked for, or that of the context.
    pub(crate) fn namespace(&self) -> &str {
        self.place.namespace.as_deref().unwrap_or_else(|| self.client.default_namespace())
    }
}

async fn config(place: &Place) -> Result<Config> {
    let options = KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
    let found = match &place.kubeconfig {
        Some(file) => Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await,
        None if place.context.is_some() => Config::from_kubeconfig(&options).await,
        None => return Config::infer().await.context("found no cluster"),
    };
    found.context("found no cluster")
}

async fn greet(client: &Client) -> Result<(Info, jiff::SignedDuration)> {
    let request = Request::get("/version").body(Body::empty()).context("cannot make a request")?;
    let answer = client.send(request).await?;
    let date = answer.headers().get(DATE).and_then(|date| ahead(date.to_str().ok()?));
    Ok((client.apiserver_version().await?, date.unwrap_or_default()))
}

/// How much later it is for who wrote this date than here. Within two seconds, which the date does not tell apart, it
/// is the same time.
fn ahead(date: &str) -> Option<jiff::SignedDuration> {
    let there = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    let ahead = there.duration_since(Timestamp::now());
    Some(if ahead.abs() <= jiff::SignedDuration::from_secs(2) { jiff::SignedDuration::ZERO } else { ahead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_wrong_by_hours_is_noticed_and_one_that_is_right_is_left_alone() {
        let write =
            |time: Timestamp| rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap();
        let hour = jiff::SignedDuration::from_hours(1);
        let there = ahead(&write(Timestamp::now() + hour)).unwrap();
        assert!((there - hour).abs() <= jiff::SignedDuration::from_secs(2), "{there}");
        assert_eq!(ahead(&write(Timestamp::now())), Some(jiff::SignedDuration::ZERO));
        assert_eq!(ahead("yesterday"), None);
    }
}

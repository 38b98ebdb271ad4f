//! The cluster: kubeconfig, connection, and version of the API server.

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

use crate::flags::ConfigFlags;

/// Timeout for the first response of the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for reads within a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Connection to the cluster.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Address of the API server.
    pub(crate) url: String,
    /// Version of the API server.
    pub(crate) version: Info,
    /// Clock of the API server minus the local clock.
    clock_skew: jiff::SignedDuration,
    /// The flags that select the cluster and namespace.
    pub(crate) config: ConfigFlags,
}

impl Cluster {
    /// Reads the kubeconfig and requests the version of the API server.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig is invalid or the API server does not respond.
    pub(crate) async fn connect(flags: &ConfigFlags) -> Result<Self> {
        let mut config = load_config(flags).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // An API server that hangs is reported. A watch without events is restarted after this time.
        config.read_timeout = Some(READ_TIMEOUT);
        // A user waits for the result, so errors are reported immediately.
        config.default_retry = false;
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config).context("cannot use the cluster configuration")?;
        let client = Clients::new(client).named("ensemblectl");
        let first = tokio::time::timeout(CONNECT_TIMEOUT, version_and_clock_skew(&client));
        let (version, clock_skew) = first
            .await
            .with_context(|| format!("the API server {url} did not respond within {CONNECT_TIMEOUT:?}"))?
            .with_context(|| format!("cannot get the version of the API server {url}"))?;
        Ok(Self { client, url, version, clock_skew, config: flags.clone() })
    }

    /// Returns the current time of the API server.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now().saturating_add(self.clock_skew).unwrap_or_else(|_| Timestamp::now())
    }

    /// Returns the namespace of the flags, or else that of the context.
    pub(crate) fn namespace(&self) -> &str {
        self.config.namespace.as_deref().unwrap_or_else(|| self.client.default_namespace())
    }
}

async fn load_config(flags: &ConfigFlags) -> Result<Config> {
    let options = KubeConfigOptions { context: flags.context.clone(), ..KubeConfigOptions::default() };
    let config = match &flags.kubeconfig {
        Some(file) => Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await,
        None if flags.context.is_some() => Config::from_kubeconfig(&options).await,
        None => return Config::infer().await.context("cannot load a cluster configuration"),
    };
    config.context("cannot load a cluster configuration")
}

async fn version_and_clock_skew(client: &Client) -> Result<(Info, jiff::SignedDuration)> {
    let request = Request::get("/version").body(Body::empty()).context("cannot build a request")?;
    let response = client.send(request).await?;
    let skew = response.headers().get(DATE).and_then(|date| clock_skew(date.to_str().ok()?));
    Ok((client.apiserver_version().await?, skew.unwrap_or_default()))
}

/// Returns the difference between the time in a `Date` header and the local clock.
///
/// Differences of up to two seconds are zero, because the header has a resolution of one second.
fn clock_skew(date: &str) -> Option<jiff::SignedDuration> {
    let remote = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    let skew = remote.duration_since(Timestamp::now());
    Some(if skew.abs() <= jiff::SignedDuration::from_secs(2) { jiff::SignedDuration::ZERO } else { skew })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_skew_ignores_differences_below_the_resolution() {
        let format =
            |time: Timestamp| rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap();
        let hour = jiff::SignedDuration::from_hours(1);
        let skew = clock_skew(&format(Timestamp::now() + hour)).unwrap();
        assert!((skew - hour).abs() <= jiff::SignedDuration::from_secs(2), "{skew}");
        assert_eq!(clock_skew(&format(Timestamp::now())), Some(jiff::SignedDuration::ZERO));
        assert_eq!(clock_skew("yesterday"), None);
    }
}

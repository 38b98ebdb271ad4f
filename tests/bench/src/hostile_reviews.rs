//! Hostile reviews: the peak memory of the manager, and its responses to valid reviews meanwhile.

use std::{path::Path, time::Instant};

use anyhow::{Result, ensure};
use clap::Args;
use cluster::{
    Cluster, Options, reserve_address,
    usage::{peak, resident},
    wait::eventually,
};
use harness::hostile_reviews::{self, WebhookRule, WebhookServer};
use local_manager::launch::{launch_with_flags, prepare};
use manager::{CONTROLLERS, NAMESPACE};
use operator_core::manifests::webhooks::{ClientConfig, mutating, validating};
use serde_json::Value;

use crate::{
    TIMEOUT, figures,
    reviews::{authority, review},
};

#[derive(Args)]
pub(crate) struct HostileReviews {
    /// Send every n-th hostile review
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    hostile_step: u16,

    /// Number of connections that send hostile reviews concurrently
    #[arg(long, default_value_t = 16)]
    hostile_connections: usize,
}

/// Maximum memory of the manager for any requests, in MiB.
const MEMORY_LIMIT: f64 = 96.0;
const MIB: usize = 1024 * 1024;
/// Sizes of admission reviews: small, at the limit, and above the limit.
const REVIEWS: [usize; 4] = [96 * 1024, MIB, 4 * MIB - 8 * 1024, 7 * MIB];
/// Sizes of conversion reviews.
const CONVERSIONS: [usize; 4] = [96 * 1024, 2 * MIB, 16 * MIB - 8 * 1024, 20 * MIB];

impl HostileReviews {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        prepare(&cluster).await?;
        let address = reserve_address()?;
        let flags = [
            "--health-probe-bind-address=0".to_owned(),
            format!("--webhook-bind-address={address}"),
            "--webhook-host=127.0.0.1".to_owned(),
        ];
        let running = launch_with_flags(&cluster, program, &flags).await?;
        let (valid, path) = (String::from_utf8(review()?.to_vec())?, "/tenant/tenants");
        let target = eventually("the manager to serve its webhooks", TIMEOUT, async || {
            let target = WebhookServer::local(address, authority(&cluster).await?);
            let status = target.post(path, &valid).await?;
            ensure!(status == 200, "unexpected status {status} of a valid review");
            Ok(Some(target))
        })
        .await?;
        let idle_memory = resident(running.pid())?;

        let began = Instant::now();
        let reviews = reviewed()?.into_iter().flat_map(|one| {
            let path = one.path.clone();
            hostile_reviews::admission(one, &REVIEWS).map(move |body| (path.clone(), body))
        });
        let conversions = conversions()
            .into_iter()
            .flat_map(|path| hostile_reviews::conversion(&CONVERSIONS).map(move |body| (path.clone(), body)));
        let bodies = reviews.chain(conversions).step_by(usize::from(self.hostile_step));
        let outcome =
            hostile_reviews::attack(&target, self.hostile_connections, bodies, (path, &valid)).await?;
        let peak_memory = peak(running.pid())?;
        for (status, count) in &outcome.answers {
            let status = if *status == 0 { "disconnected".to_owned() } else { status.to_string() };
            figures::print(&format!("hostile reviews, status {status}"), figures::count(*count), "reviews");
        }
        figures::print("hostile reviews, duration", began.elapsed().as_secs_f64(), "s");
        figures::print("hostile reviews, data", figures::count(outcome.bytes / MIB), "MiB");
        figures::print("valid reviews answered meanwhile", figures::count(outcome.real), "reviews");
        figures::print("slowest valid review", outcome.slowest.as_secs_f64() * 1000.0, "ms");
        figures::print("memory before hostile reviews", idle_memory, "MiB");
        figures::print("memory, peak", peak_memory, "MiB");
        running.stop()?;
        cluster.stop()?;
        ensure!(
            peak_memory < MEMORY_LIMIT,
            "the manager used {peak_memory:.0} MiB, more than the limit of {MEMORY_LIMIT:.0} MiB"
        );
        Ok(())
    }
}

/// Returns the resources and operations of every webhook.
fn reviewed() -> Result<Vec<WebhookRule>> {
    let client_config = ClientConfig::Service { namespace: NAMESPACE.to_owned() };
    let mut configurations: Vec<Value> = Vec::new();
    for controller in CONTROLLERS {
        configurations.push(serde_json::to_value(validating(controller, &client_config))?);
        configurations.push(serde_json::to_value(mutating(controller, &client_config))?);
    }
    Ok(configurations.iter().flat_map(WebhookRule::from_configuration).collect())
}

/// Returns the path of every conversion webhook.
fn conversions() -> Vec<String> {
    let of = |controller: &operator_core::Registration| {
        (controller.conversions)().into_iter().map(|one| one.path(controller.name))
    };
    CONTROLLERS.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_hostile_reviews_to_every_path() {
        let reviewed = reviewed().unwrap();
        for controller in CONTROLLERS {
            for webhook in (controller.webhooks)() {
                let path = webhook.path(controller.name);
                assert!(reviewed.iter().any(|one| one.path == path), "no hostile review for {path}");
            }
        }
        assert_eq!(conversions(), ["/tenant/convert/tenants"]);
    }
}

//! Hostile reviews: the most memory that the manager can be made to take, and whether real reviews are answered
//! meanwhile.

use std::{path::Path, time::Instant};

use anyhow::{Result, ensure};
use clap::Args;
use cluster::{Cluster, Options, wait::eventually};
use harness::hostile::{self, Reviewed, Target};
use manager::CONTROLLERS;
use operator_core::admission::configuration::{ClientConfig, mutating, validating};
use serde_json::Value;

use super::{
    PATIENCE, figures,
    reviews::{authority, review},
};
use crate::{
    process::{peak, resident},
    rbac::NAMESPACE,
    stage::{free_address, launch_with, prepare},
};

#[derive(Args)]
pub(super) struct HostileReviews {
    /// Of all hostile reviews, send every so many
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    hostile_step: u16,

    /// From how many connections hostile reviews are sent at once
    #[arg(long, default_value_t = 16)]
    hostile_connections: usize,
}

/// What a manager may take, whatever it is sent, in MiB.
const LARGEST: f64 = 96.0;
const MIB: usize = 1024 * 1024;
/// The sizes of admission reviews: small, the largest that are taken, and larger.
const REVIEWS: [usize; 4] = [96 * 1024, MIB, 4 * MIB - 8 * 1024, 7 * MIB];
/// The sizes of conversion reviews.
const CONVERSIONS: [usize; 4] = [96 * 1024, 2 * MIB, 16 * MIB - 8 * 1024, 20 * MIB];

impl HostileReviews {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        prepare(&cluster).await?;
        let address = free_address()?;
        let flags = [
            "--health-probe-bind-address=0".to_owned(),
            format!("--webhook-bind-address={address}"),
            "--webhook-host=127.0.0.1".to_owned(),
        ];
        let running = launch_with(&cluster, program, &flags).await?;
        let (real, path) = (String::from_utf8(review()?.to_vec())?, "/tenant/tenants");
        let target = eventually("the manager to serve its webhooks", PATIENCE, async || {
            let target = Target { address, authority: authority(&cluster).await? };
            let status = target.ask(path, &real).await?;
            ensure!(status == 200, "a real review was answered {status}");
            Ok(Some(target))
        })
        .await?;
        let at_rest = resident(running.pid())?;

        let began = Instant::now();
        let reviews = reviewed()?.into_iter().flat_map(|one| {
            let path = one.path.clone();
            hostile::admission(one, &REVIEWS).map(move |body| (path.clone(), body))
        });
        let conversions = conversions()
            .into_iter()
            .flat_map(|path| hostile::conversion(&CONVERSIONS).map(move |body| (path.clone(), body)));
        let bodies = reviews.chain(conversions).step_by(usize::from(self.hostile_step));
        let outcome = hostile::attack(&target, self.hostile_connections, bodies, (path, &real)).await?;
        let most = peak(running.pid())?;
        for (status, count) in &outcome.answers {
            let status = if *status == 0 { "disconnected".to_owned() } else { status.to_string() };
            figures::print(&format!("hostile reviews answered {status}"), figures::count(*count), "reviews");
        }
        figures::print("hostile reviews, sent in", began.elapsed().as_secs_f64(), "s");
        figures::print("hostile reviews, bytes sent", figures::count(outcome.bytes / MIB), "MiB");
        figures::print("real reviews answered meanwhile", figures::count(outcome.real), "reviews");
        figures::print("the slowest of them", outcome.slowest.as_secs_f64() * 1000.0, "ms");
        figures::print("memory before hostile reviews", at_rest, "MiB");
        figures::print("the most memory with hostile reviews", most, "MiB");
        running.stop()?;
        cluster.stop()?;
        ensure!(most < LARGEST, "the manager took {most:.0} MiB; it may take {LARGEST:.0}");
        Ok(())
    }
}

/// What every webhook is asked about.
fn reviewed() -> Result<Vec<Reviewed>> {
    let reach = ClientConfig::Service { namespace: NAMESPACE.to_owned() };
    let mut configurations: Vec<Value> = Vec::new();
    for controller in CONTROLLERS {
        configurations.push(serde_json::to_value(validating(controller, &reach))?);
        configurations.push(serde_json::to_value(mutating(controller, &reach))?);
    }
    Ok(configurations.iter().flat_map(Reviewed::of).collect())
}

/// The path of every conversion.
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
    fn every_path_is_attacked() {
        let reviewed = reviewed().unwrap();
        for controller in CONTROLLERS {
            for webhook in (controller.webhooks)() {
                let path = webhook.path(controller.name);
                assert!(reviewed.iter().any(|one| one.path == path), "{path} is not attacked");
            }
        }
        assert_eq!(conversions(), ["/tenant/convert/tenants"]);
    }
}

//! Comparison of the PodSet controller with other controllers: the same Pods on the same control
//! plane, one after the other.

mod controller;
mod measurement;
mod plot;
mod report;

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{Cluster, Options, program::workspace};
use local_manager::launch::prepare;

use self::{
    controller::{Controller, Programs, build_go, create_service_accounts},
    measurement::{Measurement, delete_objects},
};
use crate::workload;

#[derive(Args)]
pub(crate) struct Peers {
    /// Controllers to compare
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Controller::Ensemble, Controller::ReplicaSet, Controller::Go])]
    controllers: Vec<Controller>,

    /// Numbers of objects of ten Pods to measure
    #[arg(long, value_delimiter = ',', default_values_t = [100, 300, 1000])]
    sizes: Vec<usize>,

    /// Repetitions of each size; each measures the controllers in order and then in reverse, so
    /// that drift cancels out
    #[arg(long, default_value_t = 2)]
    blocks: usize,
}

impl Peers {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let results = workspace().join("target/bench");
        fs::create_dir_all(&results).with_context(|| format!("cannot create {}", results.display()))?;
        let disabled = "--controllers=*,-replicaset-controller,-deployment-controller".to_owned();
        let options = Options {
            nodes: workload::NODES,
            scheduler: false,
            controller_manager_args: vec![disabled],
            ..Options::default()
        };
        let cluster = Cluster::start(options).await?;
        prepare(&cluster).await?;
        create_service_accounts(&cluster, &results).await?;
        let go =
            if self.controllers.contains(&Controller::Go) { build_go(&results)? } else { results.clone() };
        let controller_manager = cluster.record().binaries.join("kube-controller-manager");
        let programs = Programs { ensemble: program.to_owned(), controller_manager, go };
        let largest = self.sizes.iter().copied().max().unwrap_or_default();
        let client = cluster.client().await?;
        workload::create_namespaces(&client, largest + 1).await?;
        let mut measurements = Vec::new();
        for size in &self.sizes {
            for _ in 0..self.blocks {
                for controller in forward_and_back(&self.controllers) {
                    // Not after the last measurement: stopping the cluster is faster.
                    if let Some(previous) = measurements.last() {
                        delete_objects(&client, previous).await?;
                    }
                    let measurement = Measurement::measure(&cluster, &programs, controller, *size).await?;
                    println!("{}", report::line(&measurement));
                    measurements.push(measurement);
                }
            }
        }
        fs::write(results.join("podsets.json"), serde_json::to_vec_pretty(&measurements)?)?;
        println!("\n{}", report::table(&measurements));
        println!("{}", report::growth(&measurements));
        plot::draw(&measurements, &results)?;
        println!("results and plots are in {}", results.display());
        cluster.stop()
    }
}

/// Returns the controllers in order and then in reverse order. A single controller appears once.
fn forward_and_back(controllers: &[Controller]) -> impl Iterator<Item = Controller> {
    let back = if controllers.len() > 1 { controllers } else { &[] };
    controllers.iter().chain(back.iter().rev()).copied()
}

//! PodSets beside their peers: the same pods, on the same control plane, one after the other.

mod cell;
mod contender;
mod plot;
mod report;

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{Cluster, Options};

use self::{
    cell::{Cell, clear},
    contender::{Contender, Programs, admit_peers, build_go},
};
use super::world;
use crate::{stage::prepare, workspace};

#[derive(Args)]
pub(super) struct Peers {
    /// Who is compared
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Contender::Ensemble, Contender::ReplicaSet, Contender::Go])]
    contenders: Vec<Contender>,

    /// How many objects of ten pods each contender is given, each number in its turn
    #[arg(long, value_delimiter = ',', default_values_t = [100, 300, 1000])]
    sizes: Vec<usize>,

    /// How often all are measured at each size: there and back, so that a drift of the machine cancels out
    #[arg(long, default_value_t = 2)]
    blocks: usize,
}

impl Peers {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let results = workspace().join("target/bench");
        fs::create_dir_all(&results).with_context(|| format!("cannot make {}", results.display()))?;
        let without = "--controllers=*,-replicaset-controller,-deployment-controller".to_owned();
        let options = Options {
            nodes: world::NODES,
            scheduler: false,
            controller_manager_args: vec![without],
            ..Options::default()
        };
        let cluster = Cluster::start(options).await?;
        prepare(&cluster).await?;
        admit_peers(&cluster, &results).await?;
        let go = if self.contenders.contains(&Contender::Go) { build_go(&results)? } else { results.clone() };
        let controller_manager = cluster.record().binaries.join("kube-controller-manager");
        let programs = Programs { ensemble: program.to_owned(), controller_manager, go };
        let most = self.sizes.iter().copied().max().unwrap_or_default();
        let client = cluster.client().await?;
        world::create_namespaces(&client, most + 1).await?;
        let mut cells = Vec::new();
        for size in &self.sizes {
            for _ in 0..self.blocks {
                for contender in there_and_back(&self.contenders) {
                    // Not after the last one: that the cluster stops is quicker.
                    if let Some(left) = cells.last() {
                        clear(&client, left).await?;
                    }
                    let cell = Cell::measure(&cluster, &programs, contender, *size).await?;
                    println!("{}", report::line(&cell));
                    cells.push(cell);
                }
            }
        }
        fs::write(results.join("podsets.json"), serde_json::to_vec_pretty(&cells)?)?;
        println!("\n{}", report::table(&cells));
        println!("{}", report::growth(&cells));
        plot::draw(&cells, &results)?;
        println!("results and plots are in {}", results.display());
        cluster.stop()
    }
}

/// One alone has no way back.
fn there_and_back(contenders: &[Contender]) -> impl Iterator<Item = Contender> {
    let back = if contenders.len() > 1 { contenders } else { &[] };
    contenders.iter().chain(back.iter().rev()).copied()
}

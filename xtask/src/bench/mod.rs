//! `bench`: what the manager costs and how fast it is, in figures that it prints itself.

mod crowd;
mod figures;
mod hostile_reviews;
mod peers;
mod reaction;
mod rest;
mod reviews;
mod scrape;
mod start;
mod support;
mod tenants;
mod world;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

use cluster::program::build_manager;

/// Measures the manager, built as it is released.
#[derive(Args)]
pub(crate) struct Bench {
    /// What to measure; everything if nothing is named
    #[arg(value_enum)]
    sections: Vec<Section>,

    #[command(flatten)]
    rest: rest::Rest,

    #[command(flatten)]
    reaction: reaction::Reaction,

    #[command(flatten)]
    start: start::Start,

    #[command(flatten)]
    crowd: crowd::Crowd,

    #[command(flatten)]
    peers: peers::Peers,

    #[command(flatten)]
    reviews: reviews::Reviews,

    #[command(flatten)]
    hostile_reviews: hostile_reviews::HostileReviews,

    #[command(flatten)]
    scrape: scrape::Scrape,

    #[command(flatten)]
    tenants: tenants::Tenants,
}

/// One measurement, on a cluster of its own.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// What is spent while nothing changes
    Rest,
    /// How soon a single change is acted on
    Reaction,
    /// The start of a manager that finds many objects
    Start,
    /// Many objects of several kinds in one manager
    Crowd,
    /// PodSets beside ReplicaSets, and beside a PodSet controller in Go
    Peers,
    /// Admission reviews
    Reviews,
    /// Reviews of strangers that take as much memory as they can
    HostileReviews,
    /// What it costs to be measured
    Scrape,
    /// Many Tenants, and namespaces that their owners create
    Tenants,
}

const PATIENCE: Duration = Duration::from_mins(5);

impl Bench {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("building the manager ...");
        let program = build_manager(true)?;
        for section in Section::value_variants() {
            if self.sections.is_empty() || self.sections.contains(section) {
                match section {
                    Section::Rest => self.rest.run(&program).await?,
                    Section::Reaction => self.reaction.run(&program).await?,
                    Section::Start => self.start.run(&program).await?,
                    Section::Crowd => self.crowd.run(&program).await?,
                    Section::Peers => self.peers.run(&program).await?,
                    Section::Reviews => self.reviews.run(&program).await?,
                    Section::HostileReviews => self.hostile_reviews.run(&program).await?,
                    Section::Scrape => self.scrape.run(&program).await?,
                    Section::Tenants => self.tenants.run(&program).await?,
                }
            }
        }
        Ok(())
    }
}

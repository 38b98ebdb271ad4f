//! Metrics of PostgresClusters. Computed from the caches, without a request.
//!
//! The names of clusters are in the gauges only, which go away with their clusters.

mod gauges;
mod interruptions;

use operator_core::metrics::Histogram;

pub(crate) use self::{
    gauges::{GAUGES, readings},
    interruptions::Interruptions,
};

/// From a planned stop to a failover that waits for a Lease of 60 seconds, or for a person.
const BOUNDS: &[f64] = &[0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0];

static FAILOVER: Histogram = Histogram {
    name: "ensemble_postgres_failover_seconds",
    help: "Time for which a PostgresCluster took no writes because of a failover, as the controller sees it",
    bounds: BOUNDS,
};
static SWITCHOVER: Histogram = Histogram {
    name: "ensemble_postgres_switchover_seconds",
    help: "Time for which a PostgresCluster took no writes because of a switchover, as the controller sees it",
    bounds: BOUNDS,
};

/// Histograms of this controller.
pub(crate) static HISTOGRAMS: &[&Histogram] = &[&FAILOVER, &SWITCHOVER];

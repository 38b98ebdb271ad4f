//! Synchronous replication, and failover.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On how many standbys a commit waits before it is acknowledged.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Synchronous {
    /// number is how many standbys must have stored a commit before it is acknowledged. Defaults to 1
    /// if spec.size is at least 3, and to 0 otherwise: then the loss of the primary can lose the last
    /// acknowledged writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 8))]
    pub number: Option<u32>,

    /// durability decides what happens while too few standbys follow the primary: preferred lowers
    /// the number when the primary renews its Lease after 10 seconds, and required lets writes wait.
    #[serde(default)]
    pub durability: Durability,
}

impl Synchronous {
    /// Returns the number for a cluster of this size.
    pub(crate) fn number(&self, size: usize) -> usize {
        let default = usize::from(size >= 3);
        self.number.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
    }
}

/// What happens while too few standbys follow the primary.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Writes go on when the primary renews its Lease after 10 seconds, and are not protected by
    /// standbys until these have caught up.
    #[default]
    Preferred,
    /// Writes wait.
    Required,
}

/// When another member replaces the primary.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// enabled is whether the controller replaces a failed primary.
    #[serde(default = "enabled")]
    pub enabled: bool,

    /// leaseSeconds is the duration of the Lease of the primary. The primary stops writing after two
    /// thirds of it without an answer of the API server, and another member can take over after all
    /// of it. A change applies to Pods that are created after it.
    #[serde(default = "default_lease")]
    #[schemars(range(min = 6, max = 60))]
    pub lease_seconds: u32,

    /// maxLagBytes is how much WAL a failover without synchronous replication may lose.
    #[serde(default = "default_lag")]
    #[schemars(range(min = 0))]
    pub max_lag_bytes: i64,
}

impl Default for Failover {
    fn default() -> Self {
        Self { enabled: enabled(), lease_seconds: default_lease(), max_lag_bytes: default_lag() }
    }
}

fn enabled() -> bool {
    true
}

fn default_lease() -> u32 {
    15
}

fn default_lag() -> i64 {
    16 << 20
}

//! Replication slots.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Version 17 is the first that copies logical slots to standbys.
pub(super) const VERSION: &str = "!self.spec.replicationSlots.synchronizeLogical || !has(self.spec.version) \
     || (type(self.spec.version) == int ? self.spec.version : int(string(self.spec.version).split('.')[0])) >= 17";
pub(super) const WAL_LEVEL: &str = "!self.spec.replicationSlots.synchronizeLogical || !has(self.spec.parameters) \
     || !('wal_level' in self.spec.parameters) || self.spec.parameters['wal_level'] == 'logical'";

/// Replication slots of a PostgresCluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicationSlots {
    /// synchronizeLogical copies logical replication slots that have the option failover to the standbys, so
    /// that subscribers continue after a failover or a switchover. Subscribers then receive a change only
    /// after the standbys on which commits wait have it. It requires PostgreSQL 17, and sets wal_level to
    /// logical. A change replaces the Pods one after the other.
    #[serde(default)]
    pub synchronize_logical: bool,
}

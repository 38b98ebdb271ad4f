//! The part of the archive that belongs to one database of one cluster.

mod claim;
mod databases;

use postgres_model::{
    archive::{ArchiveKey, ArchiveObject, Lineage},
    system_identifier::SystemIdentifier,
};

pub use self::claim::Claim;
use crate::store::ObjectStore;

/// Part of the archive that belongs to one database: `<lineage>/<system identifier>/` below the URL.
///
/// Call [`claim`](Self::claim) before anything is written. A cluster that is restored from the backups
/// of another one reads that part without a claim. Clones share connections.
#[derive(Clone, Debug)]
pub struct Archive {
    store: ObjectStore,
    lineage: Lineage,
    system: SystemIdentifier,
}

impl Archive {
    /// Returns the part of a lineage and a database. Sends nothing.
    pub fn new(store: ObjectStore, lineage: Lineage, system: SystemIdentifier) -> Self {
        Self { store, lineage, system }
    }

    /// Returns the system identifier of the database.
    pub fn system(&self) -> SystemIdentifier {
        self.system
    }

    /// Returns the object store.
    pub fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// Returns the key of an object below the URL.
    pub(crate) fn key(&self, object: ArchiveObject) -> String {
        ArchiveKey { lineage: self.lineage.clone(), system: self.system, object }.to_string()
    }

    /// Returns the key of a folder, which ends with a slash.
    pub(crate) fn folder(&self, name: &str) -> String {
        format!("{}/{}/{name}/", self.lineage, self.system)
    }

    /// Returns what an object is. Returns `None` for objects of other programs.
    pub(crate) fn object(&self, key: &str) -> Option<ArchiveObject> {
        let key: ArchiveKey = key.parse().ok()?;
        (key.lineage == self.lineage && key.system == self.system).then_some(key.object)
    }
}

//! Which databases a cluster has archived.

use futures::TryStreamExt;
use postgres_model::{
    archive::{ArchiveKey, Lineage},
    system_identifier::SystemIdentifier,
};

use crate::{error::ArchiveError, store::ObjectStore};

/// Most databases of a lineage. A cluster that is created again has another one.
const MAX_DATABASES: usize = 100;

impl ObjectStore {
    /// Returns the system identifiers of the databases of a lineage, at most 100, in no useful order. Sends
    /// one request for each, and one more.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached within the deadline.
    pub async fn databases(&self, lineage: &Lineage) -> Result<Vec<SystemIdentifier>, ArchiveError> {
        let folder = format!("{lineage}/");
        let (mut found, mut after) = (Vec::new(), None);
        while found.len() < MAX_DATABASES {
            let mut entries = std::pin::pin!(self.list(&folder, after.as_deref()));
            let Some(entry) = entries.try_next().await? else { break };
            let Some(name) = entry.key.strip_prefix(&folder).and_then(|rest| rest.split('/').next()) else {
                break;
            };
            found.extend(entry.key.parse::<ArchiveKey>().ok().map(|key| key.system));
            // The character after the slash, so after all keys in the folder of this database.
            after = Some(format!("{folder}{name}0"));
        }
        Ok(found)
    }
}

//! The marker that says which cluster a part of the archive belongs to.

use postgres_model::archive::ArchiveObject;
use serde::{Deserialize, Serialize};

use super::Archive;
use crate::{
    error::{ArchiveError, Damage},
    store::{Content, StoreError},
    text::printable,
};

/// Version of the marker.
const VERSION: u64 = 1;
/// Most bytes of a marker.
const MAX_MARKER: u64 = 16 << 10;

/// Longest name or UID in a message.
const MAX_NAME: usize = 253;

/// Result of a claim that succeeded: this part of the archive belongs to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whether the marker is new, so nothing was archived before.
    pub is_created: bool,
    /// Whether the store refuses to overwrite objects. If not, two writers at the same moment can both
    /// succeed, and the last one wins.
    pub is_conditional: bool,
}

/// Content of `cluster.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    version: u64,
    uid: String,
    name: String,
}

impl Archive {
    /// Claims this part of the archive for a cluster, or verifies that it is claimed for it.
    ///
    /// The marker is written once and then never changed, so all members can claim at the same time.
    /// The claim also finds out whether the store knows conditional requests: it writes the marker
    /// once more under the condition that it does not exist. A store that ignores the condition
    /// replaces it by the same content.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Owned`] if the marker names another UID.
    pub async fn claim(&self, cluster_uid: &str, cluster_name: &str) -> Result<Claim, ArchiveError> {
        let key = self.key(ArchiveObject::Marker);
        // Read first: a store that ignores the condition would overwrite the marker of another cluster.
        let (is_created, content) = match self.owned(&key, cluster_uid).await? {
            Some(content) => (false, content),
            None => self.create(&key, cluster_uid, cluster_name).await?,
        };
        let is_conditional = self.store.is_conditional(&key, &content).await?;
        if !is_conditional {
            self.store.set_unconditional();
            // Another cluster may have claimed the part between the read and the write.
            self.owned(&key, cluster_uid).await?;
        }
        Ok(Claim { is_created, is_conditional })
    }

    /// Writes the marker. Returns whether this call created it, and its content.
    async fn create(&self, key: &str, uid: &str, name: &str) -> Result<(bool, Content), ArchiveError> {
        let marker = Marker { version: VERSION, uid: uid.to_owned(), name: name.to_owned() };
        let json = serde_json::to_vec(&marker);
        let json = json.map_err(|error| ArchiveError::damaged(key, Damage::Content(error.to_string())))?;
        let content = Content::plain(json);
        match self.store.put(key, &content).await {
            Ok(put) => Ok((put.is_created, content)),
            // Another member was faster, or another cluster, which the second read tells.
            Err(error @ StoreError::Conflict { .. }) => {
                self.owned(key, uid).await?.map(|content| (false, content)).ok_or_else(|| error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the marker, and verifies that it names the UID. Returns `None` if there is no marker.
    async fn owned(&self, key: &str, uid: &str) -> Result<Option<Content>, ArchiveError> {
        let Some(found) = self.store.read(key, MAX_MARKER).await? else { return Ok(None) };
        let marker: Marker = serde_json::from_slice(&found.bytes)
            .map_err(|error| ArchiveError::damaged(key, Damage::Content(error.to_string())))?;
        if marker.version > VERSION {
            return Err(ArchiveError::Version {
                key: key.to_owned(),
                version: marker.version,
                supported: VERSION,
            });
        }
        if marker.uid != uid {
            let [name, uid] = [marker.name, marker.uid].map(|text| printable(&text, MAX_NAME));
            return Err(ArchiveError::Owned { key: key.to_owned(), name, uid });
        }
        Ok(Some(Content::plain(found.bytes)))
    }
}

//! What was applied last, so that a resync sends nothing for an object that has not changed.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use ring::digest::{Context, SHA256};
use serde_json::Value;

use crate::item::ObjectId;

/// Hash of what was applied to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Returns the hash of configurations and settings.
    pub(crate) fn of<'c>(configurations: impl IntoIterator<Item = &'c Value>, force: bool) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(&[u8::from(force)]);
        for configuration in configurations {
            let text = configuration.to_string();
            hash.update(&text.len().to_le_bytes());
            hash.update(text.as_bytes());
        }
        let mut short = [0; 16];
        short.iter_mut().zip(hash.finish().as_ref()).for_each(|(target, byte)| *target = *byte);
        Self(short)
    }
}

/// An object after it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) fingerprint: Fingerprint,
    /// UID and resource version of the object. Another one means that somebody has changed it.
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

/// Remembers what each replication has applied. Empty after a start of the process, when every
/// object is applied again; the API server writes nothing then either.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    replications: Mutex<HashMap<String, BTreeMap<ObjectId, Applied>>>,
}

impl Memo {
    /// Returns whether an object still is as the replication has applied it.
    pub(crate) fn is_current(&self, replication: &str, id: &ObjectId, now: &Applied) -> bool {
        let replications = self.replications.lock();
        replications.get(replication).and_then(|objects| objects.get(id)) == Some(now)
    }

    pub(crate) fn record(&self, replication: &str, id: &ObjectId, applied: Applied) {
        self.replications.lock().entry(replication.to_owned()).or_default().insert(id.clone(), applied);
    }

    /// Forgets the objects of a replication that it no longer describes.
    pub(crate) fn retain(&self, replication: &str, is_described: impl Fn(&ObjectId) -> bool) {
        let mut replications = self.replications.lock();
        if let Some(objects) = replications.get_mut(replication) {
            objects.retain(|id, _| is_described(id));
            if objects.is_empty() {
                replications.remove(replication);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_same_configuration_and_version_are_current() {
        let id = ObjectId {
            group: String::new(),
            kind: "ConfigMap".into(),
            namespace: "oil".into(),
            name: "a".into(),
        };
        let applied = |data: i32, force, version: &str| Applied {
            fingerprint: Fingerprint::of(&[json!({ "data": data })], force),
            uid: "1".into(),
            resource_version: version.into(),
        };
        let memo = Memo::default();
        assert!(!memo.is_current("r", &id, &applied(1, false, "5")));
        memo.record("r", &id, applied(1, false, "5"));
        assert!(memo.is_current("r", &id, &applied(1, false, "5")));
        for other in [applied(2, false, "5"), applied(1, true, "5"), applied(1, false, "6")] {
            assert!(!memo.is_current("r", &id, &other));
        }
        assert!(!memo.is_current("s", &id, &applied(1, false, "5")));
        memo.retain("r", |_| false);
        assert!(!memo.is_current("r", &id, &applied(1, false, "5")));
        assert!(memo.replications.lock().is_empty());
    }
}

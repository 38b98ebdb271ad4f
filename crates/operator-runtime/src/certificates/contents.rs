//! What the Secret holds.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::ByteString;

use super::{
    pki::SigningKey,
    x509::{Authority, Serving, Unreadable, bundle},
};

/// Every authority that is to be trusted, the newest first, in PEM.
pub(super) const AUTHORITIES: &str = "ca.crt";
/// The key of the authority that signs.
pub(super) const AUTHORITY_KEY: &str = "ca.key";
/// The certificate that servers show, in PEM.
pub const CHAIN: &str = "tls.crt";
/// Its key.
pub(super) const KEY: &str = "tls.key";

/// The data of a Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// What a Secret holds under a key; nothing if it does not have it.
pub(super) fn bytes<'a>(data: &'a Data, key: &str) -> &'a [u8] {
    data.get(key).map(|ByteString(bytes)| bytes.as_slice()).unwrap_or_default()
}

/// What can be used of a Secret's data. Nothing in it is known to be good: that depends on the time.
#[derive(Clone)]
pub(super) struct Contents {
    pub(super) authorities: Vec<Authority>,
    /// The key of the authority that signs, as PEM. Present even if it belongs to none of them.
    authority_key: Vec<u8>,
    pub(super) serving: Result<Serving, Unreadable>,
}

impl Contents {
    /// Reads whatever bytes there are.
    pub(super) fn read(data: &Data) -> Self {
        let bytes = |key| bytes(data, key);
        Self {
            authorities: Authority::read_all(bytes(AUTHORITIES)),
            authority_key: bytes(AUTHORITY_KEY).to_vec(),
            serving: Serving::read(bytes(CHAIN), bytes(KEY)),
        }
    }

    /// What a Secret has to hold to be read as this.
    pub(super) fn data(&self) -> Data {
        let (chain, key) = match &self.serving {
            Ok(serving) => (serving.chain_pem.clone(), serving.key_pem.clone()),
            Err(_) => Default::default(),
        };
        [
            (AUTHORITIES, bundle(&self.authorities)),
            (AUTHORITY_KEY, self.authority_key.clone()),
            (CHAIN, chain),
            (KEY, key),
        ]
        .map(|(name, bytes)| (name.to_owned(), ByteString(bytes)))
        .into()
    }

    /// The authority whose key is there.
    pub(super) fn signer(&self) -> Option<(&Authority, SigningKey)> {
        let key = SigningKey::read(&self.authority_key)?;
        let authority = self.authorities.iter().find(|authority| key.belongs_to(authority))?;
        Some((authority, key))
    }

    /// Puts a new authority before the others. Its key takes the place of the older one's, which signs no more.
    pub(super) fn lead_with(&mut self, authority: Authority, key: &SigningKey) {
        self.authorities.insert(0, authority);
        self.authority_key = key.pem();
    }
}

/// Never shows a key.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { authorities, authority_key: _, serving } = self;
        let mut shown = f.debug_struct("Contents");
        shown.field("authorities", authorities).field("serving", serving).finish_non_exhaustive()
    }
}

//! Parsed contents of the Secret.

use std::{collections::BTreeMap, fmt};

use certificates::{Authority, InvalidIdentity, Serving, SigningKey, bundle};
use k8s_openapi::ByteString;

/// Key of the trusted certificate authorities in PEM, the newest first.
pub(crate) const AUTHORITIES: &str = "ca.crt";
/// Key of the private key of the signing certificate authority.
pub(crate) const AUTHORITY_KEY: &str = "ca.key";
/// Key of the serving certificate chain in PEM.
pub const CHAIN: &str = "tls.crt";
/// Key of the private key of the serving certificate.
pub(crate) const KEY: &str = "tls.key";

/// Data of a Secret.
pub(crate) type Data = BTreeMap<String, ByteString>;

/// Returns the value of a key of a Secret; empty if the key is missing.
pub(crate) fn bytes<'a>(data: &'a Data, key: &str) -> &'a [u8] {
    data.get(key).map(|ByteString(bytes)| bytes.as_slice()).unwrap_or_default()
}

/// The readable parts of a Secret's data. Whether a certificate is valid depends on the time and is
/// not checked here.
#[derive(Clone)]
pub(crate) struct Contents {
    pub(crate) authorities: Vec<Authority>,
    /// Private key of the signing authority in PEM. Kept even if it belongs to none of
    /// `authorities`.
    authority_key: Vec<u8>,
    pub(crate) serving: Result<Serving, InvalidIdentity>,
}

impl Contents {
    /// Parses the data and leaves out whatever is not readable.
    pub(crate) fn read(data: &Data) -> Self {
        let bytes = |key| bytes(data, key);
        Self {
            authorities: Authority::read_all(bytes(AUTHORITIES)),
            authority_key: bytes(AUTHORITY_KEY).to_vec(),
            serving: Serving::read(bytes(CHAIN), bytes(KEY)),
        }
    }

    /// Returns the data of a Secret with these contents.
    pub(crate) fn data(&self) -> Data {
        let (chain, key) = match &self.serving {
            Ok(serving) => (serving.chain_pem().to_vec(), serving.key_pem().to_vec()),
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

    /// Returns the authority whose private key is present.
    pub(crate) fn signer(&self) -> Option<(&Authority, SigningKey)> {
        let key = SigningKey::read(&self.authority_key)?;
        let authority = self.authorities.iter().find(|authority| key.belongs_to(authority))?;
        Some((authority, key))
    }

    /// Adds a new authority in front of the others. Its key replaces the previous one, so older
    /// authorities no longer sign.
    pub(crate) fn prepend_authority(&mut self, authority: Authority, key: &SigningKey) {
        self.authorities.insert(0, authority);
        self.authority_key = key.pem();
    }
}

/// Never prints a key.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { authorities, authority_key: _, serving } = self;
        let mut output = f.debug_struct("Contents");
        output.field("authorities", authorities).field("serving", serving).finish_non_exhaustive()
    }
}

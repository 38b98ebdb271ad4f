//! Numbers that differ for different contents.

/// The FNV-1a hash of 64 bits. Versions of the operator and of the instance compute the same one.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds bytes.
    pub(crate) fn with(self, bytes: &[u8]) -> Self {
        const PRIME: u64 = 0x0100_0000_01b3;
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME)))
    }

    /// Returns the hash.
    pub(crate) fn finish(self) -> u64 {
        self.0
    }
}

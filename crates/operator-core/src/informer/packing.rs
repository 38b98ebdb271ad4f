//! Packing of cached objects.

use crate::kind::Kind;

/// A kind whose objects an informer can keep packed, because a cluster has many of them.
///
/// Each read of the cache unpacks what it returns, so this is for small types, such as
/// [`PodView`](crate::pod::PodView).
pub trait Pack: Kind {
    /// Returns the packed object. With `None`, the cache keeps the object as it is.
    ///
    /// [`Pack::unpack`] must return an equal object.
    fn pack(&self) -> Option<Box<[u8]>>;

    /// Returns the object that [`Pack::pack`] packed.
    fn unpack(packed: &[u8]) -> Option<Self>;
}

/// The functions of [`Pack`], for code that is generic over all kinds.
pub(super) struct Packing<K> {
    pub(super) pack: fn(&K) -> Option<Box<[u8]>>,
    pub(super) unpack: fn(&[u8]) -> Option<K>,
}

impl<K: Pack> Packing<K> {
    pub(super) fn new() -> Self {
        // An object that cannot be read would be missing in the cache, so it stays as it is.
        let pack = |object: &K| object.pack().filter(|packed| K::unpack(packed).is_some());
        Self { pack, unpack: K::unpack }
    }
}

impl<K> Clone for Packing<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Packing<K> {}

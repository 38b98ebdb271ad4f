//! What a store keeps of an object.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    kind::{Kind, ObjectKey},
    protobuf::Protobuf,
};

/// A kind whose objects take much less memory in a packed form, of which reads make an object again.
///
/// Unlike a `TransformFunc` of client-go, it does not change what readers receive. It pays for kinds of which a
/// cluster has very many objects. See
/// [`Informers::get_packed`](super::super::Informers::get_packed).
pub trait Pack: Kind {
    /// The packed form. It does not contain the key.
    type Packed: Send + Sync + 'static;

    /// The Protobuf format in which objects are requested, if the kind has one.
    const PROTOBUF: Option<Protobuf> = None;

    /// Returns the packed form, or `None` for an object that has none and is kept as it is.
    fn pack(&self) -> Option<Self::Packed>;

    /// Returns the object that was packed.
    fn unpack(key: &ObjectKey, packed: &Self::Packed) -> Self;
}

/// Packs an object.
pub(in super::super) type Packer<K> = fn(&K) -> Option<Arc<dyn Unpack<K>>>;

/// Packs an object of a kind that has a packed form.
pub(in super::super) fn pack<K: Pack>(object: &K) -> Option<Arc<dyn Unpack<K>>> {
    object.pack().map(|packed| Arc::new(PackedObject::<K>(packed)) as Arc<dyn Unpack<K>>)
}

/// Packs an object as JSON. An object that would not be the same when it is read has no packed form.
pub(in super::super) fn pack_as_json<K>(object: &K) -> Option<Arc<dyn Unpack<K>>>
where
    K: Kind + Serialize + PartialEq,
{
    let text = serde_json::to_string(object).ok()?;
    let is_same = serde_json::from_str::<K>(&text).is_ok_and(|read| read == *object);
    is_same.then(|| Arc::new(JsonText(text.into())) as Arc<dyn Unpack<K>>)
}

/// An object in its packed form.
pub(in super::super) trait Unpack<K>: Send + Sync {
    fn unpack(&self, key: &ObjectKey) -> K;
}

struct PackedObject<K: Pack>(K::Packed);

impl<K: Pack> Unpack<K> for PackedObject<K> {
    fn unpack(&self, key: &ObjectKey) -> K {
        K::unpack(key, &self.0)
    }
}

/// The text of an object that [`pack_as_json`] has read once.
struct JsonText(Box<str>);

impl<K: Kind> Unpack<K> for JsonText {
    #[expect(clippy::expect_used, reason = "the same type was read from the same text before")]
    fn unpack(&self, _: &ObjectKey) -> K {
        // As a watch decodes objects: the program has the code once.
        serde_json::from_str(&self.0).expect("a text that could be read before")
    }
}

/// An object of a store.
pub(in super::super) enum Cached<K> {
    Whole(Arc<K>),
    Packed(Arc<dyn Unpack<K>>),
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Whole(object) => Self::Whole(object.clone()),
            Self::Packed(packed) => Self::Packed(packed.clone()),
        }
    }
}

impl<K: Kind> Cached<K> {
    /// Returns what a store keeps of an object, and the object.
    pub(super) fn new(object: K, packer: Option<Packer<K>>) -> (Self, Arc<K>) {
        if let Some(packed) = packer.and_then(|packer| packer(&object)) {
            return (Self::Packed(packed), Arc::new(object));
        }
        // A decoded list has room for four elements, and its copy for one: 300 bytes less for an owner.
        let object = Arc::new(K::clone(&object));
        (Self::Whole(object.clone()), object)
    }
}

impl<K> Cached<K> {
    /// Returns the object with this key.
    pub(in super::super) fn get(&self, key: &ObjectKey) -> Arc<K> {
        match self {
            Self::Whole(object) => object.clone(),
            Self::Packed(packed) => Arc::new(packed.unpack(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;
    use serde::Deserialize;

    use super::*;

    /// An object whose JSON does not say everything.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, kube::Resource)]
    #[resource(inherit = ConfigMap)]
    struct Lossy {
        metadata: ObjectMeta,
        #[serde(skip_serializing, default)]
        data: Option<String>,
    }

    #[test]
    fn object_that_json_would_change_has_no_packed_form() {
        let mut object = Lossy { metadata: ObjectMeta::default(), data: None };
        assert!(pack_as_json(&object).is_some());
        object.data = Some("x".to_owned());
        assert!(pack_as_json(&object).is_none());
    }
}

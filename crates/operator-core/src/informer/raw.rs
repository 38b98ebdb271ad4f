//! Undecoded objects, so that one watch loop serves all kinds.

use std::borrow::Cow;

use kube::{
    Api, Client, Resource,
    api::{ApiResource, ListParams},
    core::{DynamicResourceScope, ObjectMeta},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::kind::{Kind, ObjectKey};

/// An undecoded object. Only the metadata that a watch needs is decoded: key and resource version.
#[derive(Clone, Debug)]
pub(super) struct RawObject {
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

/// An object that cannot be decoded as its kind.
pub(super) struct DecodeError {
    pub(super) key: ObjectKey,
    pub(super) error: serde_json::Error,
}

impl RawObject {
    /// Returns the API of a kind for undecoded objects.
    pub(super) fn api<K: Kind>(client: Client, namespace: Option<&str>) -> Api<Self> {
        let resource = ApiResource::erase::<K>(&());
        match namespace {
            Some(namespace) if K::NAMESPACED => Api::namespaced_with(client, namespace, &resource),
            _ => Api::all_with(client, &resource),
        }
    }

    /// Decodes the object without its managed fields, which take much memory and are not read.
    pub(super) fn decode<K: Kind>(&self) -> Result<K, DecodeError> {
        let mut object: K =
            serde_json::from_str(self.text.get()).map_err(|error| DecodeError { key: self.key(), error })?;
        object.meta_mut().managed_fields = None;
        Ok(object)
    }

    /// Returns the key of the object.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::of_meta(&self.metadata)
    }
}

/// Number of objects per page.
const PAGE: u32 = 500;

/// Objects of a kind, as the API server listed them.
#[derive(Debug)]
pub struct Listing<K> {
    /// Objects that can be decoded.
    pub objects: Vec<K>,
    /// Keys of the objects that cannot be decoded.
    pub unreadable: Vec<ObjectKey>,
}

/// Lists all objects of a kind live, page by page.
///
/// # Errors
/// Returns an error if a request fails, or if the list expired before its last page was requested.
pub async fn list_pages<K: Kind>(client: Client, namespace: Option<&str>) -> kube::Result<Listing<K>> {
    let api = RawObject::api::<K>(client, namespace);
    let mut listing = Listing { objects: Vec::new(), unreadable: Vec::new() };
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        for object in &page {
            match object.decode() {
                Ok(object) => listing.objects.push(object),
                Err(DecodeError { key, .. }) => listing.unreadable.push(key),
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(listing),
        }
    }
}

/// The part of an object that is decoded immediately.
#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    namespace: Option<String>,
    name: Option<String>,
    resource_version: Option<String>,
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let head: Head = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let HeadMeta { namespace, name, resource_version } = head.metadata;
        Ok(Self { metadata: ObjectMeta { namespace, name, resource_version, ..ObjectMeta::default() }, text })
    }
}

impl Resource for RawObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }
    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }
    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }
    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::WatchEvent;
    use serde_json::json;

    use super::*;

    fn received(data: serde_json::Value) -> RawObject {
        let metadata = json!({
            "name": "web", "namespace": "shop", "resourceVersion": "7", "managedFields": [{ "manager": "kubectl" }],
        });
        let object = json!({ "metadata": metadata, "data": data });
        // The API server writes the type first.
        let event = serde_json::from_str(&format!(r#"{{"type":"ADDED","object":{object}}}"#)).unwrap();
        let WatchEvent::Added(raw) = event else { panic!("not an ADDED event") };
        raw
    }

    #[test]
    fn decodes_objects_without_managed_fields() {
        let raw = received(json!({ "a": "b" }));
        assert_eq!(raw.meta().resource_version.as_deref(), Some("7"));
        let read: ConfigMap = raw.decode().ok().unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("web"));
        assert!(read.metadata.managed_fields.is_none());
        assert_eq!(read.data.unwrap()["a"], "b");
    }

    #[test]
    fn decode_error_contains_the_key() {
        let unreadable = received(json!(["no", "map"])).decode::<ConfigMap>().unwrap_err();
        assert_eq!(unreadable.key, ObjectKey::namespaced("shop", "web"));
        assert!(unreadable.error.to_string().contains("map"), "{}", unreadable.error);
    }
}

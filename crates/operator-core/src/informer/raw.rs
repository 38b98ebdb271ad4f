//! Objects as they are sent, so that one watch loop serves all kinds.

use std::borrow::Cow;

use kube::{
    Api, Client, Resource,
    api::{ApiResource, ListParams},
    core::{DynamicResourceScope, ObjectMeta},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::kind::{Kind, ObjectKey};

/// An object as it was sent. Of its metadata, only what a watch needs has been read: which object it is, and its version.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

/// An object that is not what its kind should be.
pub(super) struct Unreadable {
    pub(super) key: ObjectKey,
    pub(super) error: serde_json::Error,
}

impl Raw {
    /// The API of a kind, for objects as they are sent.
    pub(super) fn api<K: Kind>(client: Client, namespace: Option<&str>) -> Api<Self> {
        let resource = ApiResource::erase::<K>(&());
        match namespace {
            Some(namespace) if K::NAMESPACED => Api::namespaced_with(client, namespace, &resource),
            _ => Api::all_with(client, &resource),
        }
    }

    /// The object, without its managed fields, which nobody reads and which take much memory.
    pub(super) fn read<K: Kind>(&self) -> Result<K, Unreadable> {
        let mut object: K =
            serde_json::from_str(self.text.get()).map_err(|error| Unreadable { key: self.key(), error })?;
        object.meta_mut().managed_fields = None;
        Ok(object)
    }

    /// Which object it is.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::of_meta(&self.metadata)
    }
}

/// How many objects are asked for at once.
const PAGE: u32 = 500;

/// Objects of a kind as the API server has them.
#[derive(Debug)]
pub struct Listing<K> {
    /// Those that can be read.
    pub objects: Vec<K>,
    /// The keys of the others.
    pub unreadable: Vec<ObjectKey>,
}

/// Lists all objects of a kind as the API server has them now, page by page.
///
/// # Errors
/// When the API server does not answer, or a page has expired before it was asked for.
pub async fn list_pages<K: Kind>(client: Client, namespace: Option<&str>) -> kube::Result<Listing<K>> {
    let api = Raw::api::<K>(client, namespace);
    let mut listing = Listing { objects: Vec::new(), unreadable: Vec::new() };
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        for object in &page {
            match object.read() {
                Ok(object) => listing.objects.push(object),
                Err(Unreadable { key, .. }) => listing.unreadable.push(key),
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(listing),
        }
    }
}

/// What is read of an object before its kind is.
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

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let head: Head = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let HeadMeta { namespace, name, resource_version } = head.metadata;
        Ok(Self { metadata: ObjectMeta { namespace, name, resource_version, ..ObjectMeta::default() }, text })
    }
}

impl Resource for Raw {
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

    fn sent(data: serde_json::Value) -> Raw {
        let metadata = json!({
            "name": "web", "namespace": "shop", "resourceVersion": "7", "managedFields": [{ "manager": "kubectl" }],
        });
        let object = json!({ "metadata": metadata, "data": data });
        // As the API server writes it: the type comes first.
        let event = serde_json::from_str(&format!(r#"{{"type":"ADDED","object":{object}}}"#)).unwrap();
        let WatchEvent::Added(raw) = event else { panic!("it was added") };
        raw
    }

    #[test]
    fn an_object_is_read_without_its_managed_fields() {
        let raw = sent(json!({ "a": "b" }));
        assert_eq!(raw.meta().resource_version.as_deref(), Some("7"));
        let read: ConfigMap = raw.read().ok().unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("web"));
        assert!(read.metadata.managed_fields.is_none());
        assert_eq!(read.data.unwrap()["a"], "b");
    }

    #[test]
    fn of_an_object_that_cannot_be_read_it_is_known_which_one_it_is() {
        let unreadable = sent(json!(["no", "map"])).read::<ConfigMap>().unwrap_err();
        assert_eq!(unreadable.key, ObjectKey::namespaced("shop", "web"));
        assert!(unreadable.error.to_string().contains("map"), "{}", unreadable.error);
    }
}

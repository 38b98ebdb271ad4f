//! Conversion between the versions of a kind.
//!
//! One version is the hub. Each other version knows how to become it and how to be made from it, so that any two
//! can be converted.

use std::{collections::BTreeMap, marker::PhantomData, panic::AssertUnwindSafe};

use kube::{CustomResourceExt, Resource};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    BoxError,
    endpoint::{Cause, found},
    wire::Header,
};

const KIND: &str = "ConversionReview";
/// The request and the answer are the same in both.
const VERSIONS: [&str; 2] = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];

/// A kind whose versions are converted. Begun by [`Conversion::hub`].
pub struct Conversion {
    /// The group of the kind.
    pub group: String,
    /// The plural of the kind.
    pub plural: String,
    hub: String,
    spokes: BTreeMap<String, Spoke>,
}

type Convert = Box<dyn Fn(Value) -> Result<Value, BoxError> + Send + Sync>;

struct Spoke {
    to_hub: Convert,
    from_hub: Convert,
}

/// A version of a kind that can be converted: a type of a custom resource.
pub trait Version:
    Resource<DynamicType = ()> + CustomResourceExt + DeserializeOwned + Serialize + 'static
{
}

impl<T> Version for T where
    T: Resource<DynamicType = ()> + CustomResourceExt + DeserializeOwned + Serialize + 'static
{
}

/// A conversion that is being declared, with `H` as the hub.
#[must_use = "ends with declare()"]
pub struct Hub<H> {
    conversion: Conversion,
    hub: PhantomData<fn() -> H>,
}

impl Conversion {
    /// Begins a conversion by way of the version `H`; best the one that is stored.
    pub fn hub<H: Version>() -> Hub<H> {
        let conversion = Self {
            group: H::group(&()).into_owned(),
            plural: H::plural(&()).into_owned(),
            hub: H::version(&()).into_owned(),
            spokes: BTreeMap::new(),
        };
        Hub { conversion, hub: PhantomData }
    }

    /// The path that it is served at, by a controller of this name.
    pub fn path(&self, controller: &str) -> String {
        format!("/{controller}/convert/{}", self.plural)
    }

    /// The name of the definition.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl<H: Version> Hub<H> {
    /// Another version of the kind, and both ways between it and the hub. Nothing may be lost on the way to the hub
    /// and back. Of the metadata, only labels and annotations may be changed; other changes are undone.
    pub fn spoke<S: Version, E: Into<BoxError> + 'static>(
        mut self,
        to_hub: fn(S) -> Result<H, E>,
        from_hub: fn(H) -> Result<S, E>,
    ) -> Self {
        let spoke = Spoke { to_hub: typed(to_hub), from_hub: typed(from_hub) };
        self.conversion.spokes.insert(S::version(&()).into_owned(), spoke);
        self
    }

    /// The conversion is complete.
    pub fn declare(self) -> Conversion {
        self.conversion
    }
}

fn typed<A: Version, B: Version, E: Into<BoxError> + 'static>(convert: fn(A) -> Result<B, E>) -> Convert {
    Box::new(move |object| {
        // The parser's own words quote what stands there, and that may be secret.
        let object = serde_json::from_value::<A>(object)
            .map_err(|_| format!("it is not as this version of the manager knows {}", A::version(&())))?;
        Ok(serde_json::to_value(convert(object).map_err(Into::into)?)?)
    })
}

/// A conversion review that was answered.
#[derive(Debug)]
pub struct Converted {
    /// The `ConversionReview` to send back, as JSON.
    pub body: Vec<u8>,
    /// The review's id.
    pub uid: String,
    /// How many objects it was about.
    pub count: usize,
    /// Why nothing was converted, if so.
    pub failed: Option<ConversionFailed>,
}

/// An object cannot be converted.
#[derive(Debug, thiserror::Error)]
#[error("cannot convert {object} to {to}: {cause}")]
pub struct ConversionFailed {
    object: String,
    to: String,
    cause: BoxError,
}

#[derive(Deserialize)]
struct Review {
    request: Option<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Value>,
}

impl Conversion {
    /// Answers a review. Takes as long as the objects are many: not for a thread that others wait for.
    ///
    /// # Errors
    /// When it makes no sense. An object that cannot be converted is an answer.
    pub fn answer(&self, body: &[u8]) -> Result<Converted, Cause> {
        let header: Header = serde_json::from_slice(body).map_err(Cause::malformed(KIND))?;
        if header.kind != KIND || !VERSIONS.contains(&header.api_version.as_str()) {
            return Err(Cause::OtherKind {
                expected: KIND,
                versions: "apiextensions.k8s.io/v1 or v1beta1",
                found: found(&header.kind, &header.api_version),
                advice: "list v1 in conversionReviewVersions of the definition",
            });
        }
        let review: Review = serde_json::from_slice(body).map_err(Cause::malformed(KIND))?;
        let Asked { uid, desired_api_version, objects } = review.request.ok_or(Cause::NoRequest(KIND))?;
        let count = objects.len();
        let converted: Result<Vec<_>, _> =
            objects.into_iter().map(|object| self.convert(object, &desired_api_version)).collect();
        let (result, objects, failed) = match converted {
            Ok(objects) => (json!({ "status": "Success" }), objects, None),
            Err(failed) => {
                (json!({ "status": "Failure", "message": failed.to_string() }), Vec::new(), Some(failed))
            }
        };
        let reply = json!({
            "apiVersion": header.api_version,
            "kind": KIND,
            "response": { "uid": uid, "result": result, "convertedObjects": objects },
        });
        Ok(Converted { body: serde_json::to_vec(&reply).map_err(Cause::Unwritable)?, uid, count, failed })
    }

    /// Converts one object. What is of the wanted version already stays as it is.
    ///
    /// # Errors
    /// When the object is of another kind, a version is unknown, or the converter refuses.
    pub fn convert(&self, object: Value, to: &str) -> Result<Value, ConversionFailed> {
        let described = describe(&object);
        let convert = || self.convert_between(object, to);
        let converted = std::panic::catch_unwind(AssertUnwindSafe(convert));
        converted
            .unwrap_or_else(
                |_| Err("the conversion failed by a bug of the manager; its log says more".into()),
            )
            .map_err(|cause| ConversionFailed { object: described, to: to.to_owned(), cause })
    }

    fn convert_between(&self, object: Value, to: &str) -> Result<Value, BoxError> {
        let from = text(&object, "/apiVersion").to_owned();
        let (from, to_version) = (self.version(&from)?.to_owned(), self.version(to)?);
        if from == to_version {
            return Ok(object);
        }
        let metadata = object.get("metadata").cloned().unwrap_or_default();
        let hub = if from == self.hub { object } else { (self.spoke(&from)?.to_hub)(object)? };
        let mut converted =
            if to_version == self.hub { hub } else { (self.spoke(to_version)?.from_hub)(hub)? };
        settle(&mut converted, metadata, to);
        Ok(converted)
    }

    /// The version within our group.
    fn version<'v>(&self, api_version: &'v str) -> Result<&'v str, BoxError> {
        match api_version.split_once('/') {
            Some((group, version)) if group == self.group => Ok(version),
            _ => Err(format!("{} are not of {}", self.definition(), found("", api_version)).into()),
        }
    }

    fn spoke(&self, version: &str) -> Result<&Spoke, BoxError> {
        self.spokes.get(version).ok_or_else(|| {
            let known: Vec<_> =
                std::iter::once(&self.hub).chain(self.spokes.keys()).map(String::as_str).collect();
            format!(
                "there is no version {} of {}; known are {}",
                found("", version),
                self.definition(),
                known.join(", ")
            )
            .into()
        })
    }
}

/// Puts the metadata back but for labels and annotations, which alone may change, and sets the version.
fn settle(converted: &mut Value, mut metadata: Value, to: &str) {
    for field in ["labels", "annotations"] {
        let new = converted.pointer(&format!("/metadata/{field}")).filter(|new| !new.is_null()).cloned();
        if let Some(fields) = metadata.as_object_mut() {
            match new {
                Some(new) => drop(fields.insert(field.to_owned(), new)),
                None => drop(fields.remove(field)),
            }
        }
    }
    if let Some(fields) = converted.as_object_mut() {
        fields.insert("metadata".to_owned(), metadata);
        fields.insert("apiVersion".to_owned(), to.into());
    }
}

fn describe(object: &Value) -> String {
    let namespace = text(object, "/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    let name = text(object, "/metadata/name");
    format!("{} {namespace}{slash}{name} of {}", text(object, "/kind"), text(object, "/apiVersion"))
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;

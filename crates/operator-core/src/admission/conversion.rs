//! Conversion between the versions of a kind.
//!
//! One version is the hub. Each other version knows how to become it and how to be made from it, so that any two
//! can be converted.

mod answer;

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use answer::{Answer, each};
use kube::{CustomResourceExt, Resource};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{
    BoxError,
    endpoint::{ReviewError, found},
    footprint::Footprint,
    review::{Header, short},
};

const KIND: &str = "ConversionReview";
/// How much of the cause of a failure is repeated in a message.
const LONGEST_CAUSE: usize = 1024;
/// How much of a name is repeated in a message.
const LONGEST_NAME: usize = 253;
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
    pub fn build(self) -> Conversion {
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
pub struct ConversionResponse {
    /// The `ConversionReview` to send back, as JSON.
    pub body: Vec<u8>,
    /// The review's id.
    pub uid: String,
    /// How many objects it was about.
    pub count: usize,
    /// Why nothing was converted, if so.
    pub failed: Option<ConversionError>,
}

/// An object cannot be converted.
#[derive(Debug, thiserror::Error)]
#[error("cannot convert {object} to {to}: {cause}")]
pub struct ConversionError {
    object: String,
    to: String,
    cause: BoxError,
}

/// The most objects of one review.
const MOST_OBJECTS: usize = 20_000;
/// The largest object as JSON: what etcd stores, and some more for older versions, which say the same in more words.
const LARGEST_OBJECT: usize = 2 * 1024 * 1024;
/// How many times an object is held at once, parsed, while it is converted.
const COPIES: usize = 4;
/// What an answer has besides the objects.
const ENVELOPE: usize = 4096;

/// What one review may use.
#[derive(Clone, Debug)]
pub struct ConversionBounds {
    /// The most memory for one object that is being converted, by [`Conversion::memory`].
    pub object: usize,
    /// The largest answer, in bytes.
    pub answer: usize,
    /// When to give up. Looked at between two objects.
    pub deadline: Instant,
    /// Set when nobody waits for the answer any more. Looked at between two objects.
    pub cancelled: Arc<AtomicBool>,
}

#[derive(Deserialize)]
struct Review<'b> {
    #[serde(borrow)]
    request: Option<RequestInfo<'b>>,
}

#[derive(Deserialize)]
struct RequestInfo<'b> {
    #[serde(deserialize_with = "short")]
    uid: String,
    #[serde(rename = "desiredAPIVersion", deserialize_with = "short")]
    desired_api_version: String,
    /// Stays text, so that only one object at a time is in memory.
    #[serde(borrow)]
    objects: &'b RawValue,
}

impl Conversion {
    /// Returns an estimate of the memory that it takes to convert one object, or all objects of a body at once.
    pub fn memory(found: &Footprint) -> usize {
        found.bytes(COPIES)
    }

    /// Answers a review. Takes as long as the objects are many: not for a thread that others wait for.
    ///
    /// # Errors
    /// When it makes no sense. An object that cannot be converted is an answer, and so is a review that needs more
    /// than the bounds allow.
    pub fn answer(&self, body: &[u8], bounds: &ConversionBounds) -> Result<ConversionResponse, ReviewError> {
        let header: Header = serde_json::from_slice(body).map_err(ReviewError::malformed(KIND))?;
        if header.kind != KIND || !VERSIONS.contains(&header.api_version.as_str()) {
            return Err(ReviewError::OtherKind {
                expected: KIND,
                versions: "apiextensions.k8s.io/v1 or v1beta1",
                found: found(&header.kind, &header.api_version),
                advice: "list v1 in conversionReviewVersions of the definition",
            });
        }
        let review: Review<'_> = serde_json::from_slice(body).map_err(ReviewError::malformed(KIND))?;
        let asked = review.request.ok_or(ReviewError::NoRequest(KIND))?;
        let mut answer =
            Answer::begin(&header.api_version, &asked, bounds).map_err(ReviewError::Unwritable)?;
        let read = each(asked.objects, |object| answer.add(self, object));
        let Answer { text, count, failed, .. } = answer;
        let uid = asked.uid;
        if let Some(failed) = failed {
            let reply = json!({
                "apiVersion": header.api_version,
                "kind": KIND,
                "response": { "uid": uid, "result": { "status": "Failure", "message": failed.to_string() } },
            });
            let body = serde_json::to_vec(&reply).map_err(ReviewError::Unwritable)?;
            return Ok(ConversionResponse { body, uid, count, failed: Some(failed) });
        }
        read.map_err(ReviewError::malformed(KIND))?;
        let mut body = text.bytes;
        body.extend_from_slice(br#"],"result":{"status":"Success"}}}"#);
        Ok(ConversionResponse { body, uid, count, failed: None })
    }

    /// Converts one object. What is of the wanted version already stays as it is.
    ///
    /// # Errors
    /// When the object is of another kind, a version is unknown, or the converter refuses.
    pub fn convert(&self, object: Value, to: &str) -> Result<Value, ConversionError> {
        let described = describe(&object);
        let convert = || self.convert_between(object, to);
        let converted = std::panic::catch_unwind(AssertUnwindSafe(convert));
        converted
            .unwrap_or_else(
                |_| Err("the conversion failed by a bug of the manager; its log says more".into()),
            )
            .map_err(|cause| ConversionError { object: described, to: to.to_owned(), cause: shorten(cause) })
    }

    fn convert_between(&self, mut object: Value, to: &str) -> Result<Value, BoxError> {
        let from = text(&object, "/apiVersion").to_owned();
        let (from, to_version) = (self.version(&from)?.to_owned(), self.version(to)?);
        if from == to_version {
            return Ok(object);
        }
        let metadata = take_metadata(&mut object);
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

/// Takes the metadata out of an object, but for what conversions look at.
fn take_metadata(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        let looked_at = ["name", "namespace", "uid", "labels", "annotations"];
        let some =
            looked_at.iter().filter_map(|name| Some(((*name).to_owned(), metadata.get(*name)?.clone())));
        fields.insert("metadata".to_owned(), Value::Object(some.collect()));
    }
    metadata
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

/// A cause may quote what stands in the object; it is logged, and sent back.
fn shorten(cause: BoxError) -> BoxError {
    let text = cause.to_string();
    if text.len() <= LONGEST_CAUSE {
        return cause;
    }
    format!("{} ...", text.chars().take(LONGEST_CAUSE).collect::<String>()).into()
}

fn describe(object: &Value) -> String {
    let short = |pointer| text(object, pointer).chars().take(LONGEST_NAME).collect::<String>();
    let (namespace, name) = (short("/metadata/namespace"), short("/metadata/name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{name} of {}", short("/kind"), short("/apiVersion"))
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;

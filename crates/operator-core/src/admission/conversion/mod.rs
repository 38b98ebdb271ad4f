//! Conversion between the versions of a kind.
//!
//! One version is the hub. Every other version is a spoke with conversions to and from the hub, so
//! any two versions can be converted.

mod response;

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use kube::{CustomResourceExt, Resource};
use response::{ResponseWriter, for_each_object};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{
    BoxError,
    error::{ReviewError, describe_kind},
    memory_estimate::MemoryEstimate,
    review::{Header, short_string},
};

const KIND: &str = "ConversionReview";
/// Maximum number of characters of a cause in a message.
const MAX_CAUSE_CHARS: usize = 1024;
/// Maximum number of characters of a name in a message.
const MAX_NAME_CHARS: usize = 253;
/// Versions of the review. Request and response are the same in both.
const VERSIONS: [&str; 2] = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];

/// Conversions between the versions of a kind. Built with [`Conversion::hub`].
pub struct Conversion {
    /// Group of the kind.
    pub group: String,
    /// Plural of the kind.
    pub plural: String,
    hub: String,
    spokes: BTreeMap<String, Spoke>,
}

type Convert = Box<dyn Fn(Value) -> Result<Value, BoxError> + Send + Sync>;

struct Spoke {
    to_hub: Convert,
    from_hub: Convert,
}

/// A version of a kind that can be converted: a derived custom resource.
pub trait Version:
    Resource<DynamicType = ()> + CustomResourceExt + DeserializeOwned + Serialize + 'static
{
}

impl<T> Version for T where
    T: Resource<DynamicType = ()> + CustomResourceExt + DeserializeOwned + Serialize + 'static
{
}

/// Builder of a [`Conversion`] with `H` as the hub.
#[must_use = "ends with build()"]
pub struct ConversionBuilder<H> {
    conversion: Conversion,
    hub: PhantomData<fn() -> H>,
}

impl Conversion {
    /// Starts a conversion with the version `H` as the hub. Prefer the stored version.
    pub fn hub<H: Version>() -> ConversionBuilder<H> {
        let conversion = Self {
            group: H::group(&()).into_owned(),
            plural: H::plural(&()).into_owned(),
            hub: H::version(&()).into_owned(),
            spokes: BTreeMap::new(),
        };
        ConversionBuilder { conversion, hub: PhantomData }
    }

    /// Returns the path of the conversion for a controller with this name.
    pub fn path(&self, controller: &str) -> String {
        format!("/{controller}/convert/{}", self.plural)
    }

    /// Returns the name of the CRD.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl<H: Version> ConversionBuilder<H> {
    /// Adds a version with conversions to and from the hub.
    ///
    /// A round trip must not lose data. Conversions can change labels and annotations, but no other
    /// metadata; such changes are reverted.
    pub fn spoke<S: Version, E: Into<BoxError> + 'static>(
        mut self,
        to_hub: fn(S) -> Result<H, E>,
        from_hub: fn(H) -> Result<S, E>,
    ) -> Self {
        let spoke = Spoke { to_hub: typed(to_hub), from_hub: typed(from_hub) };
        self.conversion.spokes.insert(S::version(&()).into_owned(), spoke);
        self
    }

    /// Returns the conversion.
    pub fn build(self) -> Conversion {
        self.conversion
    }
}

fn typed<A: Version, B: Version, E: Into<BoxError> + 'static>(convert: fn(A) -> Result<B, E>) -> Convert {
    Box::new(move |object| {
        // The message of the parser quotes the value, which can be secret.
        let object = serde_json::from_value::<A>(object)
            .map_err(|_| format!("it does not match the schema of {}", A::version(&())))?;
        Ok(serde_json::to_value(convert(object).map_err(Into::into)?)?)
    })
}

/// Response to a conversion review.
#[derive(Debug)]
pub struct ConversionResponse {
    /// The `ConversionReview` as JSON.
    pub body: Vec<u8>,
    /// UID of the review.
    pub uid: String,
    /// Number of objects in the review.
    pub count: usize,
    /// Why the conversion failed, if it failed. Then no object was converted.
    pub failed: Option<ConversionError>,
}

/// Error of an object that cannot be converted.
#[derive(Debug, thiserror::Error)]
#[error("cannot convert {object} to {to}: {cause}")]
pub struct ConversionError {
    object: String,
    to: String,
    cause: BoxError,
}

/// Maximum number of objects of a review.
const MAX_OBJECTS: usize = 20_000;
/// Maximum size of an object as JSON: the limit of etcd, with a reserve for older versions that are
/// more verbose.
const MAX_OBJECT_BYTES: usize = 2 * 1024 * 1024;
/// Number of parsed copies of an object during its conversion.
const COPIES: usize = 4;
/// Bytes of a response besides the objects.
const ENVELOPE_BYTES: usize = 4096;

/// Limits of one review.
#[derive(Clone, Debug)]
pub struct ConversionLimits {
    /// Maximum memory of one object during its conversion, by [`Conversion::memory`].
    pub object: usize,
    /// Maximum size of the response in bytes.
    pub response: usize,
    /// Deadline, checked between objects.
    pub deadline: Instant,
    /// Set if the client disconnected. Checked between objects.
    pub cancelled: Arc<AtomicBool>,
}

#[derive(Deserialize)]
struct Review<'b> {
    #[serde(borrow)]
    request: Option<ConversionRequest<'b>>,
}

#[derive(Deserialize)]
struct ConversionRequest<'b> {
    #[serde(deserialize_with = "short_string")]
    uid: String,
    #[serde(rename = "desiredAPIVersion", deserialize_with = "short_string")]
    desired_api_version: String,
    /// Not decoded at once, so that only one object at a time is in memory.
    #[serde(borrow)]
    objects: &'b RawValue,
}

impl Conversion {
    /// Returns the estimated memory that the conversion of one object needs, or of all objects of a
    /// body at once.
    pub fn memory(estimate: &MemoryEstimate) -> usize {
        estimate.bytes(COPIES)
    }

    /// Converts the objects of a review. CPU bound: run it on a blocking thread.
    ///
    /// # Errors
    /// Returns an error if the body is no valid review. If an object cannot be converted, or if the
    /// review exceeds the limits, the response reports the failure.
    pub fn answer(&self, body: &[u8], limits: &ConversionLimits) -> Result<ConversionResponse, ReviewError> {
        let header: Header = serde_json::from_slice(body).map_err(ReviewError::malformed(KIND))?;
        if header.kind != KIND || !VERSIONS.contains(&header.api_version.as_str()) {
            return Err(ReviewError::UnexpectedKind {
                expected: KIND,
                versions: "apiextensions.k8s.io/v1 or v1beta1",
                found: describe_kind(&header.kind, &header.api_version),
                advice: "list v1 in conversionReviewVersions of the definition",
            });
        }
        let review: Review<'_> = serde_json::from_slice(body).map_err(ReviewError::malformed(KIND))?;
        let request = review.request.ok_or(ReviewError::NoRequest(KIND))?;
        let mut writer =
            ResponseWriter::new(&header.api_version, &request, limits).map_err(ReviewError::Encode)?;
        let read = for_each_object(request.objects, |object| writer.add(self, object));
        let ResponseWriter { buffer, count, failed, .. } = writer;
        let uid = request.uid;
        if let Some(failed) = failed {
            let response = json!({
                "apiVersion": header.api_version,
                "kind": KIND,
                "response": { "uid": uid, "result": { "status": "Failure", "message": failed.to_string() } },
            });
            let body = serde_json::to_vec(&response).map_err(ReviewError::Encode)?;
            return Ok(ConversionResponse { body, uid, count, failed: Some(failed) });
        }
        read.map_err(ReviewError::malformed(KIND))?;
        let mut body = buffer.bytes;
        body.extend_from_slice(br#"],"result":{"status":"Success"}}}"#);
        Ok(ConversionResponse { body, uid, count, failed: None })
    }

    /// Converts one object. Returns it unchanged if it already has the version.
    ///
    /// # Errors
    /// Returns an error if the object has another kind, a version is unknown, or the conversion
    /// fails.
    pub fn convert(&self, object: Value, to: &str) -> Result<Value, ConversionError> {
        let described = describe(&object);
        let convert = || self.convert_between(object, to);
        let converted = std::panic::catch_unwind(AssertUnwindSafe(convert));
        converted
            .unwrap_or_else(|_| {
                Err("the conversion panicked, a bug of the manager; see its log for details".into())
            })
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
        restore_metadata(&mut converted, metadata, to);
        Ok(converted)
    }

    /// Returns the version of an `apiVersion` in the group of the kind.
    fn version<'v>(&self, api_version: &'v str) -> Result<&'v str, BoxError> {
        match api_version.split_once('/') {
            Some((group, version)) if group == self.group => Ok(version),
            _ => {
                Err(format!("{} does not belong to {}", describe_kind("", api_version), self.definition())
                    .into())
            }
        }
    }

    fn spoke(&self, version: &str) -> Result<&Spoke, BoxError> {
        self.spokes.get(version).ok_or_else(|| {
            let known: Vec<_> =
                std::iter::once(&self.hub).chain(self.spokes.keys()).map(String::as_str).collect();
            format!(
                "{} of {} is unknown; known versions are {}",
                describe_kind("", version),
                self.definition(),
                known.join(", ")
            )
            .into()
        })
    }
}

/// Takes the metadata from an object. Leaves the fields that conversions read.
fn take_metadata(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        let kept = ["name", "namespace", "uid", "labels", "annotations"];
        let kept = kept.iter().filter_map(|name| Some(((*name).to_owned(), metadata.get(*name)?.clone())));
        fields.insert("metadata".to_owned(), Value::Object(kept.collect()));
    }
    metadata
}

/// Restores the metadata except labels and annotations, which conversions can change. Sets the
/// version.
fn restore_metadata(converted: &mut Value, mut metadata: Value, to: &str) {
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

/// Truncates a cause, which can quote the object. It is logged and returned.
fn shorten(cause: BoxError) -> BoxError {
    let text = cause.to_string();
    if text.len() <= MAX_CAUSE_CHARS {
        return cause;
    }
    format!("{} ...", text.chars().take(MAX_CAUSE_CHARS).collect::<String>()).into()
}

fn describe(object: &Value) -> String {
    let short = |pointer| text(object, pointer).chars().take(MAX_NAME_CHARS).collect::<String>();
    let (namespace, name) = (short("/metadata/namespace"), short("/metadata/name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{name} of {}", short("/kind"), short("/apiVersion"))
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;

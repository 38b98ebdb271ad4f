//! Response to a conversion review, written while its objects are read one by one.

use std::{
    fmt,
    io::{self, Write},
    sync::atomic::Ordering,
    time::Instant,
};

use serde::{
    Deserializer, Serialize,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    BoxError, Conversion, ConversionError, ConversionLimits, ConversionRequest, ENVELOPE_BYTES, Header, KIND,
    MAX_OBJECT_BYTES, MAX_OBJECTS, MemoryEstimate,
};

/// Writes the response. The objects precede the result, which is known last.
pub(super) struct ResponseWriter<'r> {
    pub(super) buffer: BoundedBuffer,
    pub(super) count: usize,
    pub(super) failed: Option<ConversionError>,
    to: &'r str,
    limits: &'r ConversionLimits,
}

impl<'r> ResponseWriter<'r> {
    pub(super) fn new(
        api_version: &str,
        request: &'r ConversionRequest<'_>,
        limits: &'r ConversionLimits,
    ) -> serde_json::Result<Self> {
        // Allocated once: growing would hold two copies. Pages that are not written use no memory.
        let capacity = limits.response.min(request.objects.get().len() * 2) + ENVELOPE_BYTES;
        let limit = limits.response.saturating_add(ENVELOPE_BYTES);
        let mut buffer = BoundedBuffer { bytes: Vec::with_capacity(capacity), limit };
        let mut field = |name: &str, value: &str| {
            buffer.bytes.extend_from_slice(name.as_bytes());
            serde_json::to_writer(&mut buffer, value)
        };
        field(r#"{"apiVersion":"#, api_version)?;
        field(r#","kind":"#, KIND)?;
        field(r#","response":{"uid":"#, &request.uid)?;
        buffer.bytes.extend_from_slice(br#","convertedObjects":["#);
        Ok(Self { buffer, count: 0, failed: None, to: &request.desired_api_version, limits })
    }

    /// Converts an object and writes it. Returns whether to continue.
    pub(super) fn add(&mut self, conversion: &Conversion, object: &RawValue) -> bool {
        let added = self.try_add(conversion, object);
        self.count += 1;
        self.failed = added.err();
        self.failed.is_none()
    }

    fn try_add(&mut self, conversion: &Conversion, object: &RawValue) -> Result<(), ConversionError> {
        let (to, number) = (self.to, self.count);
        let failed = |cause: BoxError| ConversionError {
            object: format!("object {number} of the review"),
            to: to.to_owned(),
            cause,
        };
        self.check(object).map_err(failed)?;
        if number > 0 {
            self.buffer.write_all(b",").map_err(|error| failed(error.into()))?;
        }
        let header: Option<Header> = serde_json::from_str(object.get()).ok();
        if header.is_some_and(|header| header.api_version == to) && conversion.version(to).is_ok() {
            return self.buffer.write_all(object.get().as_bytes()).map_err(|error| failed(error.into()));
        }
        let object = serde_json::from_str(object.get()).map_err(|error| failed(error.into()))?;
        let converted = conversion.convert(object, to)?;
        converted
            .serialize(&mut serde_json::Serializer::new(&mut self.buffer))
            .map_err(|error| failed(io::Error::from(error).into()))
    }

    fn check(&self, object: &RawValue) -> Result<(), BoxError> {
        let length = object.get().len();
        if self.count >= MAX_OBJECTS {
            return Err(format!(
                "a review can have at most {MAX_OBJECTS} objects; list fewer objects at once"
            )
            .into());
        }
        if length > MAX_OBJECT_BYTES {
            return Err(format!("it has {length} bytes, but at most {MAX_OBJECT_BYTES} are allowed").into());
        }
        let needed = Conversion::memory(&MemoryEstimate::of(object.get().as_bytes())?);
        if needed > self.limits.object {
            return Err(format!("it has too many values and would need {needed} bytes of memory").into());
        }
        if Instant::now() >= self.limits.deadline {
            return Err("the review exceeded its deadline; list fewer objects at once".into());
        }
        if self.limits.cancelled.load(Ordering::Relaxed) {
            return Err("the client disconnected".into());
        }
        Ok(())
    }
}

/// A buffer that does not grow beyond a limit.
pub(super) struct BoundedBuffer {
    pub(super) bytes: Vec<u8>,
    limit: usize,
}

impl Write for BoundedBuffer {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.limit {
            let limit = self.limit;
            return Err(io::Error::other(format!(
                "the response would exceed {limit} bytes; list fewer objects at once"
            )));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls `add` with the text of each item of a list, until it returns false. That returns an error.
pub(super) fn for_each_object(list: &RawValue, add: impl FnMut(&RawValue) -> bool) -> serde_json::Result<()> {
    // The parser quotes a string in the wrong place, however long it is.
    if !list.get().starts_with('[') {
        return Err(serde_json::Error::custom("objects is not a list"));
    }
    serde_json::Deserializer::from_str(list.get()).deserialize_seq(ForEach(add))
}

struct ForEach<F>(F);

impl<'b, F: FnMut(&RawValue) -> bool> Visitor<'b> for ForEach<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'b>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            if !(self.0)(item) {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

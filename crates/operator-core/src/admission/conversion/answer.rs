//! The answer to a conversion review, written while its objects are read one by one.

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
    BoxError, Conversion, ConversionBounds, ConversionError, ENVELOPE, Footprint, Header, KIND,
    LARGEST_OBJECT, MOST_OBJECTS, RequestInfo,
};

/// The answer so far. The objects come before the result, which is known last.
pub(super) struct Answer<'r> {
    pub(super) text: Text,
    pub(super) count: usize,
    pub(super) failed: Option<ConversionError>,
    to: &'r str,
    bounds: &'r ConversionBounds,
}

impl<'r> Answer<'r> {
    pub(super) fn begin(
        api_version: &str,
        asked: &'r RequestInfo<'_>,
        bounds: &'r ConversionBounds,
    ) -> serde_json::Result<Self> {
        // Set apart once: growing would hold the answer twice. Memory that is not written to is not used.
        let capacity = bounds.answer.min(asked.objects.get().len() * 2) + ENVELOPE;
        let mut text =
            Text { bytes: Vec::with_capacity(capacity), limit: bounds.answer.saturating_add(ENVELOPE) };
        let mut field = |name: &str, value: &str| {
            text.bytes.extend_from_slice(name.as_bytes());
            serde_json::to_writer(&mut text, value)
        };
        field(r#"{"apiVersion":"#, api_version)?;
        field(r#","kind":"#, KIND)?;
        field(r#","response":{"uid":"#, &asked.uid)?;
        text.bytes.extend_from_slice(br#","convertedObjects":["#);
        Ok(Self { text, count: 0, failed: None, to: &asked.desired_api_version, bounds })
    }

    /// Converts an object and adds it. Returns whether to go on.
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
            self.text.write_all(b",").map_err(|error| failed(error.into()))?;
        }
        let header: Option<Header> = serde_json::from_str(object.get()).ok();
        if header.is_some_and(|header| header.api_version == to) && conversion.version(to).is_ok() {
            return self.text.write_all(object.get().as_bytes()).map_err(|error| failed(error.into()));
        }
        let object = serde_json::from_str(object.get()).map_err(|error| failed(error.into()))?;
        let converted = conversion.convert(object, to)?;
        converted
            .serialize(&mut serde_json::Serializer::new(&mut self.text))
            .map_err(|error| failed(io::Error::from(error).into()))
    }

    fn check(&self, object: &RawValue) -> Result<(), BoxError> {
        let length = object.get().len();
        if self.count >= MOST_OBJECTS {
            return Err(
                format!("a review may have at most {MOST_OBJECTS} objects; list fewer at once").into()
            );
        }
        if length > LARGEST_OBJECT {
            return Err(format!("it has {length} bytes, and may have at most {LARGEST_OBJECT}").into());
        }
        let needed = Conversion::memory(&Footprint::of(object.get().as_bytes())?);
        if needed > self.bounds.object {
            return Err(format!("it holds too many values: it would take {needed} bytes of memory").into());
        }
        if Instant::now() >= self.bounds.deadline {
            return Err("the review takes too long; list fewer objects at once".into());
        }
        if self.bounds.cancelled.load(Ordering::Relaxed) {
            return Err("nobody waits for the answer any more".into());
        }
        Ok(())
    }
}

/// Text that does not grow beyond a limit.
pub(super) struct Text {
    pub(super) bytes: Vec<u8>,
    limit: usize,
}

impl Write for Text {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.limit {
            let limit = self.limit;
            return Err(io::Error::other(format!(
                "the answer would have more than {limit} bytes; list fewer objects at once"
            )));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls `add` with each item of a list, as text, until it returns false: that ends the reading with an error.
pub(super) fn each(list: &RawValue, add: impl FnMut(&RawValue) -> bool) -> serde_json::Result<()> {
    // The parser would quote a string, however long it is.
    if !list.get().starts_with('[') {
        return Err(serde_json::Error::custom("the objects are no list"));
    }
    serde_json::Deserializer::from_str(list.get()).deserialize_seq(Each(add))
}

struct Each<F>(F);

impl<'b, F: FnMut(&RawValue) -> bool> Visitor<'b> for Each<F> {
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

//! Conversion between the versions of the Tenant. Pure.
//!
//! `v1beta2` is the storage version. Each older version has the functions `up` and `down`, which
//! convert the fields that both versions have. `v1alpha1` converts by way of `v1beta1`.
//!
//! Conversion is lossless: after each conversion, the result is converted back, and the fields
//! that were lost are preserved in an annotation. `conversion.ensemble/v1beta2` on a Tenant of an
//! older version contains the fields that only `v1beta2` has. `conversion.ensemble/v1alpha1` on the
//! stored Tenant contains the fields that the old version represents in another form. If an edit
//! changes a preserved field, the edit wins.

mod annotations;
mod convertible;
mod lossless;
mod v1alpha1;
mod v1beta1;

use capsule::api::{self, v1beta2::Tenant};
use operator_core::admission::{Conversion, MemoryEstimate, Version};

use self::annotations::check_entries;
use self::convertible::{Convertible, convertible_parts, transform};

/// Prefix of the annotations with preserved fields. The version of the fields follows.
const PRESERVED_PREFIX: &str = "conversion.ensemble/";
/// Maximum memory for one parsed annotation. The annotations of an object have at most 256 KiB in
/// total, so a valid annotation needs less.
const MAX_PRESERVED_BYTES: usize = 16 * 1024 * 1024;

/// Error of a conversion.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// An annotation has an invalid value.
    #[error("metadata.annotations[{key}]: {value:?} is not {expected}")]
    Annotation {
        /// The key of the annotation.
        key: String,
        /// Its value.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
    /// Preserved fields cannot be restored.
    #[error(
        "cannot restore the fields in metadata.annotations[{key}]: they are not valid in the Tenant; remove it"
    )]
    Incompatible {
        /// The key of the annotation.
        key: String,
        /// The error of the restored Tenant.
        source: serde_json::Error,
    },
    /// The lists in the annotations have too many entries.
    #[error("metadata.annotations[{key}]: the annotations list more than {limit} entries; list fewer")]
    TooManyEntries {
        /// The key of the annotation that exceeds the limit.
        key: String,
        /// The maximum number of entries in all annotations.
        limit: usize,
    },
    /// Preserved fields need too much memory.
    #[error("cannot restore the fields in metadata.annotations[{key}]: it is too large; remove it")]
    TooLarge {
        /// The key of the annotation.
        key: String,
    },
    /// A Tenant cannot be serialized.
    #[error("cannot serialize the Tenant as JSON")]
    Serialize(#[source] serde_json::Error),
}

/// Returns the conversion webhook of the Tenant.
pub(crate) fn conversion() -> Conversion {
    Conversion::hub::<Tenant>()
        .spoke::<api::v1beta1::Tenant, _>(from_v1beta1, to_v1beta1)
        .spoke::<api::v1alpha1::Tenant, _>(from_v1alpha1, to_v1alpha1)
        .build()
}

/// Converts a Tenant from `v1beta1` to the storage version.
///
/// # Errors
/// Returns an error if the annotation with preserved fields is invalid.
pub fn from_v1beta1(old: api::v1beta1::Tenant) -> Result<Tenant, ConversionError> {
    check_entries(&old)?;
    convert(old, |old| Ok(v1beta1::up(old)), |new| Ok(v1beta1::down(new)))
}

/// Converts a Tenant from the storage version to `v1beta1`.
///
/// # Errors
/// Returns an error if the annotation with preserved fields is invalid.
pub fn to_v1beta1(new: Tenant) -> Result<api::v1beta1::Tenant, ConversionError> {
    convert(new, |new| Ok(v1beta1::down(new)), |old| Ok(v1beta1::up(old)))
}

/// Converts a Tenant from `v1alpha1` to the storage version.
///
/// # Errors
/// Returns an error if an annotation has an invalid value.
pub fn from_v1alpha1(old: api::v1alpha1::Tenant) -> Result<Tenant, ConversionError> {
    check_entries(&old)?;
    convert(old, v1alpha1::up, |new| Ok(v1alpha1::down(new)))
}

/// Converts a Tenant from the storage version to `v1alpha1`.
///
/// # Errors
/// Returns an error if the annotation with preserved fields is invalid.
pub fn to_v1alpha1(new: Tenant) -> Result<api::v1alpha1::Tenant, ConversionError> {
    convert(new, |new| Ok(v1alpha1::down(new)), v1alpha1::up)
}

/// Converts `from` to version `B`. Restores the fields that were preserved for `B`, and preserves
/// the fields of `A` that `B` does not have.
fn convert<A: Convertible, B: Convertible>(
    mut from: A,
    convert_to: impl Fn(A) -> Result<B, ConversionError>,
    convert_back: impl Fn(B) -> Result<A, ConversionError>,
) -> Result<B, ConversionError> {
    let preserved = take_preserved(&mut from, &key_for::<B>())?;
    let original = convertible_parts(&from).map_err(ConversionError::Serialize)?;
    let mut to = convert_to(from)?;
    if let Some(preserved) = preserved {
        to = transform(&to, |parts| preserved.restore(parts))
            .map_err(|source| ConversionError::Incompatible { key: key_for::<B>(), source })?;
    }
    let round_trip = convertible_parts(&convert_back(to.clone())?).map_err(ConversionError::Serialize)?;
    if let Some(lost) = lossless::Preserved::between(&round_trip, &original) {
        let text = serde_json::to_string(&lost).map_err(ConversionError::Serialize)?;
        to.annotations_mut().insert(key_for::<A>(), text);
    }
    Ok(to)
}

fn key_for<V: Version>() -> String {
    format!("{PRESERVED_PREFIX}{}", V::version(&()))
}

/// Removes the annotation with preserved fields and parses it. An annotation that cannot be parsed
/// was written by another program, and stays.
fn take_preserved<A: Convertible>(
    object: &mut A,
    key: &str,
) -> Result<Option<lossless::Preserved>, ConversionError> {
    let Some(text) = object.annotations().get(key) else { return Ok(None) };
    // The annotation contains JSON as text, so the size limit of the request does not cover its
    // parsed size.
    if !MemoryEstimate::of(text.as_bytes()).is_ok_and(|found| found.bytes(1) <= MAX_PRESERVED_BYTES) {
        return Err(ConversionError::TooLarge { key: key.to_owned() });
    }
    let Ok(preserved) = serde_json::from_str(text) else { return Ok(None) };
    object.annotations_mut().remove(key);
    Ok(Some(preserved))
}

#[cfg(test)]
mod tests;

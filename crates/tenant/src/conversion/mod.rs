//! Conversion between the versions of the Tenant. Pure.
//!
//! `v1beta2` is stored. Each older version has two functions, `up` and `down`, that say in one version what the other
//! says, as far as it can; [`v1alpha1`] goes by way of [`v1beta1`].
//!
//! What is lost on the way is found by going back, and [`kept`] in one annotation on the other side:
//! `conversion.ensemble/v1beta2` on a Tenant of an older version holds what only `v1beta2` can say, and
//! `conversion.ensemble/v1alpha1` on the stored Tenant holds what was said in other words than would be used today.
//! So nothing is lost in either direction. An edit wins over what was kept where both speak of the same field.

mod convertible;
mod features;
mod lossless;
mod v1alpha1;
mod v1beta1;

use operator_core::admission::{Conversion, Footprint, Version};

use self::convertible::{Convertible, change, convertible_parts};
use self::features::check_entries;
use crate::api::{self, v1beta2::Tenant};

/// Begins the keys of the annotations that keep what a version cannot say; the version whose words they are follows.
const KEPT_PREFIX: &str = "conversion.ensemble/";
/// The most memory that is parsed out of one such annotation. All annotations of an object together have at most
/// 256 KiB of text, so what was really kept takes less.
const LARGEST_KEPT: usize = 16 * 1024 * 1024;

/// Why a Tenant cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// An annotation that means something has a value that does not.
    #[error("metadata.annotations[{key}]: {value:?} is not {expected}")]
    Annotation {
        /// The key of the annotation.
        key: String,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// What was kept cannot be put back.
    #[error("metadata.annotations[{key}] does not fit the rest of the Tenant; remove it")]
    Unfit {
        /// The key of the annotation.
        key: String,
        /// What became of the Tenant with it.
        source: serde_json::Error,
    },
    /// The lists in the annotations have too many entries.
    #[error("metadata.annotations[{key}]: the annotations list more than {limit} entries; list fewer")]
    TooManyEntries {
        /// The key of the annotation with which the limit is exceeded.
        key: String,
        /// How many entries all annotations may have together.
        limit: usize,
    },
    /// What was kept takes more memory than a conversion may.
    #[error("metadata.annotations[{key}] holds more than can be put back; remove it")]
    TooLarge {
        /// The key of the annotation.
        key: String,
    },
    /// A Tenant cannot be written as JSON.
    #[error("the Tenant cannot be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}

/// The conversion that the controller serves.
pub(crate) fn conversion() -> Conversion {
    Conversion::hub::<Tenant>()
        .spoke::<api::v1beta1::Tenant, _>(from_v1beta1, to_v1beta1)
        .spoke::<api::v1alpha1::Tenant, _>(from_v1alpha1, to_v1alpha1)
        .build()
}

/// A Tenant of `v1beta1` as it is stored.
///
/// # Errors
/// When what was kept of `v1beta2` was tampered with.
pub fn from_v1beta1(old: api::v1beta1::Tenant) -> Result<Tenant, ConversionError> {
    check_entries(&old)?;
    convert(old, |old| Ok(v1beta1::up(old)), |new| Ok(v1beta1::down(new)))
}

/// A stored Tenant in `v1beta1`.
///
/// # Errors
/// When what was kept of the older version was tampered with.
pub fn to_v1beta1(new: Tenant) -> Result<api::v1beta1::Tenant, ConversionError> {
    convert(new, |new| Ok(v1beta1::down(new)), |old| Ok(v1beta1::up(old)))
}

/// A Tenant of `v1alpha1` as it is stored.
///
/// # Errors
/// When an annotation that means something makes no sense.
pub fn from_v1alpha1(old: api::v1alpha1::Tenant) -> Result<Tenant, ConversionError> {
    check_entries(&old)?;
    convert(old, v1alpha1::up, |new| Ok(v1alpha1::down(new)))
}

/// A stored Tenant in `v1alpha1`.
///
/// # Errors
/// When what was kept of the older version was tampered with.
pub fn to_v1alpha1(new: Tenant) -> Result<api::v1alpha1::Tenant, ConversionError> {
    convert(new, |new| Ok(v1alpha1::down(new)), v1alpha1::up)
}

/// Says `from` as a `B`, with what was kept for that, and keeps what was lost.
fn convert<A: Convertible, B: Convertible>(
    mut from: A,
    there: impl Fn(A) -> Result<B, ConversionError>,
    back: impl Fn(B) -> Result<A, ConversionError>,
) -> Result<B, ConversionError> {
    let kept_here = take_kept(&mut from, &key_for::<B>())?;
    let meant = convertible_parts(&from).map_err(ConversionError::Unwritable)?;
    let mut to = there(from)?;
    if let Some(kept) = kept_here {
        to = change(&to, |words| kept.restore(words))
            .map_err(|source| ConversionError::Unfit { key: key_for::<B>(), source })?;
    }
    let understood = convertible_parts(&back(to.clone())?).map_err(ConversionError::Unwritable)?;
    if let Some(lost) = lossless::Preserved::between(&understood, &meant) {
        let text = serde_json::to_string(&lost).map_err(ConversionError::Unwritable)?;
        to.annotations_mut().insert(key_for::<A>(), text);
    }
    Ok(to)
}

fn key_for<V: Version>() -> String {
    format!("{KEPT_PREFIX}{}", V::version(&()))
}

/// Takes out what was kept. What cannot be read was not written by us, and stays.
fn take_kept<A: Convertible>(
    object: &mut A,
    key: &str,
) -> Result<Option<lossless::Preserved>, ConversionError> {
    let Some(text) = object.annotations().get(key) else { return Ok(None) };
    // JSON within a text: the bounds of the object that it is in do not see what it parses into.
    if !Footprint::of(text.as_bytes()).is_ok_and(|found| found.bytes(1) <= LARGEST_KEPT) {
        return Err(ConversionError::TooLarge { key: key.to_owned() });
    }
    let Ok(kept) = serde_json::from_str(text) else { return Ok(None) };
    object.annotations_mut().remove(key);
    Ok(Some(kept))
}

#[cfg(test)]
mod tests;

//! Forbidden keys of labels and annotations.

use std::collections::BTreeMap;

use capsule::name_filter::NameFilter;

type Entries = BTreeMap<String, String>;

/// Returns a forbidden key that a request adds, or whose value it changes. Removing one is free, and
/// so is the value in `own`, which the Tenant itself sets.
pub(crate) fn forbidden_key<'n>(
    forbidden: &NameFilter,
    old: Option<&Entries>,
    new: Option<&'n Entries>,
    own: &Entries,
) -> Option<&'n str> {
    let is_set = |key: &String, value: &String| old.and_then(|old| old.get(key)) != Some(value);
    let set =
        new.into_iter().flatten().filter(|(key, value)| is_set(key, value) && own.get(*key) != Some(value));
    set.map(|(key, _)| key.as_str()).find(|key| forbidden.matches(key))
}

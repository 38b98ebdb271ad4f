//! Limits of one rendering.

use std::{
    cell::Cell,
    fmt,
    time::{Duration, Instant},
};

use gotmpl::Value;

/// Limit of the output in bytes.
pub(crate) const MAX_OUTPUT: usize = 1024 * 1024;
/// Limit of the documents in the output.
pub(crate) const MAX_DOCUMENTS: usize = 256;

thread_local! {
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Time limit of the rendering on this thread. Functions have no other way to learn it.
pub(super) struct Deadline(());

impl Deadline {
    /// Starts the time limit.
    pub(super) fn start(limit: Duration) -> Self {
        END.set(Instant::now().checked_add(limit));
        Self(())
    }

    /// Returns whether the time is over.
    #[allow(clippy::unused_self, reason = "the deadline exists only while it is started")]
    pub(super) fn is_over(&self) -> bool {
        is_over()
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        END.set(None);
    }
}

/// Returns whether the time of the rendering on this thread is over.
pub(super) fn is_over() -> bool {
    END.get().is_some_and(|end| Instant::now() >= end)
}

/// A text that accepts at most [`MAX_OUTPUT`] bytes, and nothing after the deadline.
#[derive(Debug, Default)]
pub(super) struct BoundedText {
    text: String,
    is_full: bool,
}

impl BoundedText {
    /// Returns whether a write exceeded the limit.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > MAX_OUTPUT {
            self.is_full = true;
            return Err(fmt::Error);
        }
        if is_over() {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Returns whether a value has at most [`MAX_OUTPUT`] bytes and elements. Values share their parts,
/// so the elements are counted as often as they are reached, and counting stops at the limit.
pub(super) fn fits<'v>(values: impl IntoIterator<Item = &'v Value>) -> bool {
    let mut left = MAX_OUTPUT;
    values.into_iter().all(|value| take(value, &mut left))
}

fn take(value: &Value, left: &mut usize) -> bool {
    let size = match value {
        Value::String(text) => text.len(),
        Value::Map(fields) => fields.keys().map(|key| key.len()).sum(),
        _ => 0,
    };
    let Some(rest) = left.checked_sub(size.saturating_add(1)) else { return false };
    *left = rest;
    match value {
        Value::List(items) => items.iter().all(|item| take(item, left)),
        Value::Map(fields) => fields.values().all(|item| take(item, left)),
        _ => true,
    }
}

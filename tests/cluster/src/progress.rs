//! Reports the progress of long operations.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

/// Receiver of progress reports, one line at a time.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    /// Creates a receiver that calls `sink` for each line.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Creates a receiver that discards all lines.
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Creates a receiver that writes to standard error. The test harness does not capture it, so a
    /// long build does not look like a hang.
    pub fn stderr() -> Self {
        // A closed standard error is ignored.
        Self::new(|line| drop(writeln!(std::io::stderr(), "cluster: {line}")))
    }

    /// Reports one line.
    pub fn report(&self, line: impl AsRef<str>) {
        (self.0)(line.as_ref());
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

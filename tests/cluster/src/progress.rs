//! What a person is told while something takes its time.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

/// Receives one line at a time.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    /// Hands each line to `sink`.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Tells nobody.
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Writes to standard error, past the capture of the test harness: a build of minutes must not look like a hang.
    pub fn stderr() -> Self {
        // Nobody reading is no reason to stop.
        Self::new(|line| drop(writeln!(std::io::stderr(), "cluster: {line}")))
    }

    /// Tells one line.
    pub fn say(&self, line: impl AsRef<str>) {
        (self.0)(line.as_ref());
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

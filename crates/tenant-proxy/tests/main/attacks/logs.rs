//! Log lines of all tests of this program, as far as they contain a token.

use std::{
    io,
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use crate::upstream::PROXY_TOKEN;

/// A token that no other word contains.
pub(super) const SECRET: &str = "s3cr3t";
/// The levels with which somebody would look for a failure.
const LEVELS: &str =
    "info,hyper=debug,kube=debug,tenant_proxy=trace,operator_core=trace,operator_runtime=trace";

static START: Once = Once::new();
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static FOUND: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts to read log lines.
pub(super) fn start() {
    START.call_once(|| {
        tracing_subscriber::fmt().with_env_filter(LEVELS).with_ansi(false).with_writer(|| Lines).init();
    });
}

/// Returns the number of lines so far.
pub(super) fn number_of_lines() -> usize {
    NUMBER.load(Ordering::Relaxed)
}

/// Returns the lines with a token of a user, or with the one of the proxy.
pub(super) fn lines_with_tokens() -> Vec<String> {
    FOUND.lock().clone()
}

struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        NUMBER.fetch_add(1, Ordering::Relaxed);
        let line = String::from_utf8_lossy(bytes);
        if line.contains(SECRET) || line.contains(PROXY_TOKEN) {
            FOUND.lock().push(line.into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! How a program ends.

use std::{
    io::{Write, stderr},
    process::ExitCode,
};

use operator_core::error::chain;

/// Returns the exit code of a program that ended so, and prints its error in one line on standard
/// error.
///
/// `anyhow` prints a stack trace below an error that `main` returns if `RUST_BACKTRACE` is set. It
/// tells nothing to those who gave a wrong flag or have no cluster.
pub fn code(ended: anyhow::Result<()>) -> ExitCode {
    let Err(error) = ended else { return ExitCode::SUCCESS };
    // Nobody may read it any more.
    drop(writeln!(stderr(), "error: {}", chain(error.as_ref())));
    ExitCode::FAILURE
}

//! Exit code of a program.

use std::{
    io::{Write, stderr},
    process::ExitCode,
};

use operator_core::error::chain;

/// Prints an error in one line on standard error and returns the exit code.
///
/// An error that `main` returns would be printed with a stack trace if `RUST_BACKTRACE` is set,
/// which does not help with a wrong flag or a missing cluster.
pub fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // Standard error may be closed.
    drop(writeln!(stderr(), "error: {}", chain(error.as_ref())));
    ExitCode::FAILURE
}

//! Toolchain of the program, as far as the program depends on it.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use images::Digest;

use super::platform::Platform;

/// Returns the versions of the Rust compiler, the C compiler, and the C library on one line.
///
/// # Errors
/// Returns an error if one of them is not installed.
pub(super) fn toolchain(platform: Platform) -> Result<String> {
    let compiler = platform.compiler();
    let rust = first_line(Command::new("rustc").arg("--version"))?;
    let c = first_line(Command::new(&compiler).arg("--version"))?;
    let library = PathBuf::from(first_line(Command::new(&compiler).arg("-print-file-name=libc.a"))?);
    let library = fs::read(&library).with_context(|| {
        format!("cannot read {}; install the static C library of glibc", library.display())
    })?;
    Ok(format!("{rust}, {c}, libc.a {}", Digest::of(&library)))
}

/// Runs a program, and returns the first line of its output.
///
/// # Errors
/// Returns an error if the program cannot be run or fails.
pub(super) fn first_line(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

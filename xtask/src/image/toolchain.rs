//! What a program is built with, as far as it decides the program's bytes.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};

use super::{layer::sha256, platform::Platform};

/// The Rust compiler, the C compiler and the C library, in one line for people who are to find the same.
///
/// # Errors
/// When one of them is not there.
pub(super) fn toolchain(platform: Platform) -> Result<String> {
    let compiler = platform.compiler();
    let rust = said(Command::new("rustc").arg("--version"))?;
    let c = said(Command::new(&compiler).arg("--version"))?;
    let library = PathBuf::from(said(Command::new(&compiler).arg("-print-file-name=libc.a"))?);
    let library = fs::read(&library).with_context(|| {
        format!("cannot read {}; a static program needs glibc's libc.a", library.display())
    })?;
    Ok(format!("{rust}, {c}, libc.a {}", sha256(&library)))
}

/// The first line that a program says.
///
/// # Errors
/// When it cannot be run, or fails.
pub(super) fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} fails: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

//! Toolchain of the programs, as far as they depend on it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use images::Digest;

use super::platform::Platform;

/// Returns the versions of the Rust compiler, the C compiler, and the C library on one line, and the digest of
/// the file of recorded executions.
///
/// # Errors
/// Returns an error if one of them is not installed, or if the file cannot be read.
pub(super) fn toolchain(platform: Platform, recorded: Option<&Path>) -> Result<String> {
    let compiler = platform.compiler();
    let rust = first_line(Command::new("rustc").arg("--version"))?;
    let c = first_line(Command::new(&compiler).arg("--version"))?;
    let library = PathBuf::from(first_line(Command::new(&compiler).arg("-print-file-name=libc.a"))?);
    let library = fs::read(&library).with_context(|| {
        format!("cannot read {}; install the static C library of glibc", library.display())
    })?;
    let toolchain = format!("{rust}, {c}, libc.a {}", Digest::of(&library));
    let Some(recorded) = recorded else { return Ok(toolchain) };
    let content = fs::read(recorded).with_context(|| format!("cannot read {}", recorded.display()))?;
    Ok(format!("{toolchain}, profile {}", Digest::of(&content)))
}

/// Returns whether the C library of a platform is glibc 2.36 or newer, with which a program can start whose
/// relocations are packed.
///
/// # Errors
/// Returns an error if the C compiler cannot be run or fails.
pub(super) fn packs_relocations(platform: Platform) -> Result<bool> {
    let macros = ["-dM", "-E", "-include", "features.h", "-x", "c", "/dev/null"];
    let macros = output(Command::new(platform.compiler()).args(macros))?;
    Ok(glibc(&macros).is_some_and(|version| version >= (2, 36)))
}

/// Returns the version of glibc in the macros of its headers, and `None` for another C library.
fn glibc(macros: &str) -> Option<(u32, u32)> {
    let value = |name: &str| {
        let mut values = macros.lines().filter_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        values.next()?.parse().ok()
    };
    Some((value("__GLIBC__ ")?, value("__GLIBC_MINOR__ ")?))
}

/// Runs a program, and returns the first line of its output.
///
/// # Errors
/// Returns an error if the program cannot be run or fails.
pub(super) fn first_line(command: &mut Command) -> Result<String> {
    Ok(output(command)?.lines().next().unwrap_or_default().to_owned())
}

/// Runs a program, and returns its output.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_glibc_is_in_its_headers() {
        let macros =
            "#define __GLIBC_USE(F) __GLIBC_USE_ ## F\n#define __GLIBC__ 2\n#define __GLIBC_MINOR__ 36\n";
        assert_eq!(glibc(macros), Some((2, 36)));
        assert_eq!(glibc("#define __GNUC__ 14\n"), None);
        packs_relocations(Platform::host().unwrap()).unwrap();
    }

    #[test]
    fn toolchain_names_the_profile() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "counts").unwrap();
        let host = Platform::host().unwrap();
        let with = toolchain(host, Some(file.path())).unwrap();
        assert_eq!(with, format!("{}, profile {}", toolchain(host, None).unwrap(), Digest::of(b"counts")));
    }
}

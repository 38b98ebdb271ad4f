//! Installs and runs mdBook.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use cluster::program::{cargo_in, workspace};
use go_tools::cache;

/// Version of mdBook.
const VERSION: &str = "0.5.4";

/// Builds the book of a folder, and replaces the output folder.
///
/// # Errors
/// Returns an error if mdBook cannot be installed or fails.
pub(super) fn build(source: &Path, output: &Path) -> Result<()> {
    let status = Command::new(program()?)
        .env("MDBOOK_LOG", "warn")
        .arg("build")
        .arg("--dest-dir")
        .arg(output)
        .arg(source)
        .status()
        .context("cannot run mdBook")?;
    ensure!(status.success(), "cannot build the book in {}: mdBook failed", source.display());
    Ok(())
}

/// Returns the path of mdBook, and installs it first if needed, which takes minutes.
///
/// It is installed in `$XDG_CACHE_HOME/ensemble/tools` or `~/.cache/ensemble/tools`.
fn program() -> Result<PathBuf> {
    let cache = cache().context("cannot install mdBook: neither HOME nor XDG_CACHE_HOME is set")?;
    let tools = cache.join("tools");
    let program = tools.join("bin/mdbook");
    if !is_installed(&program) {
        eprintln!("installing mdBook {VERSION} ...");
        let mut cargo = cargo_in(&workspace());
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        // Without optimization: it takes half as long to build, and the book is built in a second.
        cargo.args([
            "install",
            "--quiet",
            "--locked",
            "--debug",
            "--no-default-features",
            "--features",
            "search",
            "--root",
        ]);
        let status =
            cargo.arg(&tools).arg(format!("mdbook@{VERSION}")).status().context("cannot run cargo")?;
        ensure!(status.success(), "cannot install mdBook {VERSION} in {}", tools.display());
    }
    Ok(program)
}

/// Returns whether the program is installed in this version.
fn is_installed(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"))
}

//! mdBook, the program.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use cluster::program::{cache, cargo_in};

use crate::workspace;

/// The version that the book is built with.
const VERSION: &str = "0.5.4";

/// Builds the book of a folder into another one. What was there is replaced.
///
/// # Errors
/// When mdBook cannot be installed, or refuses the book.
pub(super) fn build(source: &Path, output: &Path) -> Result<()> {
    let status = Command::new(program()?)
        .env("MDBOOK_LOG", "warn")
        .arg("build")
        .arg("--dest-dir")
        .arg(output)
        .arg(source)
        .status()
        .context("cannot run mdBook")?;
    ensure!(status.success(), "mdBook cannot build {}", source.display());
    Ok(())
}

/// Where it is. It is installed first, which takes minutes, if it is not in `$XDG_CACHE_HOME/ensemble/tools`, or
/// `~/.cache/ensemble/tools`, in this version.
fn program() -> Result<PathBuf> {
    let cache = cache().context("neither HOME nor XDG_CACHE_HOME is set, so there is no place for mdBook")?;
    let tools = cache.join("tools");
    let program = tools.join("bin/mdbook");
    if !is_there(&program) {
        eprintln!("installing mdBook {VERSION} ...");
        let mut cargo = cargo_in(&workspace());
        cargo.args([
            "install",
            "--quiet",
            "--locked",
            "--no-default-features",
            "--features",
            "search",
            "--root",
        ]);
        let status =
            cargo.arg(&tools).arg(format!("mdbook@{VERSION}")).status().context("cannot run cargo")?;
        ensure!(status.success(), "mdBook {VERSION} cannot be installed into {}", tools.display());
    }
    Ok(program)
}

/// Whether the program is there, in the version that is wanted.
fn is_there(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"))
}

//! The program of the image: the manager as it is released, linked with all that it needs, and the same on every machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use cluster::program::{cargo_in, executable};

use super::{
    audit,
    layer::sha256,
    packages::Packages,
    platform::{Platform, variables},
    toolchain::said,
};
use crate::workspace;

/// What separates flags in `CARGO_ENCODED_RUSTFLAGS`, so that paths may have spaces.
const SEPARATOR: &str = "\u{1f}";

/// Builds it in a folder, of which is used what is there, and returns it. glibc is linked in; since 2.34 it resolves
/// names without loading anything.
///
/// # Errors
/// When it does not build.
pub(super) fn program(platform: Platform, packages: &Packages, folder: &Path) -> Result<Vec<u8>> {
    let list = list(platform, packages, folder)?;
    let mut cargo = cargo_in(&workspace());
    cargo.args(["rustc", "--quiet", "--locked", "--release", "--message-format=json-render-diagnostics"]);
    cargo.args(["--package", "manager", "--bin", "ensemble-manager", "--target", &platform.target()]);
    cargo.arg("--target-dir").arg(folder).arg("--").args(audit::linked(&list));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(packages, folder)?.join(SEPARATOR)).env_remove("RUSTFLAGS");
    cargo.envs(variables(platform));
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the manager does not build");
    let messages = String::from_utf8_lossy(&output.stdout);
    let program = executable(&messages).context("cargo did not say where the manager is")?;
    let program = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    audit::check(&program, packages)?;
    Ok(program)
}

/// The list of crates as a file that is linked in. Its name is another when it lists others: cargo looks no further.
fn list(platform: Platform, packages: &Packages, folder: &Path) -> Result<PathBuf> {
    let object = audit::object(packages, platform)?;
    let path = folder.join(format!("crates-{}.o", sha256(&object).replace(':', "-")));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(&path, object).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Static, and without the paths of this machine, which would make every machine's program another. Of several that fit,
/// the last one counts.
fn flags(packages: &Packages, folder: &Path) -> Result<Vec<String>> {
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let (library, library_as_released) = library()?;
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned(), remap(&workspace(), "/ensemble")];
    flags.push(remap(folder, "/target"));
    flags.extend(packages.sources.iter().map(|sources| remap(sources, "/crates")));
    flags.push(remap(&library, &library_as_released));
    Ok(flags)
}

/// Where the sources of Rust's library are, if they are installed, and what they are called if they are not.
fn library() -> Result<(PathBuf, String)> {
    let installed = said(Command::new("rustc").arg("--print=sysroot"))?;
    let told = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let commit = told.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
    Ok((Path::new(&installed).join("lib/rustlib/src/rust"), format!("/rustc/{commit}")))
}

//! The program of the image: the manager as it is released, linked with all that it needs.

use std::{
    env::{
        self,
        consts::{ARCH, OS},
    },
    path::PathBuf,
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use cluster::program::{cargo_in, executable};

use crate::workspace;

/// What separates flags in `CARGO_ENCODED_RUSTFLAGS`, so that paths may have spaces.
const SEPARATOR: &str = "\u{1f}";

/// The machine, as images name it.
pub(super) fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// What it is built for. It is named to cargo even though it is this machine: so build scripts and procedural macros,
/// which cannot be static, are built as ever.
pub(super) fn target() -> String {
    format!("{ARCH}-unknown-linux-gnu")
}

/// Builds it, and returns where it is. glibc is linked in; since 2.34 it resolves names without loading anything.
///
/// # Errors
/// On another system than Linux, and when it does not build.
pub(super) fn program() -> Result<PathBuf> {
    ensure!(OS == "linux", "an image is built on Linux; this is {OS}");
    let mut cargo = cargo_in(&workspace());
    cargo.args(["build", "--quiet", "--locked", "--release", "--message-format=json-render-diagnostics"]);
    cargo.args(["--package", "manager", "--bin", "ensemble-manager", "--target", &target()]);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags()?.join(SEPARATOR)).env_remove("RUSTFLAGS");
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "the manager does not build; a static program needs glibc's libc.a (libc6-dev)"
    );
    executable(&String::from_utf8_lossy(&output.stdout)).context("cargo did not say where the manager is")
}

/// Static, and without the paths of this machine, which would make every machine's program another.
fn flags() -> Result<Vec<String>> {
    let home = env::home_dir().context("there is no home folder, so cargo's cannot be found")?;
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let remap = |from: PathBuf, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    Ok(vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        remap(workspace(), "/ensemble"),
        remap(cargo_home, "/cargo"),
    ])
}

//! `cargo xtask cluster prepare`: installs the packages that real nodes need.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use cluster::real_nodes::{PACKAGES, check, missing};
use images::has_package_lists;
use rustix::process::getuid;

/// Installs the missing packages, as root.
pub(super) fn run() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        println!("everything that real nodes need is installed");
        return check_as_root();
    }
    ensure!(
        Path::new("/usr/bin/apt-get").exists(),
        "cannot install packages without apt-get; install {} with the package manager of this system",
        missing.join(", ")
    );
    println!("missing: {}", missing.join(", "));
    println!("installing the packages {}", PACKAGES.join(", "));
    if !has_package_lists() {
        apt(&["update", "--quiet"])?;
    }
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    apt(&install.into_iter().chain(PACKAGES).collect::<Vec<_>>())?;
    check_as_root()
}

/// Checks what only root can check.
fn check_as_root() -> Result<()> {
    if getuid().is_root() {
        return check();
    }
    println!("start clusters with real nodes as root");
    Ok(())
}

/// Runs `apt-get` as root. Without root, `sudo` asks for the password.
fn apt(args: &[&str]) -> Result<()> {
    let mut command = if getuid().is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("apt-get");
        sudo
    };
    let status = command
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    if !status.success() {
        bail!("apt-get {} failed; see its output above", args.join(" "));
    }
    Ok(())
}

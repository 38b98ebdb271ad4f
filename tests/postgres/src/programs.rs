//! The programs of PostgreSQL on this machine.

use std::{env, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};

/// The user that runs PostgreSQL. The package of the distribution creates it.
pub const USER: &str = "postgres";
/// Names a folder with the programs of PostgreSQL, instead of the newest of the distribution.
const VARIABLE: &str = "ENSEMBLE_POSTGRES_PROGRAMS";
/// Where Debian puts versions of PostgreSQL.
const FOLDER: &str = "/usr/lib/postgresql";

/// Returns the folder with the programs of PostgreSQL.
///
/// # Errors
/// Returns an error if this machine has none.
pub fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os(VARIABLE) {
        return Ok(folder.into());
    }
    let newest = distributed().max().map(|(_, folder)| folder);
    newest.with_context(|| {
        format!("there is no PostgreSQL in {FOLDER}: install the package postgresql, or set {VARIABLE}")
    })
}

/// Returns the folder with the programs of a major version of PostgreSQL.
///
/// # Errors
/// Returns an error if this machine has none.
pub fn folder_of(major: u16) -> Result<PathBuf> {
    if major_version()? == major {
        return folder();
    }
    let folder = distributed().find(|(version, _)| *version == major).map(|(_, folder)| folder);
    folder.with_context(|| format!("there is no PostgreSQL {major} in {FOLDER}; set {VARIABLE}"))
}

/// Returns the newest major version of the distribution's packages.
///
/// # Errors
/// Returns an error if none is installed.
pub fn distributed_version() -> Result<u16> {
    let newest = distributed().max().map(|(version, _)| version);
    newest.with_context(|| format!("there is no PostgreSQL in {FOLDER}: install the package postgresql"))
}

/// Returns the versions of the distribution, and the folders with their programs.
fn distributed() -> impl Iterator<Item = (u16, PathBuf)> {
    let versions = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    versions.filter_map(|version| {
        let number: u16 = version.file_name().to_str()?.parse().ok()?;
        Some((number, version.path().join("bin"))).filter(|(_, folder)| folder.join("initdb").exists())
    })
}

/// Returns a command that runs a program of PostgreSQL as its user. The program ends with the thread
/// that starts it.
///
/// # Errors
/// Returns an error if PostgreSQL is not installed.
pub fn command(program: &str) -> Result<Command> {
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--pdeathsig=KILL"])
        .arg(folder()?.join(program));
    Ok(command)
}

/// Returns the major version of PostgreSQL.
///
/// # Errors
/// Returns an error if PostgreSQL is not installed, or prints no version.
pub fn major_version() -> Result<u16> {
    let output = command("postgres")?.arg("--version").output().context("cannot run postgres")?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let digits = output
        .split_whitespace()
        .nth(2)
        .and_then(|version| version.split(|letter: char| !letter.is_ascii_digit()).next());
    let major = digits.and_then(|digits| digits.parse().ok());
    major.with_context(|| format!("postgres --version printed {output:?}"))
}

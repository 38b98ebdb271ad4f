//! The processes of a member on this machine.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use rustix::process::Pid;

/// Returns the process of the instance manager of the member with this folder.
///
/// # Errors
/// Returns an error if it does not run.
pub(crate) fn instance(folder: &Path) -> Result<Pid> {
    let program = folder.join("ensemble-instance").display().to_string();
    find(|args| args.first() == Some(&program.as_str()))
        .with_context(|| format!("no instance manager runs in {}", folder.display()))
}

/// Returns the process ID of the instance manager of the member with this folder, for `/proc`.
///
/// # Errors
/// Returns an error if it does not run.
pub(crate) fn instance_pid(folder: &Path) -> Result<u32> {
    Ok(instance(folder)?.as_raw_nonzero().get().try_into()?)
}

/// Returns the postmaster of the member with this folder.
///
/// # Errors
/// Returns an error if it does not run.
pub(crate) fn postmaster(folder: &Path) -> Result<Pid> {
    let data = folder.join("volume/data").display().to_string();
    find(|args| is_postmaster(args, &data))
        .with_context(|| format!("no PostgreSQL runs in {}", folder.display()))
}

/// Returns whether these are the arguments of a postmaster. Its children have titles instead.
fn is_postmaster(args: &[&str], data: &str) -> bool {
    args.first().is_some_and(|program| program.ends_with("/postgres"))
        && args.get(1..3) == Some(["-D", data].as_slice())
}

/// Returns the first process with such arguments.
fn find(is_it: impl Fn(&[&str]) -> bool) -> Option<Pid> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let args: Vec<_> = line.split('\0').collect();
        Pid::from_raw(entry.file_name().to_str()?.parse().ok()?).filter(|_| is_it(&args))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postmaster_is_told_from_its_children_and_from_other_programs() {
        for (args, expected) in [
            (&["/usr/lib/postgresql/17/bin/postgres", "-D", "/a/data", "-c", "x=y", ""][..], true),
            (&["/usr/lib/postgresql/17/bin/postgres", "-D", "/b/data", ""], false),
            (&["/usr/lib/postgresql/17/bin/postgres", "-C", "x", "-D", "/a/data", ""], false),
            (&["postgres: db-1: checkpointer ", ""], false),
            (&[""], false),
        ] {
            assert_eq!(is_postmaster(args, "/a/data"), expected, "{args:?}");
        }
    }
}

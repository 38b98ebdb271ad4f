//! Debian packages with all their dependencies, without installing them.

use std::{
    fmt::Write as _,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::{program::run, tree::Tree};

/// Packages that only the scripts of packages need, which do not run.
const SCRIPT_PACKAGES: [&str; 15] = [
    "adduser",
    "debconf",
    "dpkg",
    "init-system-helpers",
    "lsb-base",
    "passwd",
    "perl",
    "perl-base",
    "sensible-utils",
    "ssl-cert",
    "sysvinit-utils",
    "tar",
    "ucf",
    "usr-is-merged",
    "usrmerge",
];
/// Paths that programs do not need.
const UNUSED_PATHS: [&str; 6] = [
    "/usr/share/bug",
    "/usr/share/doc",
    "/usr/share/info",
    "/usr/share/lintian",
    "/usr/share/locale",
    "/usr/share/man",
];
/// Lists of this machine's packages, as `apt-get update` writes them.
const HOST_LISTS: &str = "/var/lib/apt/lists";
const REMEDY: &str = "run `apt-get update`, and check the network and the sources of apt";

/// Downloads packages and their dependencies into a directory, and returns the archives by name.
/// `without` lists dependencies that count as installed.
///
/// # Errors
/// Returns an error if apt is missing or fails.
pub(crate) fn download(
    packages: &[String],
    without: &[String],
    cache: &Path,
    work: &Path,
    progress: &dyn Fn(&str),
) -> Result<Vec<PathBuf>> {
    let archives = work.join("apt/archives");
    fs::create_dir_all(archives.join("partial")).with_context(|| format!("create {}", archives.display()))?;
    let status = work.join("apt/status");
    fs::write(&status, installed(packages, without))
        .with_context(|| format!("write {}", status.display()))?;
    let mut apt = apt_get(work);
    apt.arg("-o").arg(format!("Dir::State::status={}", status.display()));
    apt.arg("-o").arg(format!("Dir::State::lists={}", lists(cache, work, progress)?.display()));
    apt.args(["-o", "APT::Install-Recommends=false", "-y", "--download-only", "install", "--"])
        .args(packages);
    run(&mut apt, REMEDY)?;
    let entries = fs::read_dir(&archives).with_context(|| format!("read {}", archives.display()))?;
    let mut found = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    found.sort();
    Ok(found)
}

/// Adds the files of a package to a tree.
///
/// # Errors
/// Returns an error if the archive of the package cannot be read.
pub(crate) fn unpack(archive: &Path, without: &[String], tree: &mut Tree) -> Result<()> {
    let without: Vec<_> =
        UNUSED_PATHS.iter().map(|path| (*path).to_owned()).chain(without.iter().cloned()).collect();
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.arg("--fsys-tarfile").arg(archive).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = dpkg.spawn().context("run dpkg-deb; install dpkg")?;
    let mut output = child.stdout.take().context("dpkg-deb has no output")?;
    let added = tree.add_package(&mut output, &without);
    // The padding of the archive, without which dpkg-deb fails to write.
    let drained = std::io::copy(&mut output.by_ref(), &mut std::io::sink());
    let status = child.wait().context("wait for dpkg-deb")?;
    added.with_context(|| format!("unpack {}", archive.display()))?;
    drained.context("read the output of dpkg-deb")?;
    ensure!(status.success(), "dpkg-deb failed to read {}: {status}", archive.display());
    Ok(())
}

/// Returns apt with its files in a directory, so that it needs no rights and no locks.
fn apt_get(work: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    apt.arg("-o").arg(format!("Dir::Cache={}", work.join("apt").display()));
    apt.args(["-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root", "-q"]);
    apt
}

/// Returns a directory with lists of packages: this machine's if it has them, else one in the cache.
fn lists(cache: &Path, work: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf> {
    if has_package_lists() {
        return Ok(HOST_LISTS.into());
    }
    let own = cache.join("apt-lists");
    if has_lists(&own) {
        return Ok(own);
    }
    progress("downloading the lists of Debian packages, because `apt-get update` has not run");
    fs::create_dir_all(own.join("partial")).with_context(|| format!("create {}", own.display()))?;
    let mut apt = apt_get(work);
    apt.arg("-o").arg(format!("Dir::State::lists={}", own.display())).arg("update");
    run(&mut apt, "there are no lists of Debian packages; run `apt-get update`")?;
    ensure!(has_lists(&own), "there are no lists of Debian packages; run `apt-get update`");
    Ok(own)
}

/// Returns whether this machine has lists of packages. They are missing on a new machine.
pub fn has_package_lists() -> bool {
    has_lists(Path::new(HOST_LISTS))
}

fn has_lists(directory: &Path) -> bool {
    let is_list = |name: &str| name.ends_with("_Packages") || name.contains("_Packages.");
    fs::read_dir(directory)
        .is_ok_and(|entries| entries.flatten().any(|entry| is_list(&entry.file_name().to_string_lossy())))
}

/// Returns the status file of dpkg with packages that count as installed.
fn installed(packages: &[String], without: &[String]) -> String {
    let names = SCRIPT_PACKAGES.into_iter().chain(without.iter().map(String::as_str));
    let names = names.filter(|name| !packages.iter().any(|package| package == name));
    names.fold(String::new(), |mut status, name| {
        // Writing to a String cannot fail.
        let _ = write!(
            status,
            "Package: {name}\nStatus: install ok installed\nVersion: 9999\nArchitecture: all\n\
             Multi-Arch: allowed\nMaintainer: none\nDescription: none\n\n"
        );
        status
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_scripts_count_as_installed_unless_wanted() {
        let status = installed(&["perl".to_owned()], &["locales".to_owned()]);
        assert!(status.contains("Package: adduser\n") && status.contains("Package: locales\n"));
        assert!(!status.contains("Package: perl\n") && status.contains("Package: perl-base\n"));
    }

    #[test]
    fn recognizes_lists_of_packages() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("lock"), "").unwrap();
        assert!(!has_lists(directory.path()) && !has_lists(&directory.path().join("none")));
        fs::write(directory.path().join("host_dists_main_binary-amd64_Packages.lz4"), "").unwrap();
        assert!(has_lists(directory.path()));
    }
}

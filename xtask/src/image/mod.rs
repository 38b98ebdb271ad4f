//! `cargo xtask image`: builds the container image as an OCI archive, without Docker or root.
//!
//! The image contains only static programs and the CA certificates that hooks trust: no shell, no
//! libraries. It runs the manager. Pods of a PostgresCluster copy the instance manager out of it, and the
//! proxy of Tenants is a program of its own in it.
//! Two builds of one commit with one toolchain and one profile have the same digest on every machine.

mod archive;
mod auditable;
mod build;
mod ca_certificates;
mod layer;
mod packages;
mod platform;
mod record_profile;
mod sbom;
mod toolchain;
mod verify;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use archive::{Archive, Image};
pub(crate) use build::Profile;
use clap::Args;
use cluster::program::workspace;
use images::Digest;
use layer::Entry;
use packages::{Packages, packages};
use platform::Platform;
pub(crate) use record_profile::RecordProfile;
use serde_json::Value;

use crate::deploy::IMAGE;

#[derive(Args)]
pub(crate) struct BuildImage {
    /// Folder for the archive and the SBOMs
    #[arg(long, default_value = "target/image")]
    output: PathBuf,
    /// Platforms of the image, this machine's by default; several platforms become one
    /// multi-platform image
    #[arg(long = "platform", value_name = "PLATFORM", value_delimiter = ',')]
    platforms: Vec<Platform>,
    /// Optimize the manager for the executions in this file, which `cargo xtask profile` has written for
    /// the platform of this machine
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Rebuild the image without writing it, and fail unless it has this digest
    #[arg(long, value_name = "DIGEST", conflicts_with = "output", value_parser = verify::parse_digest)]
    verify: Option<Digest>,
}

/// Maximum compressed size of a released image for one platform. It has three programs of 4 to 11 MiB.
const MAX_SIZE: usize = 22 << 20;
/// The same for an image with a recorded profile, in which functions are inlined more often.
const MAX_SIZE_WITH_PROFILE: usize = 24 << 20;
/// First bytes of a profile, in LLVM's indexed format.
const PROFILE_MAGIC: &[u8] = b"\xfflprofi\x81";
/// Path of the program in the image.
const PROGRAM: &str = "/ensemble-manager";
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl BuildImage {
    /// Builds the image, and writes the archive and its SBOMs, or verifies the digest.
    pub(crate) fn run(&self) -> Result<()> {
        let mut platforms = self.platforms.clone();
        if platforms.is_empty() {
            platforms.push(Platform::host()?);
        }
        platforms.sort();
        platforms.dedup();
        platforms.iter().try_for_each(|platform| platform.check())?;
        let all = platforms.iter().map(|platform| packages(*platform)).collect::<Result<Vec<_>>>()?;
        let builds: Vec<_> = platforms.into_iter().zip(all).collect();
        let recorded = self.profile.as_deref().map(find_profile).transpose()?;
        ensure!(
            recorded.is_none() || builds.iter().any(|(platform, _)| platform.is_host()),
            "--profile has no effect on the selected platforms; a profile fits only the platform of this machine"
        );
        if let Some(digest) = &self.verify {
            return verify::run(digest, &builds, recorded.as_deref());
        }
        let folder = workspace().join(&self.output);
        write_all(&folder, &builds, Profile::Release, recorded.as_deref()).map(drop)
    }
}

/// Returns the absolute path of a profile, because cargo runs the compiler in other folders.
///
/// # Errors
/// Returns an error for a file in another format, which the compiler would ignore with a warning.
fn find_profile(path: &Path) -> Result<PathBuf> {
    let content = fs::read(path).with_context(|| {
        format!("cannot read the profile {}; write one with `cargo xtask profile`", path.display())
    })?;
    ensure!(
        content.starts_with(PROFILE_MAGIC),
        "{} is not a profile; write one with `cargo xtask profile`",
        path.display()
    );
    fs::canonicalize(path).with_context(|| format!("cannot find the profile {}", path.display()))
}

/// Builds the image for this machine, and returns the path of its archive in the target folder.
///
/// # Errors
/// As `cargo xtask image`.
pub(crate) fn build_for_host(profile: Profile) -> Result<PathBuf> {
    let platform = Platform::host()?;
    platform.check()?;
    let packages = packages(platform)?;
    let [manager, ..] = &packages;
    write_all(&manager.target_folder.join("image"), &[(platform, packages)], profile, None)
}

/// Builds the image, writes the archive and its SBOMs to a folder, and returns the path of the
/// archive.
fn write_all(
    folder: &Path,
    builds: &[(Platform, [Packages; 3])],
    profile: Profile,
    recorded: Option<&Path>,
) -> Result<PathBuf> {
    let archive = build_archive(builds, profile, recorded, None)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let architectures: Vec<_> = builds.iter().map(|(platform, _)| platform.architecture()).collect();
    let path = folder.join(format!("ensemble-{VERSION}-{}.tar", architectures.join("-")));
    write(&path, &archive.bytes)?;
    for (platform, packages) in builds {
        let name = format!("ensemble-{VERSION}-{}.cdx.json", platform.architecture());
        write(&folder.join(name), to_json(&sbom::sbom(packages))?.as_bytes())?;
    }
    println!("{IMAGE} {}", archive.digest);
    Ok(path)
}

/// Builds the image of each platform, in `folder` or in cargo's target folder.
fn build_archive(
    builds: &[(Platform, [Packages; 3])],
    profile: Profile,
    recorded: Option<&Path>,
    folder: Option<&Path>,
) -> Result<Archive> {
    let mut images = Vec::new();
    for (platform, packages) in builds {
        let toolchain = toolchain::toolchain(*platform, recorded)?;
        let [first, ..] = packages;
        let folder = folder.unwrap_or(&first.target_folder);
        let programs = build::programs(*platform, packages, profile, recorded, folder)?;
        let mut entries: Vec<_> = packages
            .iter()
            .zip(programs)
            .map(|(packages, content)| Entry { path: packages.program.name, mode: 0o755, content })
            .collect();
        entries.push(Entry {
            path: ca_certificates::PATH,
            mode: 0o644,
            content: ca_certificates::bundle().into_bytes(),
        });
        images.push(Image {
            version: VERSION,
            architecture: platform.architecture(),
            entrypoint: PROGRAM,
            toolchain,
            entries,
        });
    }
    let archive = archive::write(IMAGE, &images)?;
    let max_size = builds.len() * if recorded.is_some() { MAX_SIZE_WITH_PROFILE } else { MAX_SIZE };
    ensure!(
        profile != Profile::Release || archive.bytes.len() <= max_size,
        "the image has {} bytes, more than the limit of {max_size}; check what increased the size of the programs",
        archive.bytes.len(),
    );
    Ok(archive)
}

fn to_json(sbom: &Value) -> Result<String> {
    serde_json::to_string_pretty(sbom).context("cannot serialize the SBOM")
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {} ({:.1} MiB)", path.display(), mebibytes(content.len()));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "the value is rounded for output")]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

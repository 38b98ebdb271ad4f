//! `cargo xtask image`: the manager as a container image, an OCI archive, made without Docker and without root.
//!
//! In it are one static program, the certificate authorities that hooks trust, and nothing else: no shell, no libraries.
//! Two builds of one commit by one toolchain give the same digest, wherever they are made.

mod archive;
mod audit;
mod authorities;
mod bill;
mod build;
mod layer;
mod packages;
mod platform;
mod toolchain;
mod verify;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use archive::{Archive, Image};
use clap::Args;
use layer::Entry;
use packages::{Packages, packages};
use platform::Platform;
use serde_json::Value;
use verify::Digest;

use crate::{deploy::IMAGE, workspace};

#[derive(Args)]
pub(crate) struct Make {
    /// The folder that the archive is written to
    #[arg(long, default_value = "target/image")]
    output: PathBuf,
    /// The machines that it is made for, this one unless it is said; several come as one image
    #[arg(long = "platform", value_name = "PLATFORM", value_delimiter = ',')]
    platforms: Vec<Platform>,
    /// Write nothing: build everything anew, and fail unless it has this digest
    #[arg(long, value_name = "DIGEST", conflicts_with = "output")]
    verify: Option<Digest>,
}

/// What an image for one machine may weigh, compressed.
const LARGEST: usize = 15 << 20;
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Make {
    /// Builds the manager as it is released, and writes the archive and its bills of materials, or compares.
    pub(crate) fn run(&self) -> Result<()> {
        let mut platforms = self.platforms.clone();
        if platforms.is_empty() {
            platforms.push(Platform::here()?);
        }
        platforms.sort();
        platforms.dedup();
        platforms.iter().try_for_each(|platform| platform.check())?;
        let all = platforms.iter().map(|platform| packages(*platform)).collect::<Result<Vec<_>>>()?;
        let builds: Vec<_> = platforms.into_iter().zip(all).collect();
        match &self.verify {
            Some(digest) => verify::run(digest, &builds),
            None => self.write(&builds),
        }
    }

    fn write(&self, builds: &[(Platform, Packages)]) -> Result<()> {
        let archive = make(builds, None)?;
        let folder = workspace().join(&self.output);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let architectures: Vec<_> = builds.iter().map(|(platform, _)| platform.architecture()).collect();
        let name = format!("ensemble-{VERSION}-{}.tar", architectures.join("-"));
        put(&folder.join(name), &archive.bytes)?;
        for (platform, packages) in builds {
            let name = format!("ensemble-{VERSION}-{}.cdx.json", platform.architecture());
            put(&folder.join(name), pretty(&bill::bill(packages))?.as_bytes())?;
        }
        println!("{IMAGE} {}", archive.digest);
        Ok(())
    }
}

/// Builds for each machine, in a folder or else in cargo's own.
fn make(builds: &[(Platform, Packages)], folder: Option<&Path>) -> Result<Archive> {
    let mut images = Vec::new();
    for (platform, packages) in builds {
        let toolchain = toolchain::toolchain(*platform)?;
        let program = build::program(*platform, packages, folder.unwrap_or(&packages.target_folder))?;
        images.push(Image {
            version: VERSION,
            architecture: platform.architecture(),
            entrypoint: "/ensemble-manager",
            toolchain,
            entries: vec![
                Entry { path: "ensemble-manager", mode: 0o755, content: program },
                Entry { path: authorities::PATH, mode: 0o644, content: authorities::bundle().into_bytes() },
            ],
        });
    }
    let archive = archive::write(IMAGE, &images)?;
    ensure!(
        archive.bytes.len() <= LARGEST * builds.len(),
        "the image has {} bytes, more than the {} that it may have; see what has come into the program",
        archive.bytes.len(),
        LARGEST * builds.len()
    );
    Ok(archive)
}

fn pretty(bill: &Value) -> Result<String> {
    serde_json::to_string_pretty(bill).context("cannot write the bill of materials")
}

fn put(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {} ({:.1} MiB)", path.display(), mebibytes(content.len()));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

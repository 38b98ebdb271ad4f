//! `cargo xtask image`: the manager as a container image, an OCI archive, made without Docker and without root.
//!
//! In it are one static program, the certificate authorities that hooks trust, and nothing else: no shell, no libraries.
//! Two builds of one commit by one toolchain give the same digest.

mod archive;
mod authorities;
mod bill;
mod build;

use std::{env::consts::ARCH, fs, path::PathBuf};

use anyhow::{Context, Result};
use archive::{Entry, Image};
use clap::Args;

use crate::{deploy::IMAGE, workspace};

#[derive(Args)]
pub(crate) struct Make {
    /// The folder that the archive is written to
    #[arg(long, default_value = "target/image")]
    output: PathBuf,
}

/// What an image may weigh, compressed.
const LARGEST: usize = 15 << 20;

impl Make {
    /// Builds the manager as it is released, and writes the archive and its bill of materials.
    pub(crate) fn run(&self) -> Result<()> {
        let program = build::program()?;
        let program = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
        let image = Image {
            name: IMAGE,
            version: env!("CARGO_PKG_VERSION"),
            architecture: build::architecture(),
            entrypoint: "/ensemble-manager",
            entries: vec![
                Entry { path: "ensemble-manager", mode: 0o755, content: program },
                Entry { path: authorities::PATH, mode: 0o644, content: authorities::bundle().into_bytes() },
            ],
        };
        let archive = archive::write(&image)?;
        anyhow::ensure!(
            archive.bytes.len() <= LARGEST,
            "the image has {} bytes, more than the {LARGEST} that it may have; see what has come into the program",
            archive.bytes.len()
        );
        let folder = workspace().join(&self.output);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let name = format!("ensemble-{}-{ARCH}", env!("CARGO_PKG_VERSION"));
        for (extension, content) in [("tar", &archive.bytes), ("cdx.json", &bill::write()?.into_bytes())] {
            let path = folder.join(format!("{name}.{extension}"));
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            println!("wrote {} ({:.1} MiB)", path.display(), mebibytes(content.len()));
        }
        println!("{IMAGE} {}", archive.digest);
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

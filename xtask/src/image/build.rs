//! Programs of the image: static and reproducible builds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use cluster::program::{cargo_in, executable, workspace};
use images::Digest;

use super::{
    auditable,
    packages::{Packages, Program},
    platform::{Platform, variables},
    toolchain::first_line,
};

/// Separator of flags in `CARGO_ENCODED_RUSTFLAGS`, which allows spaces in paths.
const SEPARATOR: &str = "\u{1f}";

/// How the programs are optimized.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As released.
    Release,
    /// For tests: as other test programs, built in a fraction of the time, but larger and slower.
    Test,
}

impl Profile {
    /// Returns the name of the profile in Cargo.toml.
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Test => "dev",
        }
    }
}

/// Builds a program in a folder, which is used as a cache, and returns it.
///
/// glibc is linked statically. Since 2.34, it resolves names without loading libraries.
///
/// # Errors
/// Returns an error if the build fails, or if the program lacks the list of crates.
pub(super) fn program(
    platform: Platform,
    packages: &Packages,
    profile: Profile,
    folder: &Path,
) -> Result<Vec<u8>> {
    let list = write_list(platform, packages, folder)?;
    let mut cargo = cargo_in(&workspace());
    cargo.args(["rustc", "--quiet", "--locked", "--message-format=json-render-diagnostics"]);
    cargo.args(["--profile", profile.name()]);
    let Program { package, name } = packages.program;
    cargo.args(["--package", package, "--bin", name, "--target", &platform.target()]);
    cargo.arg("--target-dir").arg(folder).arg("--").args(auditable::link_flags(&list));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(packages, profile, folder)?.join(SEPARATOR));
    cargo.env_remove("RUSTFLAGS");
    cargo.envs(variables(platform));
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cannot build {name}: cargo failed");
    let messages = String::from_utf8_lossy(&output.stdout);
    let program =
        executable(&messages).with_context(|| format!("the output of cargo has no path of {name}"))?;
    let program = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    auditable::check(&program, packages)?;
    Ok(program)
}

/// Writes the list of crates as an object file, and returns its path.
///
/// The name depends on the content, because cargo only compares the flags to decide whether to link
/// again.
fn write_list(platform: Platform, packages: &Packages, folder: &Path) -> Result<PathBuf> {
    let object = auditable::object(packages, platform)?;
    let path = folder.join(format!("crates-sha256-{}.o", Digest::of(&object).hex()));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(&path, object).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the flags for a static program without paths of this machine.
///
/// Paths would make the program depend on the machine. If several prefixes match, rustc uses the
/// last one. A program for tests has them: with other flags in each checkout, cargo would build all
/// dependencies again.
fn flags(packages: &Packages, profile: Profile, folder: &Path) -> Result<Vec<String>> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    if profile == Profile::Test {
        flags.push("-Cstrip=symbols".to_owned());
        return Ok(flags);
    }
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let (library, released_library) = library_sources()?;
    flags.push(remap(&workspace(), "/ensemble"));
    flags.push(remap(folder, "/target"));
    flags.extend(packages.sources.iter().map(|sources| remap(sources, "/crates")));
    flags.push(remap(&library, &released_library));
    Ok(flags)
}

/// Returns the path of the installed sources of Rust's standard library, and their path in released
/// binaries.
fn library_sources() -> Result<(PathBuf, String)> {
    let sysroot = first_line(Command::new("rustc").arg("--print=sysroot"))?;
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
    Ok((Path::new(&sysroot).join("lib/rustlib/src/rust"), format!("/rustc/{commit}")))
}

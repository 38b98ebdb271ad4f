//! Programs of the image: static and reproducible builds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use cluster::program::{cargo_in, executables, workspace};
use images::Digest;

use super::{
    auditable,
    packages::{Packages, Program},
    platform::{Platform, variables},
    toolchain::first_line,
};

/// Flag for a static program.
const STATIC: &str = "-Ctarget-feature=+crt-static";
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
            Self::Test => "test-image",
        }
    }
}

/// Builds programs in a folder, which is used as a cache, and returns them.
///
/// glibc is linked statically. Since 2.34, it resolves names without loading libraries.
///
/// # Errors
/// Returns an error if the build fails, or if a released program lacks the list of crates.
pub(super) fn programs(
    platform: Platform,
    packages: &[Packages],
    profile: Profile,
    folder: &Path,
) -> Result<Vec<Vec<u8>>> {
    match profile {
        Profile::Release => {
            packages.iter().map(|packages| released_program(platform, packages, folder)).collect()
        }
        Profile::Test => test_programs(platform, packages, folder),
    }
}

/// Builds a program with the list of its crates.
fn released_program(platform: Platform, packages: &Packages, folder: &Path) -> Result<Vec<u8>> {
    let list = write_list(platform, packages, folder)?;
    let Program { package, name } = packages.program;
    let mut cargo = cargo(platform, "rustc", Profile::Release, folder);
    cargo.args(["--package", package, "--bin", name, "--"]).args(auditable::link_flags(&list));
    let flags = released_flags(packages, folder)?;
    let program = run(&mut cargo, &flags, &[name])?.into_iter().next().unwrap_or_default();
    auditable::check(&program, packages)?;
    Ok(program)
}

/// Builds all programs at once, so that their dependencies are built once: with the features that all of them
/// need. They have no list of crates.
fn test_programs(platform: Platform, packages: &[Packages], folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut cargo = cargo(platform, "build", Profile::Test, folder);
    for Program { package, name } in packages.iter().map(|packages| packages.program) {
        cargo.args(["--package", package, "--bin", name]);
    }
    let names: Vec<_> = packages.iter().map(|packages| packages.program.name).collect();
    // Paths of this machine stay: with other flags in each checkout, cargo would build all dependencies again.
    run(&mut cargo, &[STATIC.to_owned(), "-Cstrip=symbols".to_owned()], &names)
}

/// Returns a build for a platform.
fn cargo(platform: Platform, command: &str, profile: Profile, folder: &Path) -> Command {
    let mut cargo = cargo_in(&workspace());
    cargo.args([command, "--quiet", "--locked", "--message-format=json-render-diagnostics"]);
    cargo.args(["--profile", profile.name(), "--target", &platform.target()]);
    cargo.arg("--target-dir").arg(folder);
    cargo.env_remove("RUSTFLAGS").envs(variables(platform));
    cargo
}

/// Runs a build with flags of rustc, and returns the programs with these names.
fn run(cargo: &mut Command, flags: &[String], names: &[&str]) -> Result<Vec<Vec<u8>>> {
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR));
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cannot build {}: cargo failed", names.join(", "));
    let built = executables(&String::from_utf8_lossy(&output.stdout));
    let read = |name: &&str| {
        let path = built.iter().find(|path| path.file_name().is_some_and(|file| file == *name));
        let path = path.with_context(|| format!("the output of cargo has no path of {name}"))?;
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    names.iter().map(read).collect()
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
/// last one.
fn released_flags(packages: &Packages, folder: &Path) -> Result<Vec<String>> {
    let mut flags = vec![STATIC.to_owned()];
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

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
    packages::{MANAGER, Packages, Program},
    platform::{Platform, variables},
    toolchain::{first_line, packs_relocations},
};

/// Flag for a static program.
const STATIC: &str = "-Ctarget-feature=+crt-static";
/// Flag for relocations in a hundredth of the size. A program that can be loaded at any address reads all of them
/// when it starts.
const PACK_RELOCATIONS: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";
/// Flag for a program that counts how often each branch is taken.
const RECORD: &str = "-Cprofile-generate";
/// Flag with which such a program also records the order of the first calls of functions.
const RECORD_ORDER: &str = "-Cllvm-args=-pgo-temporal-instrumentation";
/// Flags that keep recorded code apart from all other code. An idle manager uses few functions, but the kernel
/// maps the 64 KiB around each.
const GROUP_CODE: [&str; 3] = [
    // Only what was never executed is cold, and not what is executed once, when the manager starts.
    "-Cllvm-args=-profile-summary-cold-count=0",
    // Branches that were never taken leave their function.
    "-Cllvm-args=-enable-split-machine-functions",
    // Without this, those that are rarely taken leave it, too.
    "-Cllvm-args=-mfs-psi-cutoff=0",
];
/// The same for LLVM's linker: functions in the order of their first calls, and the others after them.
const ORDER_CODE: [&str; 2] =
    ["-Clink-arg=-Wl,-z,keep-text-section-prefix", "-Clink-arg=-Wl,--bp-startup-sort=function"];
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

/// Folder, within cargo's target folder, of a manager that is optimized for recorded executions.
const PROFILED: &str = "profiled";

/// Builds programs in a folder, which is used as a cache, and returns them. The compiler optimizes a
/// released manager for the executions in `recorded`, which `cargo xtask profile` has written.
///
/// glibc is linked statically. Since 2.34, it resolves names without loading libraries.
///
/// # Errors
/// Returns an error if the build fails, or if a released program lacks the list of crates.
pub(super) fn programs(
    platform: Platform,
    packages: &[Packages],
    profile: Profile,
    recorded: Option<&Path>,
    folder: &Path,
) -> Result<Vec<Vec<u8>>> {
    match profile {
        Profile::Release => packages
            .iter()
            .map(|packages| {
                // The names of functions depend on the platform.
                let fits = packages.program == MANAGER && platform.is_host();
                let recorded = recorded.filter(|_| fits);
                released_program(platform, packages, recorded, folder)
            })
            .collect(),
        Profile::Test => test_programs(platform, packages, folder),
    }
}

/// Builds a manager that writes what it executes to the file in `LLVM_PROFILE_FILE` when it exits, and returns its
/// path.
///
/// The platform is passed to cargo as for the image, because the names of functions depend on that.
///
/// # Errors
/// Returns an error if the build fails.
pub(super) fn recording_manager(platform: Platform, folder: &Path) -> Result<PathBuf> {
    let mut cargo = cargo(platform, "build", Profile::Release, folder);
    cargo.args(["--package", MANAGER.package, "--bin", MANAGER.name]);
    let paths = run(&mut cargo, &[STATIC, RECORD, RECORD_ORDER].map(str::to_owned), &[MANAGER.name])?;
    paths.into_iter().next().context("cargo built no manager")
}

/// Builds a program with the list of its crates.
fn released_program(
    platform: Platform,
    packages: &Packages,
    recorded: Option<&Path>,
    folder: &Path,
) -> Result<Vec<u8>> {
    // In the folder of the other programs, each build would compile all crates again with its own flags.
    let folder = &recorded.map_or_else(|| folder.to_owned(), |_| folder.join(PROFILED));
    let list = write_list(platform, packages, folder)?;
    let Program { package, name } = packages.program;
    let mut cargo = cargo(platform, "rustc", Profile::Release, folder);
    cargo.args(["--package", package, "--bin", name, "--"]).args(auditable::link_flags(&list));
    let mut flags = released_flags(platform, packages, folder)?;
    if let Some(recorded) = recorded {
        flags.extend(flags_for(platform, &copy_profile(recorded, folder)?));
    }
    let program = read_all(&run(&mut cargo, &flags, &[name])?)?.into_iter().next().unwrap_or_default();
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
    read_all(&run(&mut cargo, &[STATIC.to_owned(), "-Cstrip=symbols".to_owned()], &names)?)
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

/// Runs a build with flags of rustc, and returns the paths of the programs with these names.
fn run(cargo: &mut Command, flags: &[String], names: &[&str]) -> Result<Vec<PathBuf>> {
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR));
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cannot build {}: cargo failed", names.join(", "));
    let built = executables(&String::from_utf8_lossy(&output.stdout));
    let find = |name: &&str| {
        let path = built.iter().find(|path| path.file_name().is_some_and(|file| file == *name));
        path.cloned().with_context(|| format!("the output of cargo has no path of {name}"))
    };
    names.iter().map(find).collect()
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    paths
        .iter()
        .map(|path| fs::read(path).with_context(|| format!("cannot read {}", path.display())))
        .collect()
}

/// Writes the list of crates as an object file, and returns its path.
fn write_list(platform: Platform, packages: &Packages, folder: &Path) -> Result<PathBuf> {
    write_input(&auditable::object(packages, platform)?, "crates", "o", folder)
}

/// Copies a profile to `folder`, and returns the path of the copy.
fn copy_profile(recorded: &Path, folder: &Path) -> Result<PathBuf> {
    let content = fs::read(recorded).with_context(|| format!("cannot read {}", recorded.display()))?;
    write_input(&content, "profile", "profdata", folder)
}

/// Writes a file that a flag names, and returns its path.
///
/// The name depends on the content, because cargo only compares the flags to decide whether to compile or link
/// again.
fn write_input(content: &[u8], name: &str, extension: &str, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(format!("{name}-sha256-{}.{extension}", Digest::of(content).hex()));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the flags for a static program without paths of this machine.
///
/// Paths would make the program depend on the machine. If several prefixes match, rustc uses the
/// last one.
fn released_flags(platform: Platform, packages: &Packages, folder: &Path) -> Result<Vec<String>> {
    let mut flags = vec![STATIC.to_owned()];
    if packs_relocations(platform)? {
        flags.push(PACK_RELOCATIONS.to_owned());
    }
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let (library, released_library) = library_sources()?;
    flags.push(remap(&workspace(), "/ensemble"));
    flags.push(remap(folder, "/target"));
    flags.extend(packages.sources.iter().map(|sources| remap(sources, "/crates")));
    flags.push(remap(&library, &released_library));
    Ok(flags)
}

/// Returns the flags for a program that is optimized for recorded executions.
fn flags_for(platform: Platform, recorded: &Path) -> Vec<String> {
    let recorded = recorded.display();
    let mut flags = vec![format!("-Cprofile-use={recorded}")];
    flags.extend(GROUP_CODE.map(str::to_owned));
    // rustc links with LLVM's linker on this platform only.
    if platform == Platform::Amd64 {
        flags.push(format!("-Clink-arg=-Wl,--irpgo-profile={recorded}"));
        flags.extend(ORDER_CODE.map(str::to_owned));
    }
    flags
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_llvms_linker_gets_its_flags() {
        let flags = |platform| flags_for(platform, Path::new("/p"));
        let all = flags(Platform::Amd64);
        let without_linker: Vec<_> =
            all.iter().filter(|flag| !flag.starts_with("-Clink-arg")).cloned().collect();
        assert_eq!(flags(Platform::Arm64), without_linker);
        assert!(all.contains(&"-Cprofile-use=/p".to_owned()), "{all:?}");
        assert!(all.contains(&"-Clink-arg=-Wl,--irpgo-profile=/p".to_owned()), "{all:?}");
    }
}

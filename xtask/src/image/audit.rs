//! What the program itself tells of what it was built from: the section `.dep-v0`, in the format of `cargo auditable`,
//! which scanners for known vulnerabilities read.
//!
//! `cargo auditable` itself would do, but cargo counts the path of that program into the names of symbols: each home
//! folder would have a digest of its own.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use auditable_serde::{DependencyKind, Package, Source, VersionInfo};
use flate2::{Compression, write::ZlibEncoder};
use object::{
    BinaryFormat, Endianness, SectionFlags, SectionKind,
    write::{Object, StandardSegment},
};

use super::{
    packages::{Packages, Part, Role},
    platform::Platform,
};

/// The format that tells procedural macros from what is linked.
const FORMAT: u32 = 1;
/// The longest list that is read back, in bytes.
const LONGEST: usize = 8 << 20;

/// An object file to be linked in, which has the list and nothing else.
///
/// # Errors
/// When it cannot be written.
pub(super) fn object(packages: &Packages, platform: Platform) -> Result<Vec<u8>> {
    let list = serde_json::to_vec(&list(packages)).context("cannot write the list of crates")?;
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    let list =
        zlib.write_all(&list).and_then(|()| zlib.finish()).context("cannot compress the list of crates")?;
    let mut object = Object::new(BinaryFormat::Elf, platform.object_architecture(), Endianness::Little);
    let segment = object.segment_name(StandardSegment::Data).to_vec();
    let section = object.add_section(segment, b".dep-v0".to_vec(), SectionKind::ReadOnlyData);
    // Read from the file, never loaded.
    object.section_mut(section).flags = SectionFlags::Elf { sh_flags: 0 };
    object.append_section_data(section, &list, 1);
    object.write().context("cannot write the list of crates as an object file")
}

/// Whether a program tells just that.
///
/// # Errors
/// When it does not.
pub(super) fn check(program: &[u8], packages: &Packages) -> Result<()> {
    let told = auditable_info::audit_info_from_slice(program, LONGEST)
        .context("the program does not tell what it was built from")?;
    ensure!(told == list(packages), "the program tells that it was built from other crates than it was");
    Ok(())
}

fn list(packages: &Packages) -> VersionInfo {
    VersionInfo { packages: packages.parts.iter().map(package).collect(), format: FORMAT }
}

fn package(part: &Part) -> Package {
    let source = match part.source.as_deref() {
        None => Source::Local,
        Some("registry+https://github.com/rust-lang/crates.io-index") => Source::CratesIo,
        Some(other) => Source::from(other.split('+').next().unwrap_or(other)),
    };
    let kind = if part.role == Role::Builds { DependencyKind::Build } else { DependencyKind::Runtime };
    Package {
        name: part.name.clone(),
        version: part.version.clone(),
        source,
        kind,
        dependencies: part.needs.clone(),
        root: part.role == Role::Program,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;
    use crate::image::packages::{packages, tests::example};

    #[test]
    fn a_program_that_is_linked_and_stripped_as_the_manager_is_tells_what_the_manager_was_built_from() {
        let here = Platform::here().unwrap();
        let packages = packages(here).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("list.o"), object(&packages, here).unwrap()).unwrap();
        fs::write(path("main.rs"), "fn main() {}").unwrap();
        let linked = Command::new("rustc")
            .args(["-Cstrip=symbols", "-Ctarget-feature=+crt-static", "--target", &here.target(), "-o"])
            .args([path("program"), path("main.rs")])
            .arg(format!("-Clink-arg={}", path("list.o").display()))
            .status();
        assert!(linked.unwrap().success());
        let program = fs::read(path("program")).unwrap();
        check(&program, &packages).unwrap();
        let told = auditable_info::audit_info_from_slice(&program, LONGEST).unwrap();
        let of = |name: &str| told.packages.iter().find(|package| package.name == name).unwrap();
        for name in ["kube", "tokio", "rustls"] {
            assert_eq!(
                (&of(name).source, of(name).kind),
                (&Source::CratesIo, DependencyKind::Runtime),
                "{name}"
            );
        }
        assert_eq!((&of("podset").source, of("podset").kind), (&Source::Local, DependencyKind::Runtime));
        assert_eq!(of("serde_derive").kind, DependencyKind::Build);
        assert!(of("manager").root);
    }

    #[test]
    fn a_program_without_the_list_or_with_another_one_is_found_out() {
        let here = Platform::here().unwrap();
        let listed = object(&example(), here).unwrap();
        check(&listed, &example()).unwrap();
        let mut other = example();
        other.parts[0].version.major += 1;
        assert!(check(&listed, &other).unwrap_err().to_string().contains("other crates"));
        let without =
            Object::new(BinaryFormat::Elf, here.object_architecture(), Endianness::Little).write().unwrap();
        assert!(check(&without, &other).unwrap_err().to_string().contains("does not tell"));
    }
}

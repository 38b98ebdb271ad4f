//! What the program itself tells of what it was built from: the section `.dep-v0`, in the format of `cargo auditable`,
//! which scanners for known vulnerabilities read.
//!
//! `cargo auditable` itself would do, but cargo counts the path of that program into the names of symbols: each home
//! folder would have a digest of its own.

use std::{io::Write as _, path::Path};

use anyhow::{Context, Result, ensure};
use auditable_serde::{DependencyKind, Package, Source, VersionInfo};
use flate2::{Compression, write::ZlibEncoder};
use object::{
    BinaryFormat, Endianness, SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, StandardSegment, Symbol, SymbolSection},
};

use super::{
    packages::{Packages, Part, Role},
    platform::Platform,
};

/// The format that tells procedural macros from what is linked.
const FORMAT: u32 = 1;
/// The longest list that is read back, in bytes.
const LONGEST: usize = 8 << 20;
/// What the list is called within its object file.
const SYMBOL: &str = "AUDITABLE_VERSION_INFO";

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
    object.add_symbol(Symbol {
        name: SYMBOL.into(),
        value: 0,
        size: list.len() as u64,
        kind: SymbolKind::Data,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    });
    object.write().context("cannot write the list of crates as an object file")
}

/// What to say to `rustc` so that it links such an object file. It is asked for by name, because GNU's linker leaves out
/// what nobody asks for; LLVM's does not.
pub(super) fn linked(object: &Path) -> [String; 2] {
    [format!("-Clink-arg={}", object.display()), format!("-Clink-arg=-Wl,--undefined={SYMBOL}")]
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
    use std::{fs, path::PathBuf, process::Command};

    use super::*;
    use crate::image::packages::{packages, tests::example};

    /// A program that is linked and stripped as the manager is.
    fn program(list: &[u8], more: &[&str]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        fs::write(path("list.o"), list).unwrap();
        fs::write(path("main.rs"), "fn main() {}").unwrap();
        let target = Platform::here().unwrap().target();
        let status = Command::new("rustc")
            .args(["-Cstrip=symbols", "-Ctarget-feature=+crt-static", "--target", &target, "-o"])
            .args([path("program"), path("main.rs")])
            .args(linked(&path("list.o")))
            .args(more)
            .status();
        assert!(status.unwrap().success());
        fs::read(path("program")).unwrap()
    }

    #[test]
    fn a_program_tells_what_it_was_built_from_whichever_linker_made_it() {
        let here = Platform::here().unwrap();
        let packages = packages(here).unwrap();
        let object = object(&packages, here).unwrap();
        check(&program(&object, &[]), &packages).unwrap();
        let by_gnu = program(&object, &["-Clink-arg=-fuse-ld=bfd"]);
        check(&by_gnu, &packages).unwrap();
    }

    #[test]
    fn the_list_tells_where_a_crate_is_from_and_what_it_is_for() {
        let told = list(&packages(Platform::here().unwrap()).unwrap());
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

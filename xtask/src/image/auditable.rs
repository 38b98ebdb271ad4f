//! List of crates in the program: the section `.dep-v0` in the format of `cargo auditable`, which
//! vulnerability scanners read.
//!
//! `cargo auditable` itself cannot be used, because its path influences the names of symbols: the
//! digest would depend on the home folder.

use std::{io::Write as _, path::Path};

use anyhow::{Context, Result, ensure};
use auditable_serde::{DependencyKind, Package, Source, VersionInfo};
use flate2::{Compression, write::ZlibEncoder};
use object::{
    BinaryFormat, Endianness, SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, StandardSegment, Symbol, SymbolSection},
};

use super::{
    packages::{Crate, Packages, Role},
    platform::Platform,
};

/// Version of the format that distinguishes procedural macros from linked crates.
const FORMAT: u32 = 1;
/// Maximum size of the list in bytes.
const MAX_SIZE: usize = 8 << 20;
/// Symbol of the list in its object file.
const SYMBOL: &str = "AUDITABLE_VERSION_INFO";

/// Returns an object file that contains only the list.
///
/// # Errors
/// Returns an error if the list cannot be encoded.
pub(super) fn object(packages: &Packages, platform: Platform) -> Result<Vec<u8>> {
    let list = serde_json::to_vec(&list(packages)).context("cannot serialize the list of crates")?;
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    let list =
        zlib.write_all(&list).and_then(|()| zlib.finish()).context("cannot compress the list of crates")?;
    let mut object = Object::new(BinaryFormat::Elf, platform.object_architecture(), Endianness::Little);
    let segment = object.segment_name(StandardSegment::Data).to_vec();
    let section = object.add_section(segment, b".dep-v0".to_vec(), SectionKind::ReadOnlyData);
    // The section is not loaded: scanners read it from the file.
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
    object.write().context("cannot encode the list of crates as an object file")
}

/// Returns the flags with which `rustc` links the object file.
///
/// GNU's linker omits unreferenced symbols, so the symbol is referenced by name. LLVM's linker
/// keeps it.
pub(super) fn link_flags(object: &Path) -> [String; 2] {
    [format!("-Clink-arg={}", object.display()), format!("-Clink-arg=-Wl,--undefined={SYMBOL}")]
}

/// Checks that a program contains this list.
///
/// # Errors
/// Returns an error if the program has no list or another list.
pub(super) fn check(program: &[u8], packages: &Packages) -> Result<()> {
    let found = auditable_info::audit_info_from_slice(program, MAX_SIZE)
        .context("the program has no list of crates")?;
    ensure!(
        found == list(packages),
        "the list of crates in the program differs from the crates that it was built from"
    );
    Ok(())
}

fn list(packages: &Packages) -> VersionInfo {
    VersionInfo { packages: packages.crates.iter().map(package).collect(), format: FORMAT }
}

fn package(package: &Crate) -> Package {
    let source = match package.source.as_deref() {
        None => Source::Local,
        Some("registry+https://github.com/rust-lang/crates.io-index") => Source::CratesIo,
        Some(other) => Source::from(other.split('+').next().unwrap_or(other)),
    };
    let kind = if package.role == Role::Build { DependencyKind::Build } else { DependencyKind::Runtime };
    Package {
        name: package.name.clone(),
        version: package.version.clone(),
        source,
        kind,
        dependencies: package.dependencies.clone(),
        root: package.role == Role::Program,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf, process::Command};

    use super::*;
    use crate::image::packages::{packages, tests::example};

    /// Builds a program that is linked and stripped like the manager.
    fn program(list: &[u8], more: &[&str]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        fs::write(path("list.o"), list).unwrap();
        fs::write(path("main.rs"), "fn main() {}").unwrap();
        let target = Platform::host().unwrap().target();
        let status = Command::new("rustc")
            .args(["-Cstrip=symbols", "-Ctarget-feature=+crt-static", "--target", &target, "-o"])
            .args([path("program"), path("main.rs")])
            .args(link_flags(&path("list.o")))
            .args(more)
            .status();
        assert!(status.unwrap().success());
        fs::read(path("program")).unwrap()
    }

    #[test]
    fn program_has_list_with_either_linker() {
        let host = Platform::host().unwrap();
        let [packages, ..] = packages(host).unwrap();
        let object = object(&packages, host).unwrap();
        check(&program(&object, &[]), &packages).unwrap();
        let linked_by_gnu = program(&object, &["-Clink-arg=-fuse-ld=bfd"]);
        check(&linked_by_gnu, &packages).unwrap();
    }

    #[test]
    fn list_has_source_and_kind_of_crates() {
        let [manager, ..] = packages(Platform::host().unwrap()).unwrap();
        let list = list(&manager);
        let of = |name: &str| list.packages.iter().find(|package| package.name == name).unwrap();
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
    fn check_rejects_missing_or_different_list() {
        let host = Platform::host().unwrap();
        let listed = object(&example(), host).unwrap();
        check(&listed, &example()).unwrap();
        let mut other = example();
        other.crates[0].version.major += 1;
        assert!(check(&listed, &other).unwrap_err().to_string().contains("differs"));
        let without =
            Object::new(BinaryFormat::Elf, host.object_architecture(), Endianness::Little).write().unwrap();
        assert!(check(&without, &other).unwrap_err().to_string().contains("has no list"));
    }
}

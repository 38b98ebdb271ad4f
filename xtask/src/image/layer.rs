//! Layer of an image, which depends only on the files: times, owners, and order are fixed.

use std::{collections::BTreeSet, io::Write as _, path::Path};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// Owner of all entries, so that the program cannot change files of the image.
const ROOT: u64 = 0;

/// File of a layer.
pub(super) struct Entry {
    pub(super) path: &'static str,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

/// Returns the files and their folders, sorted by path, as a tar archive.
///
/// # Errors
/// Returns an error if a path is too long for an archive.
pub(super) fn layer(entries: &[Entry]) -> Result<Vec<u8>> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.path);
    let parents = |path: &'static str| Path::new(path).ancestors().skip(1);
    let folders: BTreeSet<_> = sorted.iter().flat_map(|entry| parents(entry.path)).collect();
    let mut tar = Builder::new(Vec::new());
    for folder in folders.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
        let mut header = header(EntryType::Directory, 0o755, 0);
        let path = format!("{}/", folder.display());
        tar.append_data(&mut header, &path, std::io::empty())
            .with_context(|| format!("cannot add {path}"))?;
    }
    for Entry { path, mode, content } in sorted {
        add(&mut tar, path, *mode, content)?;
    }
    tar.into_inner().context("cannot finish the layer")
}

/// Adds a file to an archive.
///
/// # Errors
/// Returns an error if the path is too long for an archive.
pub(super) fn add(tar: &mut Builder<Vec<u8>>, path: &str, mode: u32, content: &[u8]) -> Result<()> {
    let mut header = header(EntryType::Regular, mode, content.len());
    tar.append_data(&mut header, path, content).with_context(|| format!("cannot add {path}"))
}

fn header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_uid(ROOT);
    header.set_gid(ROOT);
    header.set_mtime(0);
    header
}

/// Compresses bytes with gzip.
///
/// # Errors
/// Returns an error if compression fails. Writes to memory do not fail.
pub(super) fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).context("cannot compress the layer")
}

//! The archive file.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use tar::{Builder, Header};

use super::File;

/// Directory in the archive.
const DIRECTORY: &str = "ensemble-report";

/// Writes the files to a new archive that only its owner can read.
///
/// # Errors
/// Returns an error if the file exists or cannot be written.
pub(super) fn write(path: &Path, files: &[File], now: Timestamp) -> Result<()> {
    let packed = pack(files, now).context("cannot pack the report")?;
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let context = || format!("cannot create {}; use another path for --output", path.display());
    open.with_context(context)?.write_all(&packed).with_context(context)
}

fn pack(files: &[File], now: Timestamp) -> std::io::Result<Vec<u8>> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for File { path, text } in files {
        let mut header = Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(text.len().try_into().unwrap_or(u64::MAX));
        header.set_mtime(now.as_second().try_into().unwrap_or_default());
        archive.append_data(&mut header, format!("{DIRECTORY}/{path}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn unpacks_what_it_packs() {
        let long = format!("objects/{}.yaml", "x".repeat(200));
        let files = [File::new("versions.txt", "1.2.3\n"), File::new(&long, "kind: PodSet\n")];
        let packed = pack(&files, Timestamp::UNIX_EPOCH).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(packed.as_slice()));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push((entry.path().unwrap().display().to_string(), text));
        }
        assert_eq!(found[0], ("ensemble-report/versions.txt".to_owned(), "1.2.3\n".to_owned()));
        assert_eq!(found[1].0, format!("ensemble-report/{long}"));
    }

    #[test]
    fn does_not_overwrite_existing_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.tar.gz");
        write(&path, &[], Timestamp::UNIX_EPOCH).unwrap();
        let error = write(&path, &[], Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(error.to_string().contains("use another path for --output"), "{error}");
    }
}

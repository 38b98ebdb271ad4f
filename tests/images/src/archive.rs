//! OCI archives: image layouts as tar files.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result, ensure};
use tar::Archive;

use crate::{Digest, digest::DigestWriter, oci::blob_path};

/// Prefix of blobs in an archive.
const BLOBS: &str = "blobs/sha256/";

/// Unpacks an archive into its own directory below `directory`, and returns the path.
///
/// # Errors
/// Returns an error if the archive is not a complete image layout, or if `check` fails.
pub(crate) fn unpack(
    archive: &Path,
    directory: &Path,
    check: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    let work = tempfile::tempdir_in(directory).context("create a directory for the archive")?;
    let file = File::open(archive).with_context(|| format!("open {}", archive.display()))?;
    unpack_into(file, work.path())
        .with_context(|| format!("unpack {}; is it an OCI archive?", archive.display()))?;
    check(work.path()).with_context(|| format!("load {}", archive.display()))?;
    let layout = directory.join(Digest::of_file(&work.path().join("index.json"))?.hex());
    if layout.is_dir() {
        // The new time of the index makes stores add the images again.
        let index = layout.join("index.json");
        File::options()
            .append(true)
            .open(&index)
            .and_then(|file| file.set_modified(SystemTime::now()))
            .with_context(|| format!("set the time of {}", index.display()))?;
    } else {
        fs::rename(work.path(), &layout)
            .with_context(|| format!("move the images to {}", layout.display()))?;
    }
    Ok(layout)
}

/// Returns whether `path` is one that [`unpack`] returns.
pub(crate) fn is_layout(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("sha256:{name}").parse::<Digest>().is_ok()
}

/// Writes the index and the blobs of an archive. Other files, which only Docker reads, are skipped.
fn unpack_into(archive: impl Read, layout: &Path) -> Result<()> {
    fs::create_dir_all(layout.join(BLOBS)).context("create the directory for blobs")?;
    for entry in Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        if path == "index.json" {
            write(&mut entry, &layout.join("index.json"))?;
        } else if let Some(digest) = blob(&path) {
            let written = write(&mut entry, &layout.join(blob_path(&digest)))?;
            ensure!(written == digest, "the content of the blob {digest} has the digest {written}");
        }
    }
    ensure!(layout.join("index.json").is_file(), "the archive has no index.json");
    Ok(())
}

/// Returns the digest of the blob at a path, if the path is one of a blob.
fn blob(path: &str) -> Option<Digest> {
    format!("sha256:{}", path.strip_prefix(BLOBS)?).parse().ok()
}

fn write(content: &mut impl Read, path: &Path) -> Result<Digest> {
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    let mut writer = DigestWriter::new(file);
    io::copy(content, &mut writer).with_context(|| format!("write {}", path.display()))?;
    Ok(writer.finish()?.0)
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    fn tar(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (path, content) in entries {
            let mut header = Header::new_gnu();
            header.set_size(content.len() as u64);
            // Not checked, unlike append_data, so that paths can lead out of the archive.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            tar.append(&header, content.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn writes_only_index_and_blobs() {
        let directory = tempfile::tempdir().unwrap();
        let layout = directory.path().join("layout");
        let blob = format!("blobs/sha256/{}", Digest::of(b"content").hex());
        let entries = [
            ("index.json", "{}"),
            (blob.as_str(), "content"),
            ("manifest.json", "{}"),
            ("../outside", "x"),
            ("blobs/sha256/../../../outside", "x"),
        ];
        unpack_into(tar(&entries).as_slice(), &layout).unwrap();
        assert_eq!(fs::read_to_string(layout.join(blob)).unwrap(), "content");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&layout).unwrap().count(), 2);
    }

    #[test]
    fn rejects_damaged_blobs_and_other_archives() {
        let directory = tempfile::tempdir().unwrap();
        let blob = format!("blobs/sha256/{}", Digest::of(b"content").hex());
        let damaged = tar(&[("index.json", "{}"), (&blob, "other")]);
        assert!(unpack_into(damaged.as_slice(), &directory.path().join("a")).is_err());
        let other = tar(&[("file", "content")]);
        let error = unpack_into(other.as_slice(), &directory.path().join("b")).unwrap_err();
        assert!(error.to_string().contains("index.json"));
    }
}

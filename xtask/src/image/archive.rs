//! An OCI archive with one layer. What goes in decides every byte: there are no times, owners or orders of this machine.

use std::{collections::BTreeSet, fmt::Write as _, io::Write as _, path::Path};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

/// Whom the program runs as; the manifests of `deploy/manager` say so too.
const USER: &str = "65532:65532";
/// As whom the archive's entries are written and no file of the image can be changed.
const ROOT: u64 = 0;

/// What an image holds.
pub(super) struct Image<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) architecture: &'a str,
    pub(super) entrypoint: &'a str,
    pub(super) entries: Vec<Entry>,
}

/// A file.
pub(super) struct Entry {
    pub(super) path: &'static str,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

/// An image as a file, and the digest of its manifest, by which it can be asked for.
pub(super) struct Archive {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: String,
}

/// Something that the archive names by its digest.
struct Blob {
    media_type: &'static str,
    digest: String,
    content: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, content: Vec<u8>) -> Self {
        Self { media_type, digest: sha256(&content), content }
    }

    fn json(media_type: &'static str, content: &Value) -> Self {
        Self::new(media_type, content.to_string().into_bytes())
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest, "size": self.content.len() })
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

/// Writes an image.
///
/// # Errors
/// When a path is longer than an archive can name.
pub(super) fn write(image: &Image<'_>) -> Result<Archive> {
    let layer = layer(&image.entries)?;
    let unpacked = sha256(&layer);
    let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", compressed(&layer)?);
    let config = Blob::json("application/vnd.oci.image.config.v1+json", &config(image, &unpacked));
    let manifest = Blob::json(
        "application/vnd.oci.image.manifest.v1+json",
        &json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
            "annotations": annotations(image),
        }),
    );
    let named = json!({
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": manifest.content.len(),
        "annotations": {
            "org.opencontainers.image.ref.name": image.version,
            // By which containerd and Docker call what they take from the archive.
            "io.containerd.image.name": format!("docker.io/library/{}", image.name),
        },
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named],
    });
    let mut archive = Builder::new(Vec::new());
    add(&mut archive, "oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes())?;
    add(&mut archive, "index.json", 0o644, index.to_string().as_bytes())?;
    let mut blobs = [&layer, &config, &manifest];
    blobs.sort_by_key(|blob| &blob.digest);
    for blob in blobs {
        add(&mut archive, &blob.path(), 0o644, &blob.content)?;
    }
    let bytes = archive.into_inner().context("cannot finish the archive")?;
    Ok(Archive { bytes, digest: manifest.digest })
}

fn config(image: &Image<'_>, unpacked: &str) -> Value {
    json!({
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [image.entrypoint],
            "WorkingDir": "/",
            "Labels": annotations(image),
        },
        "rootfs": { "type": "layers", "diff_ids": [unpacked] },
        "history": [{ "created_by": "cargo xtask image" }],
    })
}

fn annotations(image: &Image<'_>) -> Value {
    json!({
        "org.opencontainers.image.title": "ensemble",
        "org.opencontainers.image.description": "Kubernetes controllers that run together in one small pod",
        "org.opencontainers.image.version": image.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

/// The files, and the folders that they are in, by name.
fn layer(entries: &[Entry]) -> Result<Vec<u8>> {
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

fn add(tar: &mut Builder<Vec<u8>>, path: &str, mode: u32, content: &[u8]) -> Result<()> {
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

fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).context("cannot compress the layer")
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read as _};

    use flate2::read::GzDecoder;
    use tar::Archive as Tar;

    use super::*;

    fn image(entries: Vec<Entry>) -> Image<'static> {
        Image { name: "some:1.2.3", version: "1.2.3", architecture: "amd64", entrypoint: "/program", entries }
    }

    fn entries() -> Vec<Entry> {
        vec![
            Entry { path: "program", mode: 0o755, content: vec![7; 100_000] },
            Entry { path: "etc/ssl/roots.crt", mode: 0o644, content: b"roots".to_vec() },
        ]
    }

    fn files(tar: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut archive = Tar::new(tar);
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            assert_eq!((entry.header().mtime().unwrap(), entry.header().uid().unwrap()), (0, 0));
            (entry.path().unwrap().display().to_string(), (entry.header().mode().unwrap(), content))
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn the_same_files_make_the_same_archive_whatever_their_order() {
        let first = write(&image(entries())).unwrap();
        let second = write(&image(entries().into_iter().rev().collect())).unwrap();
        assert_eq!((first.digest, first.bytes), (second.digest, second.bytes));
        let mut other = entries();
        other[0].content[0] = 8;
        assert_ne!(write(&image(other)).unwrap().digest, write(&image(entries())).unwrap().digest);
    }

    #[test]
    fn an_archive_is_followed_from_its_index_to_its_files() {
        let archive = write(&image(entries())).unwrap();
        let outer = files(&archive.bytes);
        let json = |name: &str| serde_json::from_slice::<Value>(&outer[name].1).unwrap();
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let content = &outer[&format!("blobs/{}", digest.replace(':', "/"))].1;
            assert_eq!(sha256(content), digest);
            assert_eq!(descriptor["size"], content.len());
            content.clone()
        };
        assert_eq!(json("oci-layout")["imageLayoutVersion"], "1.0.0");
        let named = &json("index.json")["manifests"][0];
        assert_eq!(named["digest"], archive.digest);
        let manifest: Value = serde_json::from_slice(&blob(named)).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        let mut layer = Vec::new();
        GzDecoder::new(&*blob(&manifest["layers"][0])).read_to_end(&mut layer).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([sha256(&layer)]));
        let inner = files(&layer);
        let modes: Vec<_> = inner.iter().map(|(path, (mode, _))| (path.as_str(), *mode)).collect();
        let expected =
            [("etc/", 0o755), ("etc/ssl/", 0o755), ("etc/ssl/roots.crt", 0o644), ("program", 0o755)];
        assert_eq!(modes, expected);
        assert_eq!(inner["program"].1, vec![7; 100_000]);
    }
}

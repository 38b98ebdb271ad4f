//! An OCI archive: for each machine an image of one layer, and an index if there are several. Pure.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tar::Builder;

use super::layer::{Entry, add, compressed, layer, sha256};

/// Whom the program runs as; the manifests of `deploy/manager` say so too.
const USER: &str = "65532:65532";
/// What lists images.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What an image holds.
pub(super) struct Image<'a> {
    pub(super) version: &'a str,
    pub(super) architecture: &'a str,
    pub(super) entrypoint: &'a str,
    /// With what it was built.
    pub(super) toolchain: String,
    pub(super) entries: Vec<Entry>,
}

/// Images as a file, and the digest by which they can be asked for: of the only image's manifest, or of the index.
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

/// Writes images, each for another machine.
///
/// # Errors
/// When there are none, or a path is longer than an archive can name.
pub(super) fn write(name: &str, images: &[Image<'_>]) -> Result<Archive> {
    let first = images.first().context("an archive without images is of no use")?;
    let mut blobs = Vec::new();
    let mut listed = Vec::new();
    for image in images {
        let of_image = self::blobs(image)?;
        let mut descriptor = of_image.last().map(Blob::descriptor).unwrap_or_default();
        set(&mut descriptor, "platform", json!({ "architecture": image.architecture, "os": "linux" }));
        listed.push(descriptor);
        blobs.extend(of_image);
    }
    if images.len() > 1 {
        let index = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": listed, "annotations": annotations(first),
        });
        blobs.push(Blob::json(INDEX, &index));
    }
    let named = blobs.last().context("an image has no manifest")?;
    let digest = named.digest.clone();
    let mut descriptor = named.descriptor();
    let called = json!({
        "org.opencontainers.image.ref.name": first.version,
        // By which containerd and Docker call what they take from the archive.
        "io.containerd.image.name": format!("docker.io/library/{name}"),
    });
    set(&mut descriptor, "annotations", called);
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor] });
    let mut archive = Builder::new(Vec::new());
    add(&mut archive, "oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes())?;
    add(&mut archive, "index.json", 0o644, index.to_string().as_bytes())?;
    blobs.sort_by(|one, other| one.digest.cmp(&other.digest));
    blobs.dedup_by(|one, other| one.digest == other.digest);
    for blob in blobs {
        add(&mut archive, &blob.path(), 0o644, &blob.content)?;
    }
    Ok(Archive { bytes: archive.into_inner().context("cannot finish the archive")?, digest })
}

/// The layer, the configuration, and last the manifest, which names both.
fn blobs(image: &Image<'_>) -> Result<Vec<Blob>> {
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
    Ok(vec![layer, config, manifest])
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
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
        "history": [{ "created_by": "cargo xtask image", "comment": image.toolchain }],
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

#[cfg(test)]
mod tests;

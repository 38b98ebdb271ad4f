//! OCI archive with an image of one layer for each platform, and an index if there are several.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tar::Builder;

use super::layer::{Entry, add, compress, layer, sha256};

/// User and group of the program, as in the manifests of `deploy/manager`.
const USER: &str = "65532:65532";
/// Media type of an index.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Contents of an image.
pub(super) struct Image<'a> {
    pub(super) version: &'a str,
    pub(super) architecture: &'a str,
    pub(super) entrypoint: &'a str,
    /// Description of the toolchain.
    pub(super) toolchain: String,
    pub(super) entries: Vec<Entry>,
}

/// Archive, and the digest of its index, or of the manifest of its only image.
pub(super) struct Archive {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: String,
}

/// Content that the archive refers to by its digest.
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

/// Writes images, each for another platform.
///
/// # Errors
/// Returns an error if there is no image, or if a path is too long for an archive.
pub(super) fn write(name: &str, images: &[Image<'_>]) -> Result<Archive> {
    let first = images.first().context("an archive needs at least one image")?;
    let mut blobs = Vec::new();
    let mut manifests = Vec::new();
    for image in images {
        let image_blobs = self::blobs(image)?;
        let mut descriptor = image_blobs.last().map(Blob::descriptor).unwrap_or_default();
        set(&mut descriptor, "platform", json!({ "architecture": image.architecture, "os": "linux" }));
        manifests.push(descriptor);
        blobs.extend(image_blobs);
    }
    if images.len() > 1 {
        let index = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": annotations(first),
        });
        blobs.push(Blob::json(INDEX, &index));
    }
    let root = blobs.last().context("the image has no manifest")?;
    let digest = root.digest.clone();
    let mut descriptor = root.descriptor();
    let names = json!({
        "org.opencontainers.image.ref.name": first.version,
        // Name of the image after containerd or Docker loads the archive.
        "io.containerd.image.name": format!("docker.io/library/{name}"),
    });
    set(&mut descriptor, "annotations", names);
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

/// Returns the layer, the configuration, and the manifest of an image, in this order.
fn blobs(image: &Image<'_>) -> Result<Vec<Blob>> {
    let layer = layer(&image.entries)?;
    let diff_id = sha256(&layer);
    let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", compress(&layer)?);
    let config = Blob::json("application/vnd.oci.image.config.v1+json", &config(image, &diff_id));
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

fn config(image: &Image<'_>, diff_id: &str) -> Value {
    json!({
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [image.entrypoint],
            "WorkingDir": "/",
            "Labels": annotations(image),
        },
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
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

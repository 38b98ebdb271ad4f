//! OCI archive with an image of one layer for each platform, and an index if there are several.

use anyhow::{Context, Result};
use images::{
    Digest,
    oci::{self, Blob, INDEX},
};
use serde_json::{Value, json};
use tar::Builder;

use super::layer::{Entry, add, compress, layer};

/// User and group of the program, as in the manifests of `deploy/manager`.
const USER: &str = "65532:65532";

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
    pub(super) digest: Digest,
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
        oci::NAME_ANNOTATION: format!("docker.io/library/{name}"),
    });
    set(&mut descriptor, "annotations", names);
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor] });
    let mut archive = Builder::new(Vec::new());
    add(&mut archive, "oci-layout", 0o644, oci::layout().to_string().as_bytes())?;
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
    let diff_id = Digest::of(&layer);
    let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", compress(&layer)?);
    let config = Blob::json(oci::CONFIG, &config(image, &diff_id));
    let manifest = Blob::json(
        oci::MANIFEST,
        &json!({
            "schemaVersion": 2,
            "mediaType": oci::MANIFEST,
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

fn config(image: &Image<'_>, diff_id: &Digest) -> Value {
    json!({
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [image.entrypoint],
            "WorkingDir": "/",
            "Labels": annotations(image),
        },
        "rootfs": { "type": "layers", "diff_ids": [diff_id.to_string()] },
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
mod tests {
    use std::{collections::BTreeMap, io::Read as _};

    use flate2::read::GzDecoder;
    use tar::Archive as Tar;

    use super::*;

    fn image(architecture: &'static str, entries: Vec<Entry>) -> Image<'static> {
        let toolchain = "a compiler".to_owned();
        Image { version: "1.2.3", architecture, entrypoint: "/program", toolchain, entries }
    }

    fn entries() -> Vec<Entry> {
        vec![
            Entry { path: "program", mode: 0o755, content: vec![7; 100_000] },
            Entry { path: "etc/ssl/roots.crt", mode: 0o644, content: b"roots".to_vec() },
        ]
    }

    /// Returns an archive with one image.
    fn single(entries: Vec<Entry>) -> Archive {
        write("some:1.2.3", &[image("amd64", entries)]).unwrap()
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

    /// Files of an archive by path.
    struct Files(BTreeMap<String, (u32, Vec<u8>)>);

    impl Files {
        fn json(&self, name: &str) -> Value {
            serde_json::from_slice(&self.0[name].1).unwrap()
        }

        fn blob(&self, descriptor: &Value) -> Vec<u8> {
            let digest = descriptor["digest"].as_str().unwrap();
            let content = &self.0[&format!("blobs/{}", digest.replace(':', "/"))].1;
            assert_eq!(Digest::of(content).to_string(), digest);
            assert_eq!(descriptor["size"], content.len());
            content.clone()
        }

        fn json_blob(&self, descriptor: &Value) -> Value {
            serde_json::from_slice(&self.blob(descriptor)).unwrap()
        }
    }

    #[test]
    fn archive_does_not_depend_on_order_of_files() {
        let (first, second) = (single(entries()), single(entries().into_iter().rev().collect()));
        assert_eq!((first.digest, first.bytes), (second.digest, second.bytes));
        let mut other = entries();
        other[0].content[0] = 8;
        assert_ne!(single(other).digest, single(entries()).digest);
    }

    #[test]
    fn index_refers_to_manifest_config_and_layer() {
        let archive = single(entries());
        let outer = Files(files(&archive.bytes));
        assert_eq!(outer.json("oci-layout")["imageLayoutVersion"], "1.0.0");
        let root = &outer.json("index.json")["manifests"][0];
        assert_eq!(root["digest"], archive.digest.to_string());
        let manifest = outer.json_blob(root);
        let config = outer.json_blob(&manifest["config"]);
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["history"][0]["comment"], "a compiler");
        let mut layer = Vec::new();
        GzDecoder::new(&*outer.blob(&manifest["layers"][0])).read_to_end(&mut layer).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([Digest::of(&layer).to_string()]));
        let inner = files(&layer);
        let modes: Vec<_> = inner.iter().map(|(path, (mode, _))| (path.as_str(), *mode)).collect();
        let expected =
            [("etc/", 0o755), ("etc/ssl/", 0o755), ("etc/ssl/roots.crt", 0o644), ("program", 0o755)];
        assert_eq!(modes, expected);
        assert_eq!(inner["program"].1, vec![7; 100_000]);
    }

    #[test]
    fn dockerfile_builds_the_same_image() {
        let path = cluster::program::workspace().join("deploy/Dockerfile");
        let dockerfile = std::fs::read_to_string(path).unwrap();
        let (version, entrypoint) = (crate::image::VERSION, crate::image::PROGRAM);
        let config = config(&Image { version, entrypoint, ..image("amd64", Vec::new()) }, &Digest::of(b""));
        let config = &config["config"];
        let mut expected = vec![
            "FROM scratch".to_owned(),
            format!("COPY ensemble-manager {entrypoint}"),
            format!("COPY {name} /{name}", name = crate::image::packages::INSTANCE.name),
            format!("COPY {name} /{name}", name = crate::image::packages::PROXY.name),
            format!("COPY ca-certificates.crt /{}", crate::image::ca_certificates::PATH),
        ];
        let labels = config["Labels"].as_object().unwrap().iter();
        expected.extend(labels.map(|(name, value)| format!("LABEL {name}={value}")));
        expected.push(format!("USER {}", config["User"].as_str().unwrap()));
        expected.push(format!("WORKDIR {}", config["WorkingDir"].as_str().unwrap()));
        expected.push(format!("ENTRYPOINT {}", config["Entrypoint"]));
        let lines: Vec<_> = dockerfile.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn multi_platform_archive_has_index() {
        let archive = write("some:1.2.3", &[image("amd64", entries()), image("arm64", entries())]).unwrap();
        let outer = Files(files(&archive.bytes));
        let root = &outer.json("index.json")["manifests"];
        assert_eq!(root.as_array().unwrap().len(), 1);
        assert_eq!(
            (&root[0]["digest"], &root[0]["mediaType"]),
            (&json!(archive.digest.to_string()), &json!(INDEX))
        );
        let index = outer.json_blob(&root[0]);
        for (manifest, architecture) in index["manifests"].as_array().unwrap().iter().zip(["amd64", "arm64"])
        {
            assert_eq!(manifest["platform"], json!({ "architecture": architecture, "os": "linux" }));
            let config = outer.json_blob(&outer.json_blob(manifest)["config"]);
            assert_eq!(config["architecture"], architecture);
        }
        assert!(write("some:1.2.3", &[]).is_err());
    }
}

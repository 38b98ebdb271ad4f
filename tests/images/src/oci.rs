//! Formats of the OCI image specification.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Digest;

/// Media type of an index, which lists images for several platforms.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of a manifest, which describes one image.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of the configuration of an image.
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Media type of an uncompressed layer.
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// Annotation with the full name of an image, which containerd and Docker read.
pub const NAME_ANNOTATION: &str = "io.containerd.image.name";

/// Content that an image refers to by its digest.
#[derive(Clone, Debug)]
pub struct Blob {
    /// Digest of the content.
    pub digest: Digest,
    /// Content of the blob.
    pub content: Vec<u8>,
    media_type: &'static str,
}

impl Blob {
    /// Creates a blob.
    pub fn new(media_type: &'static str, content: Vec<u8>) -> Self {
        Self { digest: Digest::of(&content), content, media_type }
    }

    /// Creates a blob that contains JSON.
    pub fn json(media_type: &'static str, content: &Value) -> Self {
        Self::new(media_type, content.to_string().into_bytes())
    }

    /// Returns the descriptor by which other blobs refer to this one.
    pub fn descriptor(&self) -> Value {
        descriptor(self.media_type, &self.digest, self.content.len() as u64)
    }

    /// Returns the path in an image layout.
    pub fn path(&self) -> String {
        blob_path(&self.digest)
    }
}

/// Returns the descriptor of a blob.
pub(crate) fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Value {
    json!({ "mediaType": media_type, "digest": digest.to_string(), "size": size })
}

/// Returns the path of a blob in an image layout.
pub(crate) fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Returns the content of the file `oci-layout`.
pub fn layout() -> Value {
    json!({ "imageLayoutVersion": "1.0.0" })
}

/// Defaults with which a container runs. A Pod can override them.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// User by name or number, root if empty.
    pub user: String,
    /// Program and arguments, which a Pod overrides with `command`.
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program if there is no entrypoint. A Pod overrides them with `args`.
    pub cmd: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Working directory, `/` if empty.
    pub working_dir: String,
    /// TCP ports of the program, for documentation.
    pub exposed_ports: Vec<u16>,
}

impl Config {
    /// Returns the object `config` of the configuration.
    pub(crate) fn to_json(&self) -> Value {
        let env: Vec<_> = self.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let ports: Map<_, _> =
            self.exposed_ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
        let working_dir = if self.working_dir.is_empty() { "/" } else { &self.working_dir };
        let mut config = json!({ "Env": env, "WorkingDir": working_dir });
        if let Some(fields) = config.as_object_mut() {
            let optional = [
                ("User", json!(self.user)),
                ("Entrypoint", json!(self.entrypoint)),
                ("Cmd", json!(self.cmd)),
                ("ExposedPorts", Value::Object(ports)),
            ];
            let is_set = |value: &Value| *value != json!("") && *value != json!([]) && *value != json!({});
            fields.extend(
                optional
                    .into_iter()
                    .filter(|(_, value)| is_set(value))
                    .map(|(key, value)| (key.to_owned(), value)),
            );
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_has_only_fields_that_are_set() {
        assert_eq!(Config::default().to_json(), json!({ "Env": [], "WorkingDir": "/" }));
        let config = Config {
            user: "nobody".to_owned(),
            cmd: vec!["run".to_owned()],
            env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            exposed_ports: vec![80],
            ..Config::default()
        };
        let expected = json!({
            "User": "nobody", "Cmd": ["run"], "Env": ["A=b"], "ExposedPorts": { "80/tcp": {} }, "WorkingDir": "/",
        });
        assert_eq!(config.to_json(), expected);
    }

    #[test]
    fn descriptor_refers_to_content() {
        let blob = Blob::json(CONFIG, &json!({}));
        let expected = json!({ "mediaType": CONFIG, "digest": Digest::of(b"{}").to_string(), "size": 2 });
        assert_eq!(blob.descriptor(), expected);
        assert_eq!(blob.path(), format!("blobs/sha256/{}", blob.digest.hex()));
    }
}

//! Images for unit tests.

use std::{fs, io::Write as _, path::Path};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::{Content, Image};

/// Returns an image with one file, which contains the name in the cache.
pub(crate) fn image(name: &'static str, served_as: &str) -> Image {
    Image::new(name).served_as(served_as).unwrap().file("/etc/name", 0o644, Content::Text(name.to_owned()))
}

/// Returns an archive of a layout whose image has an annotation.
pub(crate) fn archive(layout: &Path, annotation: &str, value: &str) -> NamedTempFile {
    let mut index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    index["manifests"][0]["annotations"] = json!({ annotation: value });
    let index = index.to_string();
    let mut tar = tar::Builder::new(NamedTempFile::new().unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(index.len() as u64);
    tar.append_data(&mut header, "index.json", index.as_bytes()).unwrap();
    tar.append_dir_all("blobs", layout.join("blobs")).unwrap();
    let mut file = tar.into_inner().unwrap();
    file.flush().unwrap();
    file
}

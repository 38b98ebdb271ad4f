//! Builds real images, which needs a C compiler and Debian's packages.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::{fs, path::Path};

use anyhow::Result;
use images::{Image, catalog};

/// Returns the manifest's digest of a built image.
fn manifest(layout: &Path) -> String {
    let index = fs::read_to_string(layout.join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    index["manifests"][0]["digest"].as_str().unwrap().to_owned()
}

/// Builds an image twice in different caches, checks that the results are equal, and returns the
/// paths in the layer.
fn build(image: fn() -> Result<Image>) -> Vec<String> {
    let caches = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let layouts = caches.each_ref().map(|cache| image().unwrap().build(cache.path(), &|_| ()).unwrap());
    assert_eq!(manifest(&layouts[0]), manifest(&layouts[1]));
    let blobs = fs::read_dir(layouts[0].join("blobs/sha256")).unwrap();
    let layer = blobs.map(|blob| blob.unwrap().path()).max_by_key(|path| path.metadata().unwrap().len());
    let mut archive = tar::Archive::new(fs::File::open(layer.unwrap()).unwrap());
    let paths = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string());
    paths.collect()
}

#[test]
fn builds_pause_reproducibly() {
    assert_eq!(build(catalog::pause), ["pause"]);
}

#[test]
fn builds_busybox_reproducibly() {
    let paths = build(catalog::busybox);
    for path in ["bin", "usr/bin/busybox", "usr/bin/sh", "usr/bin/sleep", "etc/passwd", "tmp/"] {
        assert!(paths.iter().any(|found| found == path), "{path} is missing in {paths:?}");
    }
    assert!(paths.is_sorted() && !paths.iter().any(|path| path.starts_with("usr/share/doc")));
}

#[test]
fn processes_build_an_image_once() {
    let cache = tempfile::tempdir().unwrap();
    let lines = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let progress = |line: &str| lines.lock().unwrap().push(line.to_owned());
                catalog::pause().unwrap().build(cache.path(), &progress).unwrap()
            });
        }
    });
    assert_eq!(lines.into_inner().unwrap(), ["building the image pause, once"]);
    let mut names: Vec<_> =
        fs::read_dir(cache.path().join("images")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
}

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
        assert_eq!(sha256(content), digest);
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
    assert_eq!(root["digest"], archive.digest);
    let manifest = outer.json_blob(root);
    let config = outer.json_blob(&manifest["config"]);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["history"][0]["comment"], "a compiler");
    let mut layer = Vec::new();
    GzDecoder::new(&*outer.blob(&manifest["layers"][0])).read_to_end(&mut layer).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"], json!([sha256(&layer)]));
    let inner = files(&layer);
    let modes: Vec<_> = inner.iter().map(|(path, (mode, _))| (path.as_str(), *mode)).collect();
    let expected = [("etc/", 0o755), ("etc/ssl/", 0o755), ("etc/ssl/roots.crt", 0o644), ("program", 0o755)];
    assert_eq!(modes, expected);
    assert_eq!(inner["program"].1, vec![7; 100_000]);
}

#[test]
fn multi_platform_archive_has_index() {
    let archive = write("some:1.2.3", &[image("amd64", entries()), image("arm64", entries())]).unwrap();
    let outer = Files(files(&archive.bytes));
    let root = &outer.json("index.json")["manifests"];
    assert_eq!(root.as_array().unwrap().len(), 1);
    assert_eq!((&root[0]["digest"], &root[0]["mediaType"]), (&json!(archive.digest), &json!(INDEX)));
    let index = outer.json_blob(&root[0]);
    for (manifest, architecture) in index["manifests"].as_array().unwrap().iter().zip(["amd64", "arm64"]) {
        assert_eq!(manifest["platform"], json!({ "architecture": architecture, "os": "linux" }));
        let config = outer.json_blob(&outer.json_blob(manifest)["config"]);
        assert_eq!(config["architecture"], architecture);
    }
    assert!(write("some:1.2.3", &[]).is_err());
}

//! Images that a registry serves.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result, ensure};
use parking_lot::RwLock;
use serde::Deserialize;

use crate::{
    Digest, Image, archive,
    name::{ANY_TAG, ImageName, Repository},
    oci,
};

/// Images by name. A registry serves an image as soon as it is added, also by another store with the
/// same directory, even in another process.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    index: RwLock<Index>,
}

#[derive(Debug, Default)]
struct Index {
    tags: BTreeMap<Repository, BTreeMap<String, Digest>>,
    blobs: BTreeMap<Digest, PathBuf>,
    /// Layouts from archives, with the time when they were unpacked.
    unpacked: BTreeMap<PathBuf, SystemTime>,
}

/// File `index.json` of an image layout.
#[derive(Deserialize)]
struct LayoutIndex {
    manifests: Vec<LayoutManifest>,
}

#[derive(Deserialize)]
struct LayoutManifest {
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl LayoutManifest {
    /// Returns the full name of the image. Podman writes it where others write only the tag.
    fn name(&self) -> Option<&str> {
        let podman = self.annotations.get("org.opencontainers.image.ref.name");
        let full = self.annotations.get(oci::NAME_ANNOTATION);
        full.or_else(|| podman.filter(|name| name.contains('/'))).map(String::as_str)
    }
}

impl Store {
    /// Creates an empty store. Images of archives are unpacked below `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), index: RwLock::default() }
    }

    /// Adds a built image under all names of its description.
    ///
    /// # Errors
    /// Returns an error if `layout` is not an image layout with one image.
    pub fn add(&self, image: &Image, layout: &Path) -> Result<()> {
        let manifests = manifests(layout)?;
        ensure!(manifests.len() == 1, "{} must contain one image", layout.display());
        let digest = manifests.first().map(|manifest| manifest.digest.parse()).context("no image")??;
        let named = image.served_as.iter().map(|name| (name.clone(), Clone::clone(&digest))).collect();
        self.insert(layout, named)
    }

    /// Adds the images of an OCI archive, for example of `cargo xtask image` or `docker save`, and
    /// returns their names.
    ///
    /// # Errors
    /// Returns an error if the archive is not complete, or if an image in it has no name.
    pub fn load_archive(&self, path: &Path) -> Result<Vec<String>> {
        let check = |layout: &Path| named(layout).map(drop);
        let layout = archive::unpack(path, &self.directory, check)?;
        let images = named(&layout)?;
        let names = images.iter().map(|(name, _)| name.to_string()).collect();
        self.insert(&layout, images)?;
        Ok(names)
    }

    /// Adds what has been unpacked since the last call.
    fn refresh(&self) -> Result<()> {
        let mut found: Vec<_> = layouts(&self.directory)?
            .into_iter()
            .filter(|(path, time)| self.index.read().unpacked.get(path) != Some(time))
            .collect();
        // The image that was loaded last has a tag.
        found.sort_by_key(|(_, time)| *time);
        for (layout, time) in found {
            self.insert(&layout, named(&layout)?)?;
            self.index.write().unpacked.insert(layout, time);
        }
        Ok(())
    }

    fn insert(&self, layout: &Path, named: Vec<(ImageName, Digest)>) -> Result<()> {
        let blobs = blobs(layout)?;
        for (name, digest) in &named {
            ensure!(blobs.contains_key(digest), "the manifest {digest} of {name} is missing");
        }
        let mut index = self.index.write();
        index.blobs.extend(blobs);
        for (name, digest) in named {
            index.tags.entry(name.repository).or_default().insert(name.tag, digest);
        }
        Ok(())
    }

    /// Returns the digest of the manifest of a tag.
    ///
    /// # Errors
    /// Returns an error if the directory of archives cannot be read.
    pub(crate) fn resolve(&self, repository: &Repository, tag: &str) -> Result<Option<Digest>> {
        self.refresh()?;
        let index = self.index.read();
        let tags = index.tags.get(repository);
        Ok(tags.and_then(|tags| tags.get(tag).or_else(|| tags.get(ANY_TAG)).cloned()))
    }

    /// Returns the path of a blob.
    pub(crate) fn blob(&self, digest: &Digest) -> Option<PathBuf> {
        self.index.read().blobs.get(digest).cloned()
    }
}

/// Returns the layouts below a directory, with the times when they were unpacked.
fn layouts(directory: &Path) -> Result<Vec<(PathBuf, SystemTime)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("list {}", directory.display()))?,
    };
    // Temporary directories have no index, or are gone.
    let layout =
        |path: PathBuf| Some((path.clone(), fs::metadata(path.join("index.json")).ok()?.modified().ok()?));
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| archive::is_layout(path))
        .filter_map(layout)
        .collect())
}

/// Returns the names of the images in a layout.
fn named(layout: &Path) -> Result<Vec<(ImageName, Digest)>> {
    let images = manifests(layout)?.into_iter().map(|manifest| {
        let name =
            manifest.name().context("an image in the archive has no name; save it by name, not by ID")?;
        Ok((name.parse()?, manifest.digest.parse()?))
    });
    let images = images.collect::<Result<Vec<_>>>()?;
    ensure!(!images.is_empty(), "the archive contains no image");
    Ok(images)
}

fn manifests(layout: &Path) -> Result<Vec<LayoutManifest>> {
    let path = layout.join("index.json");
    let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let index: LayoutIndex =
        serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))?;
    Ok(index.manifests)
}

/// Returns the paths of all blobs of a layout.
fn blobs(layout: &Path) -> Result<BTreeMap<Digest, PathBuf>> {
    let directory = layout.join("blobs/sha256");
    let entries = fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))?;
    let blob = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry?;
        let digest = format!("sha256:{}", entry.file_name().to_string_lossy()).parse()?;
        Ok((digest, entry.path()))
    };
    entries.map(blob).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn resolve(store: &Store, name: &str) -> Option<Digest> {
        let name: ImageName = name.parse().unwrap();
        store.resolve(&name.repository, &name.tag).unwrap()
    }

    #[test]
    fn exact_tags_come_before_any_tag() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path());
        let (one, two) = (fixture::image("one", "example.com/a:*"), fixture::image("two", "example.com/a:2"));
        for image in [&one, &two] {
            store.add(image, &image.build(directory.path(), &|_| ()).unwrap()).unwrap();
        }
        let (first, second) = (resolve(&store, "example.com/a:1"), resolve(&store, "example.com/a:2"));
        assert!(first.is_some() && second.is_some() && first != second);
        assert_eq!(resolve(&store, "docker.io/a:1"), None);
        assert_eq!(resolve(&store, "example.com/b:1"), None);
    }

    #[test]
    fn loads_archives_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let image = fixture::image("some", "example.com/unused");
        let layout = image.build(directory.path(), &|_| ()).unwrap();
        let store = Store::new(directory.path().join("store"));
        for (annotation, name) in [
            (oci::NAME_ANNOTATION, "docker.io/library/ensemble:0.1.0"),
            ("org.opencontainers.image.ref.name", "localhost/x:1"),
        ] {
            let archive = fixture::archive(&layout, annotation, name);
            assert_eq!(store.load_archive(archive.path()).unwrap(), [name]);
            assert_eq!(store.load_archive(archive.path()).unwrap(), [name], "loads again");
            assert!(store.blob(&resolve(&store, name).unwrap()).unwrap().is_file());
        }
        let unnamed = fixture::archive(&layout, "org.opencontainers.image.ref.name", "1.0");
        let error = format!("{:#}", store.load_archive(unnamed.path()).unwrap_err());
        assert!(error.contains("has no name"), "{error}");
    }

    #[test]
    fn serves_what_another_store_loads_and_the_last_image_has_the_tag() {
        let directory = tempfile::tempdir().unwrap();
        let [serving, loading] = [(); 2].map(|()| Store::new(directory.path().join("store")));
        let archive = |name| {
            let layout = fixture::image(name, "example.com/unused").build(directory.path(), &|_| ()).unwrap();
            fixture::archive(&layout, oci::NAME_ANNOTATION, "example.com/a:1")
        };
        let (one, two) = (archive("one"), archive("two"));
        assert_eq!(resolve(&serving, "example.com/a:1"), None);
        let mut seen = Vec::new();
        for archive in [&one, &two, &one] {
            loading.load_archive(archive.path()).unwrap();
            seen.push(resolve(&serving, "example.com/a:1").unwrap());
        }
        assert!(seen[0] != seen[1] && seen[0] == seen[2], "{seen:?}");
    }
}

//! Builds images into a cache.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use go_tools::{discard, lock, with_suffix};
use serde_json::json;

use crate::{
    Digest, Image, debian,
    digest::DigestWriter,
    image::Content,
    oci::{self, Blob},
    program,
    tree::{Tree, check_path},
};

/// Version of the format of built images. Increase it if this code builds other images.
const FORMAT: u32 = 1;
/// Program whose other names `Image::busybox` links.
const BUSYBOX: &str = "/bin/busybox";
/// Number of digits of the key in the name of a directory.
const KEY_DIGITS: usize = 16;

impl Image {
    /// Returns the directory with the OCI image layout, and builds it first if the cache lacks it.
    ///
    /// The directory appears when it is complete. If another process builds the same image, waits
    /// for it. `progress` receives a line for each step that takes long.
    ///
    /// # Errors
    /// Returns an error if a tool, the network, or a file is missing; it says what to do.
    pub fn build(&self, cache: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf> {
        let images = cache.join("images");
        let home = images.join(format!("{}-{}", self.name, self.key()?));
        if home.is_dir() {
            return Ok(home);
        }
        fs::create_dir_all(&images).with_context(|| format!("create {}", images.display()))?;
        let _lock = lock(&with_suffix(&home, "lock"), || {})?;
        if home.is_dir() {
            return Ok(home);
        }
        let work = with_suffix(&home, "building");
        let built = self.build_in(&work, cache, progress).and_then(|layout| {
            fs::rename(&layout, &home).with_context(|| format!("move the image to {}", home.display()))
        });
        discard(&work)?;
        built.with_context(|| format!("build the image {}", self.name))?;
        Ok(home)
    }

    /// Returns a text that changes with everything that determines the image, except for the
    /// versions of packages.
    fn key(&self) -> Result<String> {
        let release = if self.packages.is_empty() { String::new() } else { release() };
        let key = json!([FORMAT, architecture(), release, self.recipe()?]);
        let digest = Digest::of(key.to_string().as_bytes());
        Ok(digest.hex().chars().take(KEY_DIGITS).collect())
    }

    /// Builds the image in an empty directory, and returns the directory of the layout.
    fn build_in(&self, work: &Path, cache: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf> {
        discard(work)?;
        let layout = work.join("layout");
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs).with_context(|| format!("create {}", blobs.display()))?;
        progress(&format!("building the image {}, once", self.name));
        let tree = self.tree(work, cache, progress)?;
        self.write_layout(tree, &layout)?;
        Ok(layout)
    }

    fn tree(&self, work: &Path, cache: &Path, progress: &dyn Fn(&str)) -> Result<Tree> {
        let mut tree = Tree::new(work)?;
        if !self.packages.is_empty() {
            let archives = debian::download(&self.packages, &self.without_packages, cache, work, progress)?;
            for archive in archives {
                debian::unpack(&archive, &self.without_paths, &mut tree)?;
            }
        }
        for one in &self.directories {
            check_path(&one.path)?;
            tree.add_directory(&one.path, one.mode, one.owner);
        }
        for file in &self.files {
            check_path(&file.path)?;
            add_file(&mut tree, &file.path, file.mode, &file.content, work)?;
        }
        for (path, target) in &self.symlinks {
            check_path(path)?;
            tree.add_symlink(path, target);
        }
        for pattern in &self.program_links {
            link_programs(&mut tree, pattern);
        }
        if self.applets {
            link_applets(&mut tree, work)?;
        }
        Ok(tree)
    }

    fn write_layout(&self, tree: Tree, layout: &Path) -> Result<()> {
        let partial = layout.join("layer");
        let file = File::create(&partial).with_context(|| format!("create {}", partial.display()))?;
        let written = tree.write(DigestWriter::new(BufWriter::new(file)))?.finish();
        let (layer, size) = written.with_context(|| format!("write {}", partial.display()))?;
        fs::rename(&partial, layout.join(oci::blob_path(&layer))).context("move the layer")?;
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": self.config.to_json(),
            "rootfs": { "type": "layers", "diff_ids": [layer.to_string()] },
        });
        let config = Blob::json(oci::CONFIG, &config);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": oci::MANIFEST,
            "config": config.descriptor(),
            "layers": [oci::descriptor(oci::LAYER, &layer, size)],
        });
        let manifest = Blob::json(oci::MANIFEST, &manifest);
        let index =
            json!({ "schemaVersion": 2, "mediaType": oci::INDEX, "manifests": [manifest.descriptor()] });
        write(&layout.join(config.path()), &config.content)?;
        write(&layout.join(manifest.path()), &manifest.content)?;
        write(&layout.join("index.json"), index.to_string().as_bytes())?;
        write(&layout.join("oci-layout"), oci::layout().to_string().as_bytes())
    }
}

fn add_file(tree: &mut Tree, path: &str, mode: u32, content: &Content, work: &Path) -> Result<()> {
    let source = match content {
        Content::Text(text) => return tree.add_file(path, mode, &mut text.as_bytes()),
        Content::C(source) => program::compile_c(source, work)?,
        Content::Go(tool) => tool.locate()?,
    };
    let mut file = File::open(&source).with_context(|| format!("open {}", source.display()))?;
    tree.add_file(path, mode, &mut file)
}

fn link_programs(tree: &mut Tree, pattern: &str) {
    for program in tree.programs(pattern) {
        let name = program.rsplit('/').next().unwrap_or(&program);
        tree.add_symlink(&format!("/usr/local/bin/{name}"), &program);
    }
}

/// Links the names that busybox lists, except for those of other packages' programs.
fn link_applets(tree: &mut Tree, work: &Path) -> Result<()> {
    let program = work.join("busybox");
    let mut file = File::create(&program).with_context(|| format!("create {}", program.display()))?;
    tree.copy_file(BUSYBOX, &mut file)?;
    file.flush().context("write busybox")?;
    file.set_permissions(fs::Permissions::from_mode(0o755)).context("make busybox executable")?;
    drop(file);
    let list = program::run(Command::new(&program).arg("--list"), "check the package busybox-static")?;
    for name in list.lines() {
        let taken = ["/bin", "/sbin"].iter().any(|directory| tree.contains(&format!("{directory}/{name}")));
        if !taken {
            tree.add_symlink(&format!("/bin/{name}"), BUSYBOX);
        }
    }
    Ok(())
}

/// Returns the code name of this machine's release, which determines the versions of packages.
fn release() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or_default().to_owned()
}

/// Returns this machine's architecture in the notation of images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("write {}", path.display()))
}

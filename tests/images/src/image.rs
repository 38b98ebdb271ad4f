//! Description of an image.

use anyhow::Result;
use go_tools::Tool;
use serde_json::{Value, json};

use crate::{Digest, name::ImageName, oci::Config, program};

/// Description of an image: Debian packages, files, and the configuration of its containers.
///
/// Paths are absolute. If a package and the description have the same path, the description wins.
#[derive(Clone, Debug)]
pub struct Image {
    pub(crate) name: &'static str,
    pub(crate) served_as: Vec<ImageName>,
    pub(crate) packages: Vec<String>,
    pub(crate) without_packages: Vec<String>,
    pub(crate) without_paths: Vec<String>,
    pub(crate) files: Vec<File>,
    pub(crate) directories: Vec<Directory>,
    pub(crate) symlinks: Vec<(String, String)>,
    pub(crate) program_links: Vec<String>,
    pub(crate) applets: bool,
    pub(crate) config: Config,
}

/// Source of a file's content.
#[derive(Clone, Debug)]
pub enum Content {
    /// Text.
    Text(String),
    /// Static program, compiled from this C source.
    C(&'static str),
    /// Go program. It is built when the image is built, unless it is cached.
    Go(&'static Tool),
}

/// File of an image, which root owns.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Content,
}

/// Directory of an image.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) owner: u64,
}

impl Image {
    /// Creates the description of an image without files. The name identifies it in the cache.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            served_as: Vec::new(),
            packages: Vec::new(),
            without_packages: Vec::new(),
            without_paths: Vec::new(),
            files: Vec::new(),
            directories: Vec::new(),
            symlinks: Vec::new(),
            program_links: Vec::new(),
            applets: false,
            config: Config::default(),
        }
    }

    /// Returns the name in the cache.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Adds a name under which the image is served, for example `docker.io/library/busybox:1`. The
    /// tag `*` stands for all tags without an image of their own.
    ///
    /// # Errors
    /// Returns an error if the name is not valid.
    pub fn served_as(mut self, name: &str) -> Result<Self> {
        self.served_as.push(name.parse()?);
        Ok(self)
    }

    /// Adds Debian packages and all their dependencies. Their scripts do not run.
    #[must_use]
    pub fn packages(mut self, packages: &[&str]) -> Self {
        self.packages.extend(owned(packages));
        self
    }

    /// Leaves out packages on which others depend, but which the image does not need.
    #[must_use]
    pub fn without_packages(mut self, packages: &[&str]) -> Self {
        self.without_packages.extend(owned(packages));
        self
    }

    /// Leaves out paths of packages, and everything below them. An element can be `*`.
    #[must_use]
    pub fn without_paths(mut self, paths: &[&str]) -> Self {
        self.without_paths.extend(owned(paths));
        self
    }

    /// Adds a file that root owns.
    #[must_use]
    pub fn file(mut self, path: &str, mode: u32, content: Content) -> Self {
        self.files.push(File { path: path.to_owned(), mode, content });
        self
    }

    /// Adds a directory. User and group have the number of the owner.
    #[must_use]
    pub fn directory(mut self, path: &str, mode: u32, owner: u64) -> Self {
        self.directories.push(Directory { path: path.to_owned(), mode, owner });
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(mut self, path: &str, target: &str) -> Self {
        self.symlinks.push((path.to_owned(), target.to_owned()));
        self
    }

    /// Links all files of a directory into `/usr/local/bin`. An element of the path can be `*`.
    #[must_use]
    pub fn program_links(mut self, directory: &str) -> Self {
        self.program_links.push(directory.to_owned());
        self
    }

    /// Adds the package `busybox-static`, and links those of its programs into `/bin` that no other
    /// package has.
    #[must_use]
    pub fn busybox(mut self) -> Self {
        self.applets = true;
        self.packages(&["busybox-static"])
    }

    /// Sets the defaults of containers.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Returns everything that determines the built image, except for the versions of packages.
    pub(crate) fn recipe(&self) -> Result<Value> {
        let files: Result<Vec<_>> = self
            .files
            .iter()
            .map(|file| {
                let content = file.content.fingerprint()?;
                Ok(json!([file.path, file.mode, content.to_string()]))
            })
            .collect();
        let directories: Vec<_> =
            self.directories.iter().map(|one| json!([one.path, one.mode, one.owner])).collect();
        Ok(json!({
            "packages": self.packages,
            "withoutPackages": self.without_packages,
            "withoutPaths": self.without_paths,
            "files": files?,
            "directories": directories,
            "symlinks": self.symlinks,
            "programLinks": self.program_links,
            "applets": self.applets,
            "config": self.config.to_json(),
        }))
    }
}

impl Content {
    /// Returns a digest that changes with the content.
    fn fingerprint(&self) -> Result<Digest> {
        Ok(match self {
            Self::Text(text) => Digest::of(text.as_bytes()),
            Self::C(source) => Digest::of(json!([program::C_FLAGS, source]).to_string().as_bytes()),
            Self::Go(tool) => Digest::of(tool.id()?.as_bytes()),
        })
    }
}

fn owned(texts: &[&str]) -> impl Iterator<Item = String> {
    texts.iter().map(|text| (*text).to_owned())
}

//! File tree of an image, which becomes its layer.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek as _, SeekFrom, Write},
    os::unix::fs::FileExt as _,
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use tar::{Archive, Builder, EntryType, Header};

/// Directories that are links into `/usr`. Packages can still have files in them.
const MERGED: [&str; 6] = ["bin", "lib", "lib32", "lib64", "libx32", "sbin"];

/// Files, directories, and links by path, without a leading slash. Contents are in a temporary file.
#[derive(Debug)]
pub(crate) struct Tree {
    entries: BTreeMap<String, Entry>,
    contents: File,
    end: u64,
}

/// Entry of a tree.
#[derive(Clone, Debug)]
struct Entry {
    mode: u32,
    owner: (u64, u64),
    node: Node,
}

/// Kinds of entries. If packages disagree about the kind at a path, the last of these wins.
#[derive(Clone, Debug)]
enum Node {
    Symlink(String),
    File { offset: u64, size: u64 },
    Directory,
}

impl Node {
    fn rank(&self) -> u8 {
        match self {
            Self::Symlink(_) => 0,
            Self::File { .. } => 1,
            Self::Directory => 2,
        }
    }
}

impl Tree {
    /// Creates an empty tree with its temporary file in a directory.
    pub(crate) fn new(work: &Path) -> Result<Self> {
        let contents = tempfile::tempfile_in(work).context("create a temporary file for the layer")?;
        Ok(Self { entries: BTreeMap::new(), contents, end: 0 })
    }

    /// Adds the files of a package, except for paths that match a pattern.
    pub(crate) fn add_package(&mut self, tar: impl Read, without: &[String]) -> Result<()> {
        for entry in Archive::new(tar).entries()? {
            let mut entry = entry?;
            let path = entry.path_bytes();
            let path = normalize(std::str::from_utf8(&path).context("a path is not UTF-8")?);
            if path.is_empty() || without.iter().any(|pattern| covers(pattern, &path)) {
                continue;
            }
            self.add_tar_entry(&path, &mut entry).with_context(|| format!("read {path}"))?;
        }
        Ok(())
    }

    fn add_tar_entry(&mut self, path: &str, entry: &mut tar::Entry<'_, impl Read>) -> Result<()> {
        let header = entry.header();
        let (mode, owner) = (header.mode()? & 0o7777, (header.uid()?, header.gid()?));
        let target = |entry: &tar::Entry<'_, _>| -> Result<String> {
            let target = entry.link_name_bytes().context("the link has no target")?;
            Ok(String::from_utf8(target.into_owned())?)
        };
        let node = match header.entry_type() {
            EntryType::Directory => Node::Directory,
            EntryType::Regular => self.store(entry)?,
            EntryType::Symlink => {
                let target = target(entry)?;
                // A link between directories that are one directory in the image.
                if target.starts_with('/') && normalize(&target) == path {
                    return Ok(());
                }
                Node::Symlink(target)
            }
            EntryType::Link => {
                let target = normalize(&target(entry)?);
                let linked = self.entries.get(&target).map(|linked| linked.node.clone());
                linked.with_context(|| format!("the target {target} of a hard link is missing"))?
            }
            kind => bail!("entries of type {kind:?} are not supported"),
        };
        if self.entries.get(path).is_none_or(|existing| existing.node.rank() < node.rank()) {
            self.insert(path.to_owned(), Entry { mode, owner, node });
        }
        Ok(())
    }

    /// Adds or replaces a file that root owns.
    pub(crate) fn add_file(&mut self, path: &str, mode: u32, content: &mut impl Read) -> Result<()> {
        let node = self.store(content).with_context(|| format!("read the content of {path}"))?;
        self.insert(normalize(path), Entry { mode, owner: (0, 0), node });
        Ok(())
    }

    /// Adds or replaces a directory.
    pub(crate) fn add_directory(&mut self, path: &str, mode: u32, owner: u64) {
        self.insert(normalize(path), Entry { mode, owner: (owner, owner), node: Node::Directory });
    }

    /// Adds or replaces a symbolic link.
    pub(crate) fn add_symlink(&mut self, path: &str, target: &str) {
        let node = Node::Symlink(target.to_owned());
        self.insert(normalize(path), Entry { mode: 0o777, owner: (0, 0), node });
    }

    /// Reports whether a path exists.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(&normalize(path))
    }

    /// Returns the absolute paths of the files and links in directories that match a pattern.
    pub(crate) fn programs(&self, pattern: &str) -> Vec<String> {
        let pattern = normalize(pattern);
        let is_in = |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| matches(&pattern, parent));
        let is_program = |entry: &Entry| !matches!(entry.node, Node::Directory);
        let found = self.entries.iter().filter(|(path, entry)| is_program(entry) && is_in(path));
        found.map(|(path, _)| format!("/{path}")).collect()
    }

    /// Writes the content of a file.
    pub(crate) fn copy_file(&self, path: &str, output: &mut impl Write) -> Result<()> {
        match self.entries.get(&normalize(path)).map(|entry| &entry.node) {
            Some(Node::File { offset, size }) => {
                io::copy(&mut self.read(*offset, *size), output).with_context(|| format!("copy {path}"))?;
                Ok(())
            }
            _ => bail!("the image has no file {path}"),
        }
    }

    /// Writes the layer: all entries sorted by path, with fixed times.
    pub(crate) fn write<W: Write>(mut self, output: W) -> Result<W> {
        self.link_merged_directories();
        let mut tar = Builder::new(output);
        for (path, entry) in &self.entries {
            self.write_entry(&mut tar, path, entry).with_context(|| format!("add {path} to the layer"))?;
        }
        tar.into_inner().context("finish the layer")
    }

    fn write_entry(&self, tar: &mut Builder<impl Write>, path: &str, entry: &Entry) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_uid(entry.owner.0);
        header.set_gid(entry.owner.1);
        header.set_mtime(0);
        header.set_size(0);
        match &entry.node {
            Node::Directory => {
                header.set_entry_type(EntryType::Directory);
                tar.append_data(&mut header, format!("{path}/"), io::empty())
            }
            Node::File { offset, size } => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(*size);
                tar.append_data(&mut header, path, self.read(*offset, *size))
            }
            Node::Symlink(target) => {
                header.set_entry_type(EntryType::Symlink);
                tar.append_link(&mut header, path, target)
            }
        }
    }

    fn insert(&mut self, path: String, entry: Entry) {
        let parents = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        for parent in parents {
            let directory = || Entry { mode: 0o755, owner: (0, 0), node: Node::Directory };
            self.entries.entry(parent.to_owned()).or_insert_with(directory);
        }
        self.entries.insert(path, entry);
    }

    fn store(&mut self, content: &mut impl Read) -> Result<Node> {
        let offset = self.contents.seek(SeekFrom::Start(self.end))?;
        let size = io::copy(content, &mut self.contents)?;
        self.end = offset.checked_add(size).context("the layer is too large")?;
        Ok(Node::File { offset, size })
    }

    fn read(&self, offset: u64, size: u64) -> impl Read + '_ {
        ReadAt { file: &self.contents, offset }.take(size)
    }

    fn link_merged_directories(&mut self) {
        for name in MERGED {
            let target = format!("usr/{name}");
            if self.entries.contains_key(&target) {
                self.add_raw_symlink(name, target);
            }
        }
    }

    /// Adds a link at a path that would otherwise be moved to `/usr`.
    fn add_raw_symlink(&mut self, path: &str, target: String) {
        self.insert(path.to_owned(), Entry { mode: 0o777, owner: (0, 0), node: Node::Symlink(target) });
    }
}

/// Reader of a file from an offset, which does not move the position of the file.
struct ReadAt<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Returns a path without leading `./` and `/` and without trailing `/`, below `usr` if the image
/// has its directory there.
fn normalize(path: &str) -> String {
    let path = path.trim_start_matches("./").trim_matches('/');
    let path = if path == "." { "" } else { path };
    let first = path.split('/').next().unwrap_or_default();
    if MERGED.contains(&first) { format!("usr/{path}") } else { path.to_owned() }
}

/// Reports whether each element of a pattern is `*` or equal to the path's.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == "*" || wanted == found => {}
            _ => return false,
        }
    }
}

/// Reports whether a pattern matches a path or one of its parents.
fn covers(pattern: &str, path: &str) -> bool {
    let pattern = normalize(pattern);
    let parents = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
    parents.chain([path]).any(|candidate| matches(&pattern, candidate))
}

/// Checks that a path of a description is absolute and has no `.` or `..`.
///
/// # Errors
/// Returns an error if it is not.
pub(crate) fn check_path(path: &str) -> Result<()> {
    let mut elements = path.strip_prefix('/').unwrap_or_default().split('/');
    let is_valid = |element: &str| !matches!(element, "" | "." | "..");
    ensure!(elements.all(is_valid), "the path {path:?} of an image is not absolute");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a package with entries of `(path, kind, content or target)`.
    fn package(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(if *kind == EntryType::Directory { 0o2775 } else { 0o4755 });
            header.set_uid(7);
            header.set_gid(8);
            header.set_mtime(1_700_000_000);
            header.set_size(0);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                tar.append_link(&mut header, path, content).unwrap();
            } else {
                header.set_size(content.len() as u64);
                tar.append_data(&mut header, path, content.as_bytes()).unwrap();
            }
        }
        tar.into_inner().unwrap()
    }

    fn tree() -> Tree {
        Tree::new(&std::env::temp_dir()).unwrap()
    }

    /// Returns a line for each entry of the layer.
    fn lines(tree: Tree) -> Vec<String> {
        let layer = tree.write(Vec::new()).unwrap();
        let describe = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 0);
            let (mode, uid, gid) = (header.mode().unwrap(), header.uid().unwrap(), header.gid().unwrap());
            let path = entry.path().unwrap().display().to_string();
            let target = entry.link_name().unwrap().map(|target| format!(" -> {}", target.display()));
            format!("{path} {mode:o} {uid}:{gid} {content}{}", target.unwrap_or_default())
                .trim_end()
                .to_owned()
        };
        Archive::new(layer.as_slice()).entries().unwrap().map(describe).collect()
    }

    #[test]
    fn moves_files_below_usr_and_links_directories() {
        let mut tree = tree();
        let entries = [
            ("./lib", EntryType::Directory, ""),
            ("./lib/a", EntryType::Regular, "A"),
            ("./usr/bin/b", EntryType::Symlink, "/bin/b"),
            ("./bin/b", EntryType::Regular, "B"),
        ];
        tree.add_package(package(&entries).as_slice(), &[]).unwrap();
        let expected = [
            "bin 777 0:0  -> usr/bin",
            "lib 777 0:0  -> usr/lib",
            "usr/ 755 0:0",
            "usr/bin/ 755 0:0",
            "usr/bin/b 4755 7:8 B",
            "usr/lib/ 2775 7:8",
            "usr/lib/a 4755 7:8 A",
        ];
        assert_eq!(lines(tree), expected);
    }

    #[test]
    fn first_package_wins_and_description_wins_over_packages() {
        let mut tree = tree();
        let first = package(&[("./etc/a", EntryType::Regular, "1"), ("./etc/b", EntryType::Regular, "1")]);
        let second = package(&[("./etc/a", EntryType::Regular, "2"), ("./etc/b", EntryType::Regular, "2")]);
        tree.add_package(first.as_slice(), &[]).unwrap();
        tree.add_package(second.as_slice(), &[]).unwrap();
        tree.add_file("/etc/b", 0o600, &mut "3".as_bytes()).unwrap();
        assert_eq!(lines(tree), ["etc/ 755 0:0", "etc/a 4755 7:8 1", "etc/b 600 0:0 3"]);
    }

    #[test]
    fn leaves_out_paths_and_copies_hard_links() {
        let mut tree = tree();
        let entries = [
            ("./usr/share/doc/a/copyright", EntryType::Regular, "text"),
            ("./usr/lib/a", EntryType::Regular, "A"),
            ("./usr/lib/b", EntryType::Link, "./usr/lib/a"),
            ("./opt/1/x/y", EntryType::Regular, "Y"),
        ];
        let without = ["/usr/share/doc".to_owned(), "/opt/*/x".to_owned()];
        tree.add_package(package(&entries).as_slice(), &without).unwrap();
        assert_eq!(tree.programs("/lib"), ["/usr/lib/a", "/usr/lib/b"]);
        assert!(!tree.contains("/opt/1/x/y") && !tree.contains("/usr/share/doc"));
        assert!(tree.contains("/lib/b"));
        let mut content = Vec::new();
        tree.copy_file("/usr/lib/b", &mut content).unwrap();
        assert_eq!(content, b"A");
    }

    #[test]
    fn long_paths_and_targets_are_kept() {
        let mut tree = tree();
        let long = format!("/{}/file", ["directory"; 30].join("/"));
        tree.add_symlink(&long, &format!("/target{long}"));
        let last = lines(tree).pop().unwrap();
        assert!(last.starts_with(long.trim_start_matches('/')) && last.ends_with(&format!("/target{long}")));
    }

    #[test]
    fn programs_match_patterns() {
        let mut tree = tree();
        for path in ["/usr/lib/pg/15/bin/initdb", "/usr/lib/pg/15/lib/x", "/usr/lib/pg/bin"] {
            tree.add_file(path, 0o755, &mut io::empty()).unwrap();
        }
        assert_eq!(tree.programs("/usr/lib/pg/*/bin"), ["/usr/lib/pg/15/bin/initdb"]);
    }

    #[test]
    fn checks_paths() {
        check_path("/etc/passwd").unwrap();
        for wrong in ["etc", "/", "", "/a/../b", "/a//b", "/a/"] {
            assert!(check_path(wrong).is_err(), "{wrong}");
        }
    }
}

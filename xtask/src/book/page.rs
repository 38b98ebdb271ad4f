//! Page in the repository and in the book.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::links::{Target, links};

/// Page or other text file of the repository.
pub(super) struct Page {
    /// Path relative to the root of the repository.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Reads the files with this extension in a folder and its subfolders, in order of their paths.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub(super) fn read(root: &Path, folder: &str, extension: &str) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        for entry in fs::read_dir(&full).with_context(|| format!("cannot read {}", full.display()))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                pages.push(Page::read(root, path)?);
            }
        }
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pages)
}

impl Page {
    /// Reads a page with a path relative to the root.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(super) fn read(root: &Path, path: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(root.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path, text })
    }

    /// Returns the path relative to a folder that contains the page.
    pub(super) fn within(&self, folder: &str) -> &Path {
        self.path.strip_prefix(folder).unwrap_or(&self.path)
    }

    /// Returns the text for the book of the pages in `docs`.
    ///
    /// A link out of `docs` becomes the path of its target. A link to `README.md` becomes a link to
    /// `index.md`, as mdBook names it.
    pub(super) fn for_book(&self, docs: &str) -> String {
        let mut text = self.text.clone();
        for link in links(&self.text).into_iter().rev() {
            let Target::File { path, .. } = link.target(&self.path) else { continue };
            if !path.starts_with(docs) {
                text.replace_range(link.range.clone(), &without_link(link.text, &path));
            } else if path.ends_with("README.md") {
                let renamed = link.target.replace("README.md", "index.md");
                text.replace_range(link.range.clone(), &format!("[{}]({renamed})", link.text));
            }
        }
        text
    }
}

/// Returns the text and the target of a link as plain text.
fn without_link(text: &str, path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let path = path.display();
    if text == name { format!("`{path}`") } else { format!("{text} (`{path}`)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_book(text: &str) -> String {
        Page { path: "docs/operations/install.md".into(), text: text.into() }.for_book("docs")
    }

    #[test]
    fn for_book_renames_readme_in_links() {
        assert_eq!(
            for_book("[a](rbac.md#give-it-fewer) [b](#the-image)"),
            "[a](rbac.md#give-it-fewer) [b](#the-image)"
        );
        assert_eq!(for_book("[a](README.md#b), [c](../README.md)"), "[a](index.md#b), [c](../index.md)");
    }

    #[test]
    fn for_book_replaces_links_out_of_docs_by_paths() {
        assert_eq!(
            for_book("| [Helm](../../deploy/helm) | [x.rs](../../tests/x.rs) | [home](../../README.md) |"),
            "| Helm (`deploy/helm`) | `tests/x.rs` | home (`README.md`) |"
        );
    }

    #[test]
    fn for_book_keeps_external_links_and_code() {
        let text = "[a](https://example.com/b.md)\n```\n[a](../../b)\n```\n`[a](../../b)`\n";
        assert_eq!(for_book(text), text);
    }
}

//! A page, as it stands in the repository and as it stands in the book.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::links::{Target, links};

/// A page of the repository, or another file of text.
pub(super) struct Page {
    /// Where it is, from the root of the repository.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The files with this extension in a folder and the folders in it, in order of their paths.
///
/// # Errors
/// When one cannot be read.
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
    /// Reads one, whose path begins at the root.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(root: &Path, path: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(root.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path, text })
    }

    /// Where it is in a folder of the repository that it is in.
    pub(super) fn within(&self, folder: &str) -> &Path {
        self.path.strip_prefix(folder).unwrap_or(&self.path)
    }

    /// Its text for a book of the pages in `docs`. Where a link leads out of `docs`, the path within the repository stands
    /// in its place; a link to `README.md` goes to the name under which mdBook keeps the first page of a folder.
    pub(super) fn for_book(&self, docs: &str) -> String {
        let mut text = self.text.clone();
        for link in links(&self.text).into_iter().rev() {
            let Target::File { path, .. } = link.target(&self.path) else { continue };
            if !path.starts_with(docs) {
                text.replace_range(link.range.clone(), &in_words(link.text, &path));
            } else if path.ends_with("README.md") {
                let renamed = link.target.replace("README.md", "index.md");
                text.replace_range(link.range.clone(), &format!("[{}]({renamed})", link.text));
            }
        }
        text
    }
}

/// What a link to a file of the repository says, without the link.
fn in_words(text: &str, path: &Path) -> String {
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
    fn links_within_the_book_stay_and_go_to_its_names() {
        assert_eq!(
            for_book("[a](rbac.md#give-it-fewer) [b](#the-image)"),
            "[a](rbac.md#give-it-fewer) [b](#the-image)"
        );
        assert_eq!(for_book("[a](README.md#b), [c](../README.md)"), "[a](index.md#b), [c](../index.md)");
    }

    #[test]
    fn what_a_link_out_of_the_book_leads_to_is_told_by_its_path() {
        assert_eq!(
            for_book("| [Helm](../../deploy/helm) | [x.rs](../../tests/x.rs) | [home](../../README.md) |"),
            "| Helm (`deploy/helm`) | `tests/x.rs` | home (`README.md`) |"
        );
    }

    #[test]
    fn what_is_elsewhere_or_only_looks_like_a_link_is_left_alone() {
        let text = "[a](https://example.com/b.md)\n```\n[a](../../b)\n```\n`[a](../../b)`\n";
        assert_eq!(for_book(text), text);
    }
}

//! `cargo xtask book`: builds the pages of `docs` as a book.
//!
//! In the repository, a link can lead to any file, and `README.md` is the index of a folder. The
//! pages are copied with such links rewritten, and mdBook builds the book from the copies.
//!
//! The build fails if a page is missing from the summary, a link is dead, or a page names a test
//! that does not exist.

mod check;
mod html_links;
mod links;
mod mdbook;
mod page;
mod test_references;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use cluster::program::workspace;
use page::Page;

/// Folder of the pages and of `book.toml`.
const DOCS: &str = "docs";
/// Table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Builds the book, and prints its path.
///
/// # Errors
/// Returns an error if a page is not in the summary exactly once, if a link is dead, if a page
/// names a test that does not exist, or if mdBook cannot be installed or fails.
pub(crate) fn build() -> Result<()> {
    let pages = page::read(&workspace(), DOCS, "md")?;
    fail_on(check::problems(&workspace(), &pages)?)?;
    fail_on(test_references::problems(&workspace(), &pages)?)?;
    let (source, output) = (workspace().join("target/book-source"), workspace().join("target/book"));
    write_source(&pages, &source)?;
    mdbook::build(&source, &output)?;
    fail_on(html_links::problems(&output)?)?;
    println!("wrote {}", output.join("index.html").display());
    Ok(())
}

fn fail_on(problems: Vec<String>) -> Result<()> {
    if !problems.is_empty() {
        bail!("the pages have errors:\n{}", problems.join("\n"));
    }
    Ok(())
}

/// Replaces the contents of the folder that mdBook reads.
fn write_source(pages: &[Page], source: &Path) -> Result<()> {
    if source.exists() {
        fs::remove_dir_all(source).with_context(|| format!("cannot remove {}", source.display()))?;
    }
    for page in pages {
        // mdBook expects file names, such as README.md, in the summary.
        let is_summary = page.path == Path::new(SUMMARY);
        let text = if is_summary { page.text.clone() } else { page.for_book(DOCS) };
        write(&source.join("src").join(page.within(DOCS)), &text)?;
    }
    for image in page::read(&workspace(), DOCS, "svg")? {
        write(&source.join("src").join(image.within(DOCS)), &image.text)?;
    }
    let configuration = workspace().join(DOCS).join("book.toml");
    let text = fs::read_to_string(&configuration)
        .with_context(|| format!("cannot read {}", configuration.display()))?;
    write(&source.join("book.toml"), &text)
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_summary_and_links_resolve() {
        let pages = page::read(&workspace(), DOCS, "md").unwrap();
        assert!(pages.len() > 40, "only {} pages were found", pages.len());
        assert_eq!(check::problems(&workspace(), &pages).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn tests_named_in_pages_exist() {
        let pages = page::read(&workspace(), DOCS, "md").unwrap();
        assert_eq!(test_references::problems(&workspace(), &pages).unwrap(), Vec::<String>::new());
    }
}

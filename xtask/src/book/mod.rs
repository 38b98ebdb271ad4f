//! `book`: the pages of `docs` as a book.
//!
//! The pages are written for those who read them in the repository, where a link may lead to any file of it, and
//! `README.md` is the first page of a folder. For the book they are copied with such links put differently; mdBook does
//! the rest. Nothing is built while a page is missing from the book, a link is dead, or a test that a page names is gone.

mod built;
mod check;
mod evidence;
mod links;
mod mdbook;
mod page;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use page::Page;

use crate::workspace;

/// Where the pages are, and `book.toml`, which says how the book looks.
const DOCS: &str = "docs";
/// What says in which order the pages come.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Builds the book and says where it is.
///
/// # Errors
/// When a page is not in the book exactly once, when a link leads nowhere, or when mdBook cannot be had or fails.
pub(crate) fn build() -> Result<()> {
    let pages = page::read(&workspace(), DOCS, "md")?;
    refuse(check::problems(&workspace(), &pages)?)?;
    refuse(evidence::problems(&workspace(), &pages)?)?;
    let (source, output) = (workspace().join("target/book-source"), workspace().join("target/book"));
    stage(&pages, &source)?;
    mdbook::build(&source, &output)?;
    refuse(built::problems(&output)?)?;
    println!("wrote {}", output.join("index.html").display());
    Ok(())
}

fn refuse(problems: Vec<String>) -> Result<()> {
    if !problems.is_empty() {
        bail!("the book is not in order:\n{}", problems.join("\n"));
    }
    Ok(())
}

/// Makes the folder hold what mdBook is to read, and nothing of before.
fn stage(pages: &[Page], source: &Path) -> Result<()> {
    if source.exists() {
        fs::remove_dir_all(source).with_context(|| format!("cannot empty {}", source.display()))?;
    }
    for page in pages {
        // mdBook reads the summary by the names that files have.
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
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_book_once_and_every_link_leads_somewhere() {
        let pages = page::read(&workspace(), DOCS, "md").unwrap();
        assert!(pages.len() > 40, "only {} pages were found", pages.len());
        assert_eq!(check::problems(&workspace(), &pages).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn every_test_that_a_page_names_is_there() {
        let pages = page::read(&workspace(), DOCS, "md").unwrap();
        assert_eq!(evidence::problems(&workspace(), &pages).unwrap(), Vec::<String>::new());
    }
}

//! `prose`: checks the prose of the pages with Vale and the rules in `.vale`.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use cluster::program::workspace;

/// Pages whose tables contain descriptions that Kubernetes and Capsule wrote.
const QUOTED: &str = "docs/reference/kinds";

/// Checks every Markdown page of the repository.
///
/// # Errors
/// Returns an error if a page breaks a rule, or if Vale cannot be built.
pub(crate) fn check() -> Result<()> {
    let root = workspace();
    let pages = pages(&root)?;
    let status = Command::new(go_tools::VALE.locate()?)
        .current_dir(&root)
        .arg("--output=line")
        .args(&pages)
        .status()
        .context("cannot run Vale")?;
    ensure!(status.success(), "the prose of the pages breaks the rules in .vale; correct the lines above");
    println!("{} pages follow the rules in .vale", pages.len());
    Ok(())
}

/// Returns the Markdown files that Git tracks, except the quoted ones.
fn pages(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--", "*.md"])
        .output()
        .context("cannot run git, which lists the pages")?;
    ensure!(output.status.success(), "git cannot list the pages in {}", root.display());
    let files = String::from_utf8(output.stdout).context("git printed a path that is not UTF-8")?;
    let pages: Vec<_> = files.lines().filter(|path| !path.starts_with(QUOTED)).map(str::to_owned).collect();
    ensure!(!pages.is_empty(), "git tracks no Markdown page in {}", root.display());
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_pages_and_leaves_out_quoted_ones() {
        let pages = pages(&workspace()).unwrap();
        assert!(pages.contains(&"README.md".to_owned()) && pages.len() > 50, "{pages:?}");
        assert!(!pages.iter().any(|page| page.starts_with(QUOTED)));
    }
}

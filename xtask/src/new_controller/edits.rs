//! The lines by which a workspace knows of a controller. Pure.

use anyhow::{Context, Result};

use super::{File, names::Names};

/// A line to be added to a file, among its like.
struct Edit {
    path: &'static str,
    /// The line above the list.
    heading: &'static str,
    /// What tells the list's lines from others.
    marks: [&'static str; 2],
    line: String,
}

/// The changed files, as they are going to be. `read` gives the present text of a path.
///
/// # Errors
/// When a file has no place for its line; it says which line to add by hand.
pub(super) fn files(names: &Names, read: impl Fn(&str) -> Result<String>) -> Result<Vec<File>> {
    let edits = edits(names);
    edits
        .iter()
        .map(|edit| Ok(File { path: edit.path.to_owned(), text: edit.apply(&read(edit.path)?)? }))
        .collect()
}

fn edits(Names { name, kind, .. }: &Names) -> [Edit; 4] {
    [
        Edit {
            path: "Cargo.toml",
            heading: "[workspace.dependencies]",
            marks: ["", " = { path = \"crates/"],
            line: format!("{name} = {{ path = \"crates/{name}\" }}"),
        },
        Edit {
            path: "crates/manager/Cargo.toml",
            heading: "[dependencies]",
            marks: ["", ".workspace = true"],
            line: format!("{name}.workspace = true"),
        },
        Edit {
            path: "crates/manager/src/lib.rs",
            heading: "pub const CONTROLLERS: &[Registration] = &[",
            marks: ["    register::<", ">(),"],
            line: format!("    register::<{name}::{kind}Controller>(),"),
        },
        Edit {
            path: "docs/SUMMARY.md",
            heading: "- [Kinds](reference/kinds/README.md)",
            marks: ["  - [", "](reference/kinds/"],
            line: format!("  - [{kind}](reference/kinds/{}.md)", kind.to_lowercase()),
        },
    ]
}

impl Edit {
    /// Puts the line into the first list of its like below the heading: before the first that sorts after it, else
    /// last.
    fn apply(&self, text: &str) -> Result<String> {
        let mut lines: Vec<_> = text.lines().collect();
        let place = self.place(&lines).with_context(|| {
            format!(
                "there is no list below `{}` in {}; add to it: {}",
                self.heading,
                self.path,
                self.line.trim()
            )
        })?;
        lines.insert(place, &self.line);
        Ok(lines.join("\n") + "\n")
    }

    fn place(&self, lines: &[&str]) -> Option<usize> {
        let heading = lines.iter().position(|line| *line == self.heading)?;
        let [begin, within] = self.marks;
        let is_like = |line: &str| line.starts_with(begin) && line.contains(within);
        let first = heading + 1 + lines.iter().skip(heading + 1).position(|line| is_like(line))?;
        let like = lines.iter().skip(first).take_while(|line| is_like(line));
        let before = like.take_while(|line| **line < self.line.as_str()).count();
        Some(first + before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace]\nmembers = []\n\n[workspace.dependencies]\nalpha = { path = \"crates/alpha\" }\n\
        zeta = { path = \"crates/zeta\" }\n\nanyhow = \"1\"\n";
    const MANAGER: &str = "[package]\nversion.workspace = true\n\n[dependencies]\nanyhow.workspace = true\n\
        tokio.workspace = true\n\n[dev-dependencies]\nzzz.workspace = true\n";
    const TABLE: &str =
        "pub const CONTROLLERS: &[Registration] = &[\n    register::<alpha::AlphaController>(),\n];\n";

    const SUMMARY: &str =
        "# Summary\n\n- [Kinds](reference/kinds/README.md)\n  - [Alpha](reference/kinds/alpha.md)\n";

    fn edited(kind: &str) -> Result<Vec<File>> {
        let names = Names::checked("example.com", "v1", kind, None, None)?;
        files(&names, |path| {
            Ok(match path {
                "Cargo.toml" => ROOT,
                "crates/manager/Cargo.toml" => MANAGER,
                "docs/SUMMARY.md" => SUMMARY,
                _ => TABLE,
            }
            .to_owned())
        })
    }

    #[test]
    fn each_file_gets_its_line_in_its_place() {
        let files = edited("Greeting").unwrap();
        assert!(
            files[0].text.contains("alpha\" }\ngreeting = { path = \"crates/greeting\" }\nzeta"),
            "{}",
            files[0].text
        );
        assert!(
            files[1].text.contains("anyhow.workspace = true\ngreeting.workspace = true\ntokio"),
            "{}",
            files[1].text
        );
        let table = "Controller>(),\n    register::<greeting::GreetingController>(),\n];\n";
        assert!(files[2].text.ends_with(table), "{}", files[2].text);
        let page = "alpha.md)\n  - [Greeting](reference/kinds/greeting.md)\n";
        assert!(files[3].text.ends_with(page), "{}", files[3].text);
    }

    #[test]
    fn the_first_and_the_last_of_a_list_find_their_places() {
        let first = &edited("Aa").unwrap()[0].text;
        assert!(first.contains("[workspace.dependencies]\naa = "), "{first}");
        let last = &edited("Zulu").unwrap()[0].text;
        assert!(last.contains("zeta\" }\nzulu = { path = \"crates/zulu\" }\n\nanyhow"), "{last}");
    }

    #[test]
    fn a_file_without_the_list_is_an_error_that_says_what_to_add() {
        let names = Names::checked("example.com", "v1", "Greeting", None, None).unwrap();
        let error =
            files(&names, |_| Ok("nothing\n".to_owned())).err().expect("there is no place").to_string();
        assert!(error.contains("add to it: greeting = { path = \"crates/greeting\" }"), "{error}");
    }
}

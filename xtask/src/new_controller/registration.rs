//! Lines that register a controller in the workspace.

use anyhow::{Context, Result};

use super::{File, names::Names};

/// Line to add to a sorted list in a file.
struct Edit {
    path: &'static str,
    /// Line above the list.
    heading: &'static str,
    /// Prefix and substring of the list's lines.
    pattern: [&'static str; 2],
    line: String,
}

/// Returns the changed files. `read` returns the current text of a path.
///
/// # Errors
/// Returns an error if a file has no such list. The error contains the line to add manually.
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
            pattern: ["", " = { path = \"crates/"],
            line: format!("{name} = {{ path = \"crates/{name}\" }}"),
        },
        Edit {
            path: "crates/manager/Cargo.toml",
            heading: "[dependencies]",
            pattern: ["", ".workspace = true"],
            line: format!("{name}.workspace = true"),
        },
        Edit {
            path: "crates/manager/src/lib.rs",
            heading: "pub const CONTROLLERS: &[Registration] = &[",
            pattern: ["    register::<", ">(),"],
            line: format!("    register::<{name}::{kind}Controller>(),"),
        },
        Edit {
            path: "docs/SUMMARY.md",
            heading: "- [Kinds](reference/kinds/README.md)",
            pattern: ["  - [", "](reference/kinds/"],
            line: format!("  - [{kind}](reference/kinds/{}.md)", kind.to_lowercase()),
        },
    ]
}

impl Edit {
    /// Inserts the line in sorted order into the first matching list below the heading.
    fn apply(&self, text: &str) -> Result<String> {
        let mut lines: Vec<_> = text.lines().collect();
        let index = self.index(&lines).with_context(|| {
            format!(
                "cannot find the list below `{}` in {}; add this line manually: {}",
                self.heading,
                self.path,
                self.line.trim()
            )
        })?;
        lines.insert(index, &self.line);
        Ok(lines.join("\n") + "\n")
    }

    fn index(&self, lines: &[&str]) -> Option<usize> {
        let heading = lines.iter().position(|line| *line == self.heading)?;
        let [prefix, substring] = self.pattern;
        let is_entry = |line: &str| line.starts_with(prefix) && line.contains(substring);
        let first = heading + 1 + lines.iter().skip(heading + 1).position(|line| is_entry(line))?;
        let entries = lines.iter().skip(first).take_while(|line| is_entry(line));
        let before = entries.take_while(|line| **line < self.line.as_str()).count();
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
    const LIB: &str =
        "pub const CONTROLLERS: &[Registration] = &[\n    register::<alpha::AlphaController>(),\n];\n";

    const SUMMARY: &str =
        "# Summary\n\n- [Kinds](reference/kinds/README.md)\n  - [Alpha](reference/kinds/alpha.md)\n";

    fn edited(kind: &str) -> Result<Vec<File>> {
        let names = Names::new("example.com", "v1", kind, None, None)?;
        files(&names, |path| {
            Ok(match path {
                "Cargo.toml" => ROOT,
                "crates/manager/Cargo.toml" => MANAGER,
                "docs/SUMMARY.md" => SUMMARY,
                _ => LIB,
            }
            .to_owned())
        })
    }

    #[test]
    fn inserts_lines_in_order() {
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
    fn inserts_first_and_last_line() {
        let first = &edited("Aa").unwrap()[0].text;
        assert!(first.contains("[workspace.dependencies]\naa = "), "{first}");
        let last = &edited("Zulu").unwrap()[0].text;
        assert!(last.contains("zeta\" }\nzulu = { path = \"crates/zulu\" }\n\nanyhow"), "{last}");
    }

    #[test]
    fn reports_line_to_add_if_list_is_missing() {
        let names = Names::new("example.com", "v1", "Greeting", None, None).unwrap();
        let error =
            files(&names, |_| Ok("nothing\n".to_owned())).err().expect("the list is missing").to_string();
        assert!(
            error.contains("add this line manually: greeting = { path = \"crates/greeting\" }"),
            "{error}"
        );
    }
}

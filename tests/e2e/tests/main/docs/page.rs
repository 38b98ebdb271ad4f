//! Parses the commands of a page and their expected output.

use std::{iter::Peekable, str::Lines};

use anyhow::{Context, Result, bail, ensure};

/// Info string of a block with commands.
const RUN: &str = "console run";
/// Info string of a block with commands that must fail.
const RUN_FAILS: &str = "console run fails";

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Line number of the command, starting at 1.
    pub(super) line: usize,
    /// The command.
    pub(super) command: String,
    /// Expected output.
    pub(super) expected: Vec<String>,
    /// Whether the command must fail.
    pub(super) fails: bool,
}

/// Returns the commands of a page in order, from the blocks with the info strings `console run` and
/// `console run fails`.
///
/// # Errors
/// Returns an error if a block is not closed or does not begin with a command, if an info string
/// resembles one of these, or if a background command keeps the terminal.
pub(super) fn steps(page: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(opening) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let mut block = Vec::new();
        loop {
            let (_, line) =
                lines.next().with_context(|| format!("the block at line {} is not closed", number + 1))?;
            if line.trim() == "```" {
                break;
            }
            block.push(line.get(indent..).unwrap_or_default());
        }
        let fails = match opening.trim() {
            RUN => false,
            RUN_FAILS => true,
            other => {
                let is_odd = other.starts_with("console") && other != "console";
                ensure!(
                    !is_odd,
                    "line {}: unknown info string `{other}`; use console, {RUN}, or {RUN_FAILS}",
                    number + 1
                );
                continue;
            }
        };
        steps.extend(block_steps(&block.join("\n"), number + 2, fails)?);
    }
    Ok(steps)
}

fn block_steps(block: &str, first_line: usize, fails: bool) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = Numbered { lines: block.lines().peekable(), next: first_line };
    while let Some((line, text)) = lines.next() {
        match (text.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                let command = whole_command(command, &mut lines);
                let in_background = command.trim_end().ends_with('&') && !command.contains('>');
                ensure!(!in_background, "line {line}: redirect the output of a background command to a file");
                steps.push(Step { line, command, expected: Vec::new(), fails });
            }
            (None, Some(step)) => step.expected.push(text.to_owned()),
            (None, None) => bail!("line {line}: a block must begin with a command: `$ ` and the command"),
        }
    }
    Ok(steps)
}

struct Numbered<'a> {
    lines: Peekable<Lines<'a>>,
    next: usize,
}

impl<'a> Numbered<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        self.next += 1;
        Some((self.next - 1, self.lines.next()?))
    }
}

/// Returns a command with its continuation lines: after a backslash, and of a here-document.
fn whole_command(first: &str, lines: &mut Numbered<'_>) -> String {
    let mut command = first.to_owned();
    while command.ends_with('\\') {
        let Some((_, more)) = lines.next() else { break };
        command = format!("{command}\n{more}");
    }
    if let Some(end) = here_document(&command) {
        while let Some((_, more)) = lines.next() {
            command = format!("{command}\n{more}");
            if more.trim_start_matches('\t') == end {
                break;
            }
        }
    }
    command
}

/// Returns the delimiter of the here-document that a command begins.
fn here_document(command: &str) -> Option<String> {
    let after = command.split_once("<<").map(|(_, after)| after).filter(|after| !after.starts_with('<'))?;
    let delimiter = after.trim_start_matches('-').split_whitespace().next()?;
    Some(delimiter.trim_matches(['\'', '"']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> Vec<(usize, String, Vec<String>)> {
        let steps = steps(page).unwrap();
        steps.into_iter().map(|step| (step.line, step.command, step.expected)).collect()
    }

    fn error(page: &str) -> String {
        steps(page).unwrap_err().to_string()
    }

    #[test]
    fn parses_only_console_run_blocks() {
        let page = "# A page\n\n```console\n$ rm -rf /\n```\n\n```console run\n$ echo a\na\n$ true\n```\n";
        assert_eq!(read(page), [(8, "echo a".into(), vec!["a".into()]), (10, "true".into(), Vec::new())]);
    }

    #[test]
    fn parses_commands_of_several_lines() {
        let page =
            "```console run\n$ echo \\\n  a\na\n$ cat <<'EOF' | wc -l\n$ one\nEOF\n1\n$ cat <<< b\nb\n```\n";
        let commands: Vec<_> =
            read(page).into_iter().map(|(_, command, expected)| (command, expected)).collect();
        assert_eq!(
            commands,
            [
                ("echo \\\n  a".into(), vec!["a".into()]),
                ("cat <<'EOF' | wc -l\n$ one\nEOF".into(), vec!["1".into()]),
                ("cat <<< b".into(), vec!["b".into()]),
            ]
        );
    }

    #[test]
    fn removes_indent_of_block_in_list() {
        let page = "1. first\n\n   ```console run\n   $ echo '  a'\n     a\n   ```\n";
        assert_eq!(read(page), [(4, "echo '  a'".into(), vec!["  a".into()])]);
    }

    #[test]
    fn parses_commands_that_must_fail() {
        let steps = steps("```console run fails\n$ false\n```\n```console run\n$ true\n```\n").unwrap();
        assert_eq!(steps.iter().map(|step| step.fails).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn errors_contain_line_number() {
        assert!(error("\n```console run\n$ true\n").contains("the block at line 2 is not closed"));
        assert!(error("```console run\ntrue\n```\n").contains("line 2: a block must begin with a command"));
        assert!(
            error("```console runs\n$ true\n```\n").contains("line 1: unknown info string `console runs`")
        );
        assert!(error("```console run\n$ sleep 9 &\n```\n").contains("line 2: redirect the output"));
    }
}

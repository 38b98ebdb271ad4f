//! Reading a page: which commands it has its reader type, and what it says that they print.

use std::{iter::Peekable, str::Lines};

use anyhow::{Context, Result, bail, ensure};

/// What opens a block of commands.
const RUN: &str = "console run";
/// What opens a block of commands that are to fail.
const RUN_FAILS: &str = "console run fails";

/// One command of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Where it begins, counted from 1.
    pub(super) line: usize,
    /// What the reader types.
    pub(super) command: String,
    /// What the reader then sees.
    pub(super) expected: Vec<String>,
    /// Whether it is to end with an error.
    pub(super) fails: bool,
}

/// The commands of a page, in its order: those of the blocks that open with `console run`, or with
/// `console run fails`.
///
/// # Errors
/// When a block has no end or begins with something other than a command, when its opening is nearly one of these,
/// or when a command goes on in the background and keeps the terminal.
pub(super) fn steps(page: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(opening) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let mut block = Vec::new();
        loop {
            let (_, line) =
                lines.next().with_context(|| format!("the block of line {} has no end", number + 1))?;
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
                ensure!(!is_odd, "line {}: `{other}` is none of: console, {RUN}, {RUN_FAILS}", number + 1);
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
                ensure!(
                    !in_background,
                    "line {line}: send the output of what goes on in the background to a file, else it comes between"
                );
                steps.push(Step { line, command, expected: Vec::new(), fails });
            }
            (None, Some(step)) => step.expected.push(text.to_owned()),
            (None, None) => bail!("line {line}: a block begins with a command: `$ ` and what is typed"),
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

/// A command with the lines onto which it goes: after a backslash, and of its here-document.
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

/// The word that ends the here-document which a command begins.
fn here_document(command: &str) -> Option<String> {
    let after = command.split_once("<<").map(|(_, after)| after).filter(|after| !after.starts_with('<'))?;
    let word = after.trim_start_matches('-').split_whitespace().next()?;
    Some(word.trim_matches(['\'', '"']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> Vec<(usize, String, Vec<String>)> {
        let steps = steps(page).unwrap();
        steps.into_iter().map(|step| (step.line, step.command, step.expected)).collect()
    }

    fn refusal(page: &str) -> String {
        steps(page).unwrap_err().to_string()
    }

    #[test]
    fn only_blocks_that_are_to_be_run_are_read() {
        let page = "# A page\n\n```console\n$ rm -rf /\n```\n\n```console run\n$ echo a\na\n$ true\n```\n";
        assert_eq!(read(page), [(8, "echo a".into(), vec!["a".into()]), (10, "true".into(), Vec::new())]);
    }

    #[test]
    fn a_command_may_take_several_lines() {
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
    fn a_block_in_a_list_loses_its_indent_and_no_more() {
        let page = "1. first\n\n   ```console run\n   $ echo '  a'\n     a\n   ```\n";
        assert_eq!(read(page), [(4, "echo '  a'".into(), vec!["  a".into()])]);
    }

    #[test]
    fn commands_that_are_to_fail_say_so() {
        let steps = steps("```console run fails\n$ false\n```\n```console run\n$ true\n```\n").unwrap();
        assert_eq!(steps.iter().map(|step| step.fails).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_its_line() {
        assert!(refusal("\n```console run\n$ true\n").contains("the block of line 2 has no end"));
        assert!(refusal("```console run\ntrue\n```\n").contains("line 2: a block begins with a command"));
        assert!(refusal("```console runs\n$ true\n```\n").contains("line 1: `console runs` is none of"));
        assert!(refusal("```console run\n$ sleep 9 &\n```\n").contains("line 2: send the output"));
    }
}

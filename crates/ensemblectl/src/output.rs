//! Tables, colours, and JSON.
//!
//! Text always contains colours. They are removed on output that is not a terminal.

use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use serde::Serialize;
use tabled::{
    builder::Builder,
    settings::{Padding, Style as Lines},
};

use crate::flags::Format;

/// Exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// No errors. Exit code 0.
    Success,
    /// A check or a wait failed. Exit code 1.
    Failure,
    /// The state could not be determined. Exit code 2.
    Unknown,
}

impl From<ExitStatus> for ExitCode {
    fn from(exit_status: ExitStatus) -> Self {
        match exit_status {
            ExitStatus::Success => Self::SUCCESS,
            ExitStatus::Failure => Self::from(1),
            ExitStatus::Unknown => Self::from(2),
        }
    }
}

pub(crate) const SUCCESS: Style = AnsiColor::Green.on_default();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
pub(crate) const ERROR: Style = AnsiColor::Red.on_default();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

/// Returns the text in a style.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

/// Returns the status of a condition, green for `True`, red for `False`, and yellow otherwise.
pub(crate) fn status(text: &str) -> String {
    paint(
        match text {
            "True" => SUCCESS,
            "False" => ERROR,
            _ => WARNING,
        },
        text,
    )
}

/// Returns a table with aligned columns. No line has trailing spaces.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut builder = Builder::default();
    builder.push_record(head.map(|name| paint(BOLD, name)));
    for row in rows {
        // A line break in a cell would start a new row.
        builder.push_record(row.map(|cell| cell.replace(['\n', '\r', '\t'], " ")));
    }
    let mut table = builder.build();
    table.with(Lines::empty()).with(Padding::new(0, 2, 0, 0));
    table.to_string().lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Prints a result as text or JSON.
pub(crate) fn print<T: Serialize>(format: Format, value: &T, text: impl FnOnce() -> String) -> Result<()> {
    match format {
        Format::Text => print_text(&text()),
        Format::Json => {
            let json = serde_json::to_string_pretty(value).context("cannot write the result as JSON")?;
            print_text(&format!("{json}\n"))
        }
    }
}

/// Prints text to standard output. Ignores a closed pipe, as `head` leaves it.
///
/// # Errors
/// Returns an error if standard output cannot be written for another reason.
pub(crate) fn print_text(text: &str) -> Result<()> {
    match try_print(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot print the result"),
    }
}

/// Prints text to standard output.
///
/// # Errors
/// Returns an error if standard output cannot be written, also if it is a closed pipe.
pub(crate) fn try_print(text: &str) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Prints text to standard error. Ignores errors.
pub(crate) fn print_error(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Returns the text without colours.
#[cfg(test)]
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_columns_with_coloured_cells() {
        let rows = [
            ["a".to_owned(), status("True"), "two\nlines".to_owned()],
            ["long name".to_owned(), status("Unknown"), String::new()],
        ];
        insta::assert_snapshot!(plain(&table(["NAME", "READY", "MESSAGE"], rows)), @r"
        NAME       READY    MESSAGE
        a          True     two lines
        long name  Unknown
        ");
    }

    #[test]
    fn empty_text_has_no_colour() {
        assert_eq!(paint(ERROR, ""), "");
        assert!(status("False").starts_with('\u{1b}'));
    }
}

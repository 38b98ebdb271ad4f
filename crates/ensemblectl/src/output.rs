//! Tables, colours and JSON. Text always carries its colours; what is printed to something else than a terminal loses
//! them on the way.

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

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All is as it should be.
    Fine,
    /// Something is wrong, and it was said what.
    Wrong,
    /// It could not be found out.
    Unknown,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Fine => Self::SUCCESS,
            Ending::Wrong => Self::from(1),
            Ending::Unknown => Self::from(2),
        }
    }
}

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const HEAD: Style = Style::new().bold();

/// A text in a style.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

/// The status of a condition, in the colour of good or bad news.
pub(crate) fn status(text: &str) -> String {
    paint(
        match text {
            "True" => GOOD,
            "False" => BAD,
            _ => DOUBTFUL,
        },
        text,
    )
}

/// Rows under a head, in columns that line up. No line ends with spaces.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut builder = Builder::default();
    builder.push_record(head.map(|name| paint(HEAD, name)));
    for row in rows {
        // A line break in a message would be a row of its own.
        builder.push_record(row.map(|cell| cell.replace(['\n', '\r', '\t'], " ")));
    }
    let mut table = builder.build();
    table.with(Lines::empty()).with(Padding::new(0, 2, 0, 0));
    table.to_string().lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Prints a result in the form that was asked for.
pub(crate) fn print<T: Serialize>(format: Format, value: &T, text: impl FnOnce() -> String) -> Result<()> {
    match format {
        Format::Text => say(&text()),
        Format::Json => {
            let json = serde_json::to_string_pretty(value).context("cannot write the result as JSON")?;
            say(&format!("{json}\n"))
        }
    }
}

/// Prints a text. Whoever has stopped reading, as `head` does, has read enough.
///
/// # Errors
/// When it cannot be written for another reason.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot print the result"),
    }
}

/// Prints to standard error, if anybody is there.
pub(crate) fn complain(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// A text as it is where there are no colours.
#[cfg(test)]
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_is_coloured() {
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
    fn nothing_is_painted_where_there_is_nothing() {
        assert_eq!(paint(BAD, ""), "");
        assert!(status("False").starts_with('\u{1b}'));
    }
}

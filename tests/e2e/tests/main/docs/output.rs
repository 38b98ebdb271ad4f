//! Compares the output of a command with its page.

/// Placeholder: matches any text within a line or, alone on a line, any lines.
const ANYTHING: &str = "...";

/// Returns whether `actual` matches the page. Trailing white space and trailing empty lines are
/// ignored.
pub(super) fn matches(expected: &[String], actual: &str) -> bool {
    let expected: Vec<_> = expected.iter().map(|line| line.trim_end()).collect();
    let actual = actual.trim_end().lines().filter(|line| !is_stopped_watch(line));
    let actual: Vec<_> = actual.map(str::trim_end).collect();
    let end = expected.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines_match(&expected[..end], &actual)
}

/// Returns whether a line is the note that Helm's client library writes when Helm stops a watch of its
/// own while an event arrives. Whether it does depends on the moment.
fn is_stopped_watch(line: &str) -> bool {
    line.starts_with('I') && line.contains("watch ended with error") && line.contains("context canceled")
}

fn lines_match(expected: &[&str], actual: &[&str]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((&ANYTHING, rest)) => (0..=actual.len()).any(|skipped| lines_match(rest, &actual[skipped..])),
        Some((line, rest)) => actual
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(expected: &str, actual: &str) -> bool {
    match expected.split_once(ANYTHING) {
        None => expected == actual,
        Some((start, rest)) => actual.strip_prefix(start).is_some_and(|left| {
            (0..=left.len()).filter(|at| left.is_char_boundary(*at)).any(|at| line_matches(rest, &left[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(expected: &str, actual: &str) -> bool {
        matches(&expected.lines().map(str::to_owned).collect::<Vec<_>>(), actual)
    }

    #[test]
    fn text_must_be_equal() {
        assert!(is_match("", ""));
        assert!(is_match("a\nb", "a\nb\n"));
        assert!(is_match("a\n\nb\n", "a  \n\nb\n\n"));
        assert!(!is_match("", "a"));
        assert!(!is_match("a", ""));
        assert!(!is_match("a", "a\nb"));
        assert!(!is_match("a  b", "a b"));
    }

    #[test]
    fn watch_that_helm_stops_is_ignored() {
        let note = "I1123 20:28:16.982051   24289 reflector.go:664] \"Warning: watch ended with error\" \
            err=\"unable to decode an event from the watch stream: context canceled\"\n";
        assert!(is_match("", note));
        assert!(is_match("a", &format!("a\n{note}")));
        assert!(!is_match("", "Error: watch ended with error: context canceled"));
    }

    #[test]
    fn dots_match_text_within_a_line() {
        assert!(is_match("pod/... created", "pod/a-1 created"));
        assert!(is_match("... 3 ...", "é 2 3 4"));
        assert!(is_match("a...", "a"));
        assert!(!is_match("pod/... created", "pod/a\ncreated"));
        assert!(!is_match("...b", "abc"));
    }

    #[test]
    fn dots_alone_match_lines() {
        assert!(is_match("...", ""));
        assert!(is_match("...", "a\nb"));
        assert!(is_match("a\n...\nd", "a\nb\nc\nd"));
        assert!(is_match("...\nb\n...", "a\nb\nb\nc"));
        assert!(!is_match("...\nx\n...", "a\nb"));
        assert!(!is_match("a\n...\nd", "a\nd\ne"));
    }
}

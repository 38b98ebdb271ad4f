//! Parses the output of test programs.

/// Lines of the message of a failed test that are kept, so that the end of a long log says why tests failed.
const MESSAGE: usize = 30;

/// Results of all test programs of one run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Output {
    /// Number of tests that passed.
    pub(super) passed: usize,
    /// Number of tests that failed.
    pub(super) failed: usize,
    /// Number of ignored tests.
    pub(super) ignored: usize,
    /// Number of test programs without a result: they were killed, or exited early.
    pub(super) unclosed: usize,
    /// The failed tests, each name once.
    pub(super) failures: Vec<Failure>,
    /// Whether the run as a whole succeeded. It also fails if tests do not compile or a program
    /// aborts.
    pub(super) succeeded: bool,
    /// Name and duration in seconds of each test program.
    programs: Vec<(String, f64)>,
    /// Name of the running test program.
    running: Option<String>,
    /// The failed test whose output is being read, and whether it has panicked.
    section: Option<(usize, bool)>,
}

/// A test that failed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Failure {
    pub(super) name: String,
    /// What its first panic printed.
    pub(super) message: Vec<String>,
}

impl Output {
    /// Parses a line. Recognises the runner's `program PACKAGE FILE`, and libtest's `running 4
    /// tests`, `test some::name ... FAILED`, the output of failed tests, and `test result: ok. 3
    /// passed; 0 failed; ...; finished in 0.01s`. Ignores other lines.
    pub(super) fn parse_line(&mut self, line: &str) {
        if let Some(program) = line.strip_prefix("program ").and_then(program) {
            self.running = Some(program);
        }
        self.parse_message(line);
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.unclosed += 1;
        }
        if let Some((_, numbers)) =
            line.strip_prefix("test result: ").and_then(|result| result.split_once(". "))
        {
            self.unclosed = self.unclosed.saturating_sub(1);
            return self.count(numbers);
        }
        let name = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
        if let Some(name) = name.filter(|name| self.failures.iter().all(|known| known.name != *name)) {
            self.failures.push(Failure { name: name.to_owned(), message: Vec::new() });
        }
    }

    /// Reads the output of failed tests, which begins with `---- some::name stdout ----`, and in it
    /// `thread 'some::name' panicked at` with the lines of the message.
    fn parse_message(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            let failure =
                self.failures.iter().position(|known| known.name == name && known.message.is_empty());
            self.section = failure.map(|failure| (failure, false));
            return;
        }
        let Some((failure, panicked)) = self.section else { return };
        let begins = line.starts_with("thread '") && line.contains(" panicked at ");
        let message = self.failures.get_mut(failure).map(|failure| &mut failure.message);
        let Some(message) = message.filter(|message| message.len() < MESSAGE) else { return };
        if line == "failures:" || line.starts_with("test result: ") || line.starts_with("note: ") && panicked
        {
            self.section = None;
        } else if panicked || begins {
            message.push(line.to_owned());
            self.section = Some((failure, true));
        }
    }

    /// Returns the slowest test programs and their durations in seconds, the slowest first.
    pub(super) fn slowest(&self, count: usize) -> Vec<(&str, f64)> {
        let mut programs: Vec<_> =
            self.programs.iter().map(|(program, seconds)| (program.as_str(), *seconds)).collect();
        programs.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        programs.truncate(count);
        programs
    }

    fn count(&mut self, numbers: &str) {
        for part in numbers.split("; ") {
            if let Some(time) = part.strip_prefix("finished in ") {
                let seconds = time.trim_end_matches('s').parse().unwrap_or_default();
                self.programs.extend(self.running.take().map(|program| (program, seconds)));
                continue;
            }
            let Some((number, what)) = part.split_once(' ') else { continue };
            let number: usize = number.parse().unwrap_or_default();
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// Returns the name of a test program from its package and its file name, which ends with a hash:
/// `podset main`. The unit tests of a package have only the package's name.
fn program(line: &str) -> Option<String> {
    let (package, file) = line.split_once(' ')?;
    let target = file.rsplit_once('-').map_or(file, |(target, _)| target);
    let is_unit_test = target == package.replace('-', "_");
    Some(if is_unit_test { package.to_owned() } else { format!("{package} {target}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&str]) -> Output {
        let mut output = Output::default();
        for line in lines {
            output.parse_line(line);
        }
        output
    }

    #[test]
    fn sums_results_of_all_programs_and_lists_failures() {
        let output = parse(&[
            "running 4 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "running 3 tests",
            "test crashes::first ... ok",
            "test crashes::second ... FAILED",
            "failures:",
            "",
            "---- crashes::second stdout ----",
            "what it printed",
            "",
            "thread 'crashes::second' (7) panicked at tests/main.rs:3:5:",
            "first",
            "",
            "second",
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "thread 'crashes::second' (7) panicked at tests/main.rs:9:5:",
            "",
            "failures:",
            "    crashes::second",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "running 1 test",
        ]);
        let message = ["thread 'crashes::second' (7) panicked at tests/main.rs:3:5:", "first", "", "second"];
        let message = message.map(str::to_owned).to_vec();
        let failures = vec![Failure { name: "crashes::second".to_owned(), message }];
        let expected =
            Output { passed: 4, failed: 2, ignored: 1, unclosed: 1, failures, ..Output::default() };
        assert_eq!(output, expected);
    }

    #[test]
    fn message_is_bounded() {
        let mut output =
            parse(&["test a ... FAILED", "---- a stdout ----", "thread 'a' (1) panicked at a.rs:1:1:"]);
        for _ in 0..2 * MESSAGE {
            output.parse_line("more");
        }
        assert_eq!(output.failures[0].message.len(), MESSAGE);
    }

    #[test]
    fn lists_slowest_programs_first() {
        let result =
            |time: &str| format!("test result: ok. 1 passed; 0 failed; 0 ignored; finished in {time}s");
        let output = parse(&[
            "program operator-core operator_core-068b587f498fc4f0",
            &result("0.03"),
            "program podset main-c987fa5fe4ce3eb9",
            &result("61.50"),
            "program podset rust_out",
            &result("2.00"),
        ]);
        assert_eq!(output.slowest(2), [("podset main", 61.5), ("podset rust_out", 2.0)]);
        assert_eq!(output.slowest(9).last(), Some(&("operator-core", 0.03)));
    }
}

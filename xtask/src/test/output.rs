//! What test programs print, read.

/// What all test programs of one run said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// Tests that passed.
    pub(super) passed: usize,
    /// Tests that failed.
    pub(super) failed: usize,
    /// Tests that were not run.
    pub(super) ignored: usize,
    /// Test programs that began and did not close: they were ended by a signal, or ended themselves.
    pub(super) unclosed: usize,
    /// The names of those that failed, each once.
    pub(super) failures: Vec<String>,
    /// Whether the run as a whole succeeded: tests may not even compile, or a program may abort.
    pub(super) succeeded: bool,
}

impl Output {
    /// Takes in a line: `test some::name ... FAILED`, or what a test program begins and closes with, `running 4 tests`
    /// and `test result: ok. 3 passed; 0 failed; 1 ignored; ...`. Others mean nothing here.
    pub(super) fn take(&mut self, line: &str) {
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
        if let Some(name) = name.filter(|name| self.failures.iter().all(|known| known != name)) {
            self.failures.push(name.to_owned());
        }
    }

    fn count(&mut self, numbers: &str) {
        for part in numbers.split("; ") {
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

    /// This run, of which all that failed was tried again with that outcome. What did not run the second time has
    /// failed still.
    pub(super) fn with_second_try(self, again: Self) -> Self {
        let passed = again.passed.min(self.failed);
        let failed = self.failed - passed;
        let failures = if failed == 0 { Vec::new() } else { again.failures };
        let succeeded = again.succeeded && failed == 0;
        let unclosed = self.unclosed + again.unclosed;
        Self { passed: self.passed + passed, failed, ignored: self.ignored, unclosed, failures, succeeded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Output {
        let mut output = Output::default();
        for line in lines {
            output.take(line);
        }
        output
    }

    #[test]
    fn the_closing_lines_of_all_test_programs_are_added_up_and_failures_are_named() {
        let output = said(&[
            "running 4 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "running 3 tests",
            "test crashes::all_is_well ... ok",
            "test crashes::nothing_is_lost ... FAILED",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "running 1 test",
        ]);
        let failures = vec!["crashes::nothing_is_lost".to_owned()];
        let expected = Output { passed: 4, failed: 2, ignored: 1, unclosed: 1, failures, succeeded: false };
        assert_eq!(output, expected);
    }

    #[test]
    fn what_passes_by_itself_counts_as_passed_and_what_did_not_run_again_as_failed() {
        let failures = vec!["a".to_owned(), "b".to_owned()];
        let first = || Output { passed: 7, failed: 2, failures: failures.clone(), ..Output::default() };
        let both = Output { passed: 2, succeeded: true, ..Output::default() };
        let good = Output { passed: 9, succeeded: true, ..Output::default() };
        assert_eq!(first().with_second_try(both), good);

        let one = Output { passed: 1, failed: 1, failures: vec!["b".to_owned()], ..Output::default() };
        let bad = Output { passed: 8, failed: 1, failures: vec!["b".to_owned()], ..Output::default() };
        assert_eq!(first().with_second_try(one), bad);

        let none = first().with_second_try(Output { succeeded: true, ..Output::default() });
        assert_eq!((none.failed, none.succeeded), (2, false));
    }
}

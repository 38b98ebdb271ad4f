//! Values from files that can be replaced, such as the files of a mounted Secret.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

/// Minimum time between two reads of the files. A use of the value triggers the read.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T> + Send + Sync>;

/// A value that is parsed from files.
///
/// # Guarantees
/// A replaced file is used within ten seconds. While a file is missing or invalid, the last valid value is
/// kept, and one warning says why. The contents of files are never logged.
pub struct FileReloader<T> {
    /// Name of the value, for messages.
    what: &'static str,
    files: Vec<PathBuf>,
    parse: Parse<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    last_read: Instant,
    contents: Vec<Vec<u8>>,
    value: Arc<T>,
    /// The last failure, so that each one is logged once.
    failure: Option<String>,
}

impl<T> FileReloader<T> {
    /// Reads the files. `parse` gets their contents in the same order. `what` names the value in messages,
    /// such as `the client CA`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or the errors of `parse`.
    pub fn new(
        what: &'static str,
        files: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        let contents = read(what, &files)?;
        let value = Arc::new(parse(&contents)?);
        let state = State { last_read: Instant::now(), contents, value, failure: None };
        Ok(Self { what, files, parse: Box::new(parse), state: Mutex::new(state) })
    }

    /// Returns the value of the present files, or the last valid one.
    pub fn current(&self) -> Arc<T> {
        let mut state = self.state.lock();
        if state.last_read.elapsed() >= REFRESH_INTERVAL {
            state.last_read = Instant::now();
            self.reload(&mut state);
        }
        state.value.clone()
    }

    fn reload(&self, state: &mut State<T>) {
        match self.changed(&state.contents) {
            Ok(changed) => {
                state.failure = None;
                if let Some((contents, value)) = changed {
                    info!(file = self.paths(), "reloaded {}", self.what);
                    (state.contents, state.value) = (contents, Arc::new(value));
                }
            }
            Err(error) => {
                let failure = format!("{error:#}");
                if state.failure.as_ref() != Some(&failure) {
                    warn!(
                        file = self.paths(),
                        error = failure,
                        "cannot reload {}; keeping the previous value",
                        self.what
                    );
                }
                state.failure = Some(failure);
            }
        }
    }

    fn paths(&self) -> String {
        self.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the contents of the files and their value, or `None` if the contents are unchanged.
    fn changed(&self, previous: &[Vec<u8>]) -> Result<Option<(Vec<Vec<u8>>, T)>> {
        let contents = read(self.what, &self.files)?;
        if contents == previous {
            return Ok(None);
        }
        let value = (self.parse)(&contents)?;
        Ok(Some((contents, value)))
    }
}

fn read(what: &str, files: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    let read =
        |file: &PathBuf| fs::read(file).with_context(|| format!("cannot read {what} {}", file.display()));
    files.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    /// Returns the length of a file, which must not be empty.
    fn length(contents: &[Vec<u8>]) -> Result<usize> {
        let length = contents.iter().map(Vec::len).sum();
        ensure!(length > 0, "empty");
        Ok(length)
    }

    #[test]
    fn reloads_replaced_file_and_ignores_invalid_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "one").unwrap();
        let value = FileReloader::new("the number", vec![file.path().to_owned()], length).unwrap();
        let later = || {
            value.state.lock().last_read = Instant::now().checked_sub(REFRESH_INTERVAL).unwrap();
            value.current()
        };
        let first = value.current();
        assert!(*first == 3 && Arc::ptr_eq(&first, &later()), "the file is unchanged");
        fs::write(file.path(), "").unwrap();
        assert!(Arc::ptr_eq(&first, &later()));
        fs::write(file.path(), "three").unwrap();
        assert!(Arc::ptr_eq(&first, &value.current()), "the file must not be read for each use");
        assert_eq!(*later(), 5);
        fs::remove_file(file.path()).unwrap();
        assert_eq!(*later(), 5);
        assert!(value.state.lock().failure.as_ref().unwrap().contains("cannot read the number"));
    }

    #[test]
    fn missing_file_is_an_error_at_the_start() {
        let error = FileReloader::new("the number", vec!["/nowhere".into()], length).err().unwrap();
        assert!(format!("{error:#}").starts_with("cannot read the number /nowhere: "), "{error:#}");
    }
}

//! Clock skew.

use std::{
    fs::read_dir,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Library folders, with or without an architecture subfolder.
const PLACES: [&str; 2] = ["/usr/lib", "/usr/lib64"];
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// Returns environment variables that set the clock of a process ahead by this number of seconds,
/// or behind if negative.
///
/// # Errors
/// Returns an error if libfaketime is not installed.
pub fn ahead(seconds: i64) -> Result<Vec<(String, String)>> {
    let library = library().context(
        "clock skew (F17) needs libfaketime: install it (apt-get install libfaketime), or omit F17 from --classes",
    )?;
    let variables = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", format!("{seconds:+}")),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    Ok(variables.map(|(name, value)| (name.to_owned(), value)).into())
}

fn library() -> Option<PathBuf> {
    let below = |place: &str| read_dir(place).into_iter().flatten().filter_map(Result::ok);
    let folders = PLACES.iter().flat_map(|place| below(place).map(|entry| entry.path()));
    PLACES.iter().map(|place| Path::new(place).to_owned()).chain(folders).find_map(|folder| {
        let library = folder.join(LIBRARY);
        library.exists().then_some(library)
    })
}

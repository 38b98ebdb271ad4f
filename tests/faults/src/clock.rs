//! Clocks that are wrong.

use std::{
    fs::read_dir,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Where systems keep it: below a folder for each architecture, or not.
const PLACES: [&str; 2] = ["/usr/lib", "/usr/lib64"];
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// The environment of a program whose clock is so many seconds ahead; behind, if they are negative. How time passes is not
/// changed.
///
/// # Errors
/// When libfaketime, which stands before the clock, is not installed.
pub fn ahead(seconds: i64) -> Result<Vec<(String, String)>> {
    let library = library().context(
        "wrong clocks (F17) take libfaketime: install it (apt-get install libfaketime), or name the classes without it",
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

//! Programs of the major version from which the data are upgraded.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{processes::Processes, programs::Programs};

/// Programs of the former major version.
pub(crate) struct Previous {
    pub(crate) programs: Programs,
    pub(crate) major_version: u16,
}

impl Previous {
    /// Returns the programs in a folder, if one is given.
    ///
    /// # Errors
    /// Returns an error if they cannot be run.
    pub(crate) async fn find(folder: Option<PathBuf>, processes: &Processes) -> Result<Option<Self>> {
        let Some(folder) = folder else { return Ok(None) };
        let programs = Programs::new(Some(folder), processes.clone());
        let major_version = programs.major_version().await?;
        Ok(Some(Self { programs, major_version }))
    }
}

/// Returns the major version of a data directory. `None` without one.
///
/// # Errors
/// Returns an error if the file `PG_VERSION` cannot be read, or has another form.
pub(crate) fn data_version(data: &Path) -> Result<Option<u16>> {
    let path = data.join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(text) => {
            let version = text.trim().parse();
            version.map(Some).with_context(|| format!("{} has no major version: {text:?}", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directory_tells_its_version() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(data_version(data.path()).unwrap(), None);
        fs::write(data.path().join("PG_VERSION"), "17\n").unwrap();
        assert_eq!(data_version(data.path()).unwrap(), Some(17));
        fs::write(data.path().join("PG_VERSION"), "9.6\n").unwrap();
        let error = data_version(data.path()).unwrap_err().to_string();
        assert!(error.contains("PG_VERSION has no major version: \"9.6\\n\""), "{error}");
    }
}

//! `report`: an archive for troubleshooting.
//!
//! Secrets are never read. All files pass through [`redact`] before they are written.

mod archive;
mod collect;
mod redact;

use anyhow::Result;

use crate::{
    check::{self, SecretAccess},
    cluster::Cluster,
    flags::Report,
    installation::Installation,
    output::{ExitStatus, print_text},
};

/// File of the archive.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    fn new(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into() }
    }
}

/// Writes the archive. Errors of reads are written to a file in the archive.
pub(crate) async fn run(cluster: &Cluster, flags: &Report) -> Result<ExitStatus> {
    let installation = Installation::find(cluster).await?;
    let findings = check::findings(cluster, &installation, flags.limits, SecretAccess::Denied).await;
    let mut files = collect::files(cluster, &installation).await;
    files.push(File::new("checks.txt", anstream::adapter::strip_str(&findings.text()).to_string()));
    files.push(File::new("checks.json", serde_json::to_string_pretty(&findings)?));
    for file in &mut files {
        file.text = redact::text(&file.text);
    }
    archive::write(&flags.output, &files, cluster.now())?;
    print_text(&format!(
        "wrote {} with {} files\nSecrets were not read, and values that can be secret were removed; review the archive \
         before you share it\n",
        flags.output.display(),
        files.len()
    ))?;
    Ok(ExitStatus::Success)
}

//! `report`: what somebody needs who is to help, in one archive.
//!
//! Secrets are never asked for. Every file passes [`redact`] on its way into the archive, so that what is gathered in
//! future passes it, too.

mod archive;
mod gather;
mod redact;

use anyhow::Result;

use crate::{
    check::{self, Secrets},
    connect::Cluster,
    flags::Report,
    installation::Installation,
    output::{Ending, say},
};

/// A file of the archive.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    fn new(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into() }
    }
}

/// Gathers, writes the archive, and says what is in it. What cannot be read is told in the archive, and no reason to
/// stop.
pub(crate) async fn run(cluster: &Cluster, flags: &Report) -> Result<Ending> {
    let installation = Installation::find(cluster).await?;
    let findings = check::findings(cluster, &installation, flags.limits, Secrets::Untouched).await;
    let mut files = gather::files(cluster, &installation).await;
    files.push(File::new("checks.txt", anstream::adapter::strip_str(&findings.text()).to_string()));
    files.push(File::new("checks.json", serde_json::to_string_pretty(&findings)?));
    for file in &mut files {
        file.text = redact::text(&file.text);
    }
    archive::write(&flags.output, &files, cluster.now())?;
    say(&format!(
        "wrote {} with {} files\nSecrets were not read, and values that may be secret were taken out; look through it \
         before you pass it on\n",
        flags.output.display(),
        files.len()
    ))?;
    Ok(Ending::Fine)
}

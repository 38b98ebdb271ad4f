//! Requests to the servers of the manager.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The head, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Asks with curl, as people do. Fails when there is no answer.
pub(crate) fn curl(url: &str, args: &[&str]) -> Result<Answer> {
    let limits = ["--silent", "--show-error", "--max-time", "20", "--dump-header", "-"];
    let output = Command::new("curl").args(limits).args(args).arg(url).output().context("curl is needed")?;
    if !output.status.success() {
        bail!("{url}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout).context("an answer is text")?;
    let (head, body) = text.split_once("\r\n\r\n").context("an answer has a head and a body")?;
    let status = head.split(' ').nth(1).context("an answer has a status")?.parse()?;
    Ok(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
}

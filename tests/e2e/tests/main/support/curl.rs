//! Requests to the servers of the manager.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// A server's response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends a request with curl.
///
/// # Errors
/// Returns an error if there is no response.
pub(crate) fn curl(url: &str, args: &[&str]) -> Result<Response> {
    let limits = ["--silent", "--show-error", "--max-time", "20", "--dump-header", "-"];
    let output = Command::new("curl").args(limits).args(args).arg(url).output().context("run curl")?;
    if !output.status.success() {
        bail!("{url}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout).context("decode the response as UTF-8")?;
    let (head, body) = text.split_once("\r\n\r\n").context("split the response into head and body")?;
    let status = head.split(' ').nth(1).context("read the status of the response")?.parse()?;
    Ok(Response { status, head: head.to_lowercase(), body: body.to_owned() })
}

//! A running manager.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result};
use cluster::{Companion, usage::peak, wait::eventually};
use rustix::process::{Pid, Signal, kill_process};

use super::PATIENCE;

/// How long a stop may take: half of the time that the kubelet allows. An idle machine needs five
/// seconds, most of which the webhook server waits for clients.
const STOP: Duration = Duration::from_secs(15);

/// A running manager. It is killed when dropped.
pub(crate) struct Manager {
    companion: Companion,
    port: u16,
}

impl Manager {
    /// Wraps a companion. `port` is the port of its probes, or 0.
    pub(crate) fn new(companion: Companion, port: u16) -> Self {
        Self { companion, port }
    }

    /// Returns the log of this manager and of earlier managers with the same name.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.companion.log()).unwrap()
    }

    /// Returns the number of log lines that contain `text`.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    /// Waits until the log contains `text`.
    pub(crate) async fn until_logged(&self, text: &str) {
        eventually(&format!("the log to contain {text:?}"), PATIENCE, async || {
            Ok(if self.count(text) > 0 { Ok(()) } else { Err(self.companion.log_tail()) })
        })
        .await
        .unwrap();
    }

    /// Returns status and body of a probe's response.
    pub(crate) fn probe(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("split the response into head and body")?;
        let status = head.split(' ').nth(1).context("read the status of the response")?.parse()?;
        Ok((status, body.to_owned()))
    }

    /// Waits until `/readyz` returns this status and body.
    pub(crate) async fn until_readyz(&self, status: u16, body: &str) {
        eventually(&format!("/readyz to return {status} {body:?}"), PATIENCE, async || {
            let answer = self.probe("/readyz")?;
            Ok(if answer == (status, body.to_owned()) { Ok(()) } else { Err(answer) })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}; the log ends with:\n{}", self.companion.log_tail()));
    }

    /// Waits until a probe returns this status.
    pub(crate) async fn until_status(&self, path: &str, status: u16) {
        eventually(&format!("{path} to return {status}"), PATIENCE, async || {
            let answer = self.probe(path)?;
            Ok(if answer.0 == status { Ok(()) } else { Err(answer) })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}; the log ends with:\n{}", self.companion.log_tail()));
    }

    /// Returns the maximum of the manager's resident memory in MiB.
    pub(crate) fn peak_memory(&self) -> f64 {
        peak(self.companion.pid()).unwrap()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.companion.pid().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Returns whether the manager has installed a handler for a signal.
    fn handles(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.companion.pid())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(self) {
        self.companion.kill().unwrap();
    }

    /// Sends SIGTERM, as a kubelet does. Asserts that the manager exits in time with code 0, and
    /// returns its log.
    pub(crate) async fn stop(mut self) -> String {
        self.companion.ensure_running().unwrap();
        eventually("the manager to handle SIGTERM", PATIENCE, async || Ok(self.handles(Signal::TERM)))
            .await
            .unwrap();
        self.signal(Signal::TERM);
        let (end, log) = self.until_exit(STOP).await;
        assert!(end.contains("exit code 0"), "{end}");
        log
    }

    /// Waits until the manager exits on its own. Returns its exit status and its log.
    pub(crate) async fn until_exit(mut self, patience: Duration) -> (String, String) {
        let companion = &mut self.companion;
        let end = eventually("the manager to end", patience, async || {
            Ok(companion.ensure_running().err().map(|end| end.to_string()))
        });
        (end.await.unwrap(), self.log())
    }
}

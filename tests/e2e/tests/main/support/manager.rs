//! A running manager.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result};
use cluster::{Companion, wait::eventually};
use rustix::process::{Pid, Signal, kill_process};

use super::PATIENCE;

/// A running manager. Killed when dropped.
pub(crate) struct Manager {
    companion: Companion,
    port: u16,
}

impl Manager {
    /// `port` is where its probes are, if they are anywhere.
    pub(crate) fn new(companion: Companion, port: u16) -> Self {
        Self { companion, port }
    }

    /// All that it and earlier managers of its name have logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.companion.log()).unwrap()
    }

    /// How many lines of the log contain these words.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.log().lines().filter(|line| line.contains(words)).count()
    }

    /// Waits until the log contains these words.
    pub(crate) async fn until_logged(&self, words: &str) {
        eventually(&format!("the log to say {words:?}"), PATIENCE, async || {
            Ok(if self.count(words) > 0 { Ok(()) } else { Err(self.companion.log_tail()) })
        })
        .await
        .unwrap();
    }

    /// The answer of a probe: status and body.
    pub(crate) fn probe(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head and a body")?;
        let status = head.split(' ').nth(1).context("an answer has a status")?.parse()?;
        Ok((status, body.to_owned()))
    }

    /// Waits until `/readyz` answers so.
    pub(crate) async fn until_readyz(&self, status: u16, body: &str) {
        eventually(&format!("/readyz to answer {status} {body:?}"), PATIENCE, async || {
            let answer = self.probe("/readyz")?;
            Ok(if answer == (status, body.to_owned()) { Ok(()) } else { Err(answer) })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}; the log ends with:\n{}", self.companion.log_tail()));
    }

    /// Waits until a probe answers with that status, whatever it says.
    pub(crate) async fn until_answered(&self, path: &str, status: u16) {
        eventually(&format!("{path} to answer {status}"), PATIENCE, async || {
            let answer = self.probe(path)?;
            Ok(if answer.0 == status { Ok(()) } else { Err(answer) })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}; the log ends with:\n{}", self.companion.log_tail()));
    }

    /// Returns the most memory that it has ever had in use, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.companion.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak.unwrap().trim().parse::<u64>().unwrap() / 1024
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.companion.pid().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Whether it does something about a signal, instead of just being ended by it.
    fn handles(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.companion.pid())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
    }

    /// Ends it without warning.
    pub(crate) fn kill(self) {
        self.companion.kill().unwrap();
    }

    /// Asks it to end, as a kubelet does, and holds it to doing so in time and with success. Returns its log.
    pub(crate) async fn ask_to_end(mut self) -> String {
        self.companion.ensure_running().unwrap();
        eventually("the manager to handle SIGTERM", PATIENCE, async || Ok(self.handles(Signal::TERM)))
            .await
            .unwrap();
        self.signal(Signal::TERM);
        let (end, log) = self.until_ended(Duration::from_secs(5)).await;
        assert!(end.contains("exit code 0"), "{end}");
        log
    }

    /// Waits until it has ended by itself. Returns how, and its log.
    pub(crate) async fn until_ended(mut self, patience: Duration) -> (String, String) {
        let companion = &mut self.companion;
        let end = eventually("the manager to end", patience, async || {
            Ok(companion.ensure_running().err().map(|end| end.to_string()))
        });
        (end.await.unwrap(), self.log())
    }
}

//! Runs `pgbench`, the benchmark of PostgreSQL.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use cluster::wait::eventually;
use postgres_processes::programs;
use tokio::task::spawn_blocking;

use super::application::Application;

/// Arguments of each run: the concurrent clients, and the threads of `pgbench`.
pub(crate) const RUN: [&str; 4] = ["--client", "8", "--jobs", "2"];
/// How long a server may take to start.
const START: Duration = Duration::from_secs(30);

/// A server on this machine, by its Unix socket.
pub(crate) struct Server<'a> {
    /// Folder of the socket.
    pub(crate) sockets: PathBuf,
    /// Who connects.
    pub(crate) application: &'a Application,
}

impl Server<'_> {
    /// Creates the tables, with 100,000 accounts for each unit of `scale`.
    pub(crate) async fn initialize(&self, scale: u32) -> Result<()> {
        self.pgbench(&["--initialize", "--quiet", "--scale", &scale.to_string()]).await.map(drop)
    }

    /// Waits until the server accepts connections.
    pub(crate) async fn until_ready(&self) -> Result<()> {
        eventually("PostgreSQL to start", START, async || Ok(self.checkpoint().await.is_ok())).await
    }

    /// Writes all changes to the data files, so that a run does not do it for the run before.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        let mut command = programs::command("psql")?;
        command.args(["--no-psqlrc", "--username=postgres", "--dbname=postgres", "--command=CHECKPOINT"]);
        command.arg("--host").arg(&self.sockets);
        output("psql", command).await.map(drop)
    }

    /// Runs transactions like those of TPC-B, and returns how many the server commits in a second.
    pub(crate) async fn transactions(&self, seconds: u64) -> Result<f64> {
        let seconds = seconds.to_string();
        rate(&self.pgbench(&[&RUN[..], &["--time", &seconds]].concat()).await?)
    }

    async fn pgbench(&self, args: &[&str]) -> Result<String> {
        let mut command = programs::command("pgbench")?;
        command.env("PGPASSWORD", &self.application.password);
        command.args(args).args(["--username", &self.application.user]).arg("--host").arg(&self.sockets);
        command.arg(&self.application.database);
        output("pgbench", command).await
    }
}

/// Runs a program, and returns what it prints. Errors do not contain its environment.
async fn output(program: &str, mut command: Command) -> Result<String> {
    let output = spawn_blocking(move || command.output()).await?;
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the transactions in a second from the output of `pgbench`.
///
/// # Errors
/// Returns an error with the output if it has no rate.
pub(crate) fn rate(output: &str) -> Result<f64> {
    let rate = output.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.with_context(|| format!("pgbench printed no rate: {output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_read_from_the_output_of_pgbench() {
        let output = "latency average = 3.4 ms\ninitial connection time = 9.6 ms\n\
                      tps = 2346.117923 (without initial connection time)\n";
        assert!((rate(output).unwrap() - 2_346.117_923).abs() < f64::EPSILON);
        assert!(rate("pgbench: error").unwrap_err().to_string().contains("pgbench: error"));
    }
}

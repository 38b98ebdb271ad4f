//! PostgreSQL without an instance manager.

use std::{
    fs::{self, File},
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use anyhow::{Context, Result, ensure};
use postgres_model::status_api::MEMBER;
use postgres_processes::{Member, programs};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// PostgreSQL on a copy of the data of a member, with the same configuration. It stops when this is
/// dropped.
pub(crate) struct Bare {
    server: Child,
    folder: TempDir,
}

impl Bare {
    /// Copies a member that runs, and starts PostgreSQL.
    pub(crate) fn copy_of(member: &Member) -> Result<Self> {
        let folder = folder_for_user()?;
        create_for_user(&folder.path().join("sockets"))?;
        copy_data(member, &folder.path().join("data"))?;
        configure(member, folder.path())?;
        let server = start(folder.path())?;
        Ok(Self { server, folder })
    }

    /// Returns the folder of its Unix socket.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.folder.path().join("sockets")
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have ended. The data are not needed any more.
        let _ = kill_process(Pid::from_child(&self.server), Signal::QUIT);
        let _ = self.server.wait();
    }
}

/// Creates a temporary folder, with an empty folder `data` of the user of PostgreSQL.
pub(crate) fn folder_for_user() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("bare-").tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    create_for_user(&folder.path().join("data"))?;
    Ok(folder)
}

/// Creates a folder of the user of PostgreSQL.
fn create_for_user(folder: &Path) -> Result<()> {
    let owner = format!("--owner={}", programs::USER);
    run(Command::new("install").args(["--directory", "--mode=700", &owner]).arg(folder))
}

/// Copies the data directory as a standby does.
pub(crate) fn copy_data(member: &Member, data: &Path) -> Result<()> {
    let source = source(member.address, &member.folder().join("certificates/replication"));
    let mut copy = programs::command("pg_basebackup")?;
    run(copy.args(["--checkpoint=fast", "--wal-method=stream", "--dbname", &source, "--pgdata"]).arg(data))
}

/// Returns the connection string of a member for those that copy it.
fn source(address: IpAddr, certificates: &Path) -> String {
    let file = |name: &str| certificates.join(name).display().to_string();
    format!(
        "hostaddr={address} user={MEMBER} sslmode=verify-ca sslrootcert={} sslcert={} sslkey={}",
        file("ca.crt"),
        file("tls.crt"),
        file("tls.key")
    )
}

/// Writes the configuration of the member, with a socket alone.
fn configure(member: &Member, folder: &Path) -> Result<()> {
    let original = member.folder().join("volume/postgresql.conf");
    let text =
        fs::read_to_string(&original).with_context(|| format!("cannot read {}", original.display()))?;
    let sockets = folder.join("sockets");
    // The last value of a parameter counts.
    let own = format!("listen_addresses = ''\nunix_socket_directories = '{}'\n", sockets.display());
    Ok(fs::write(folder.join("postgresql.conf"), text + &own)?)
}

fn start(folder: &Path) -> Result<Child> {
    let log = File::create(folder.join("log"))?;
    let file = format!("config_file={}", folder.join("postgresql.conf").display());
    let mut server = programs::command("postgres")?;
    server.arg("-D").arg(folder.join("data")).args(["-c", &file]);
    server.stdout(log.try_clone()?).stderr(log).spawn().context("cannot start PostgreSQL")
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

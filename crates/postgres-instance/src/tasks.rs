//! Commands that take long: `initdb`, `pg_basebackup`, `pg_rewind`, and promotions.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use postgres_model::{instance::Task, timeline::TimelineId};
use tokio::task::JoinHandle;

use crate::{configuration, programs::Programs, session::Session};

/// How long a promotion may take. It replays what the member has received.
const PROMOTION: Duration = Duration::from_mins(10);

/// A command that runs.
pub(crate) struct RunningTask {
    /// Which.
    pub(crate) task: Task,
    handle: JoinHandle<Result<()>>,
}

impl RunningTask {
    pub(crate) fn start(task: Task, work: impl Future<Output = Result<()>> + Send + 'static) -> Self {
        Self { task, handle: tokio::spawn(work) }
    }

    /// Waits for its end. Can be cancelled and called again.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        (&mut self.handle).await.context("the task was cancelled")?
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Creates a database in a new folder.
pub(crate) async fn create_database(programs: Programs, folder: PathBuf) -> Result<()> {
    initdb(&programs, &["--data-checksums"], &folder).await
}

/// Runs `initdb` with further arguments.
pub(crate) async fn initdb(programs: &Programs, more: &[&str], folder: &Path) -> Result<()> {
    let fixed = ["--username=postgres", "--auth=reject", "--encoding=UTF8", "--locale=C.UTF-8"];
    run(programs, "initdb", &[&fixed, more, &["-D"]].concat(), folder.into()).await
}

/// Copies a member into a new folder, and makes the copy a standby.
pub(crate) async fn clone(programs: Programs, conninfo: String, folder: PathBuf) -> Result<()> {
    let fixed = ["--wal-method=stream", "--checkpoint=fast", "--no-password"];
    let dbname = format!("--dbname={conninfo}");
    let args: Vec<&str> = fixed.into_iter().chain([dbname.as_str(), "-D"]).collect();
    run(&programs, "pg_basebackup", &args, folder.clone().into()).await?;
    keep_until_archived(&folder)?;
    let signal = folder.join("standby.signal");
    crate::durable::write(&signal, b"", 0o600).with_context(|| format!("cannot write {}", signal.display()))
}

/// Marks the WAL of a copy as not archived. `pg_basebackup` marks it as archived, and the primary may
/// end before it is: then this copy has to archive it.
fn keep_until_archived(folder: &Path) -> Result<()> {
    let status = folder.join("pg_wal/archive_status");
    let failed = || format!("cannot mark the WAL in {} as not archived", status.display());
    for entry in fs::read_dir(&status).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "done") {
            fs::rename(&path, path.with_extension("ready")).with_context(failed)?;
        }
    }
    Ok(())
}

/// Removes WAL that another member lacks. WAL that this one has recycled is restored with a command,
/// unless that is empty.
pub(crate) async fn rewind(
    programs: Programs,
    conninfo: String,
    restore: String,
    data: PathBuf,
) -> Result<()> {
    let refused = data.join("postgresql.auto.conf");
    let writable = fs::set_permissions(&refused, fs::Permissions::from_mode(0o600));
    writable.with_context(|| format!("cannot make {} writable", refused.display()))?;
    let source = format!("--source-server={conninfo}");
    let mut args = vec![source.as_str()];
    if !restore.is_empty() {
        configure_rewind(&data, &restore)?;
        args.push("--restore-target-wal");
    }
    args.push("-D");
    run(&programs, "pg_rewind", &args, data.into()).await
}

/// Tells `pg_rewind` how to restore WAL. It reads the configuration in the data directory, which no
/// server uses: it has another one.
fn configure_rewind(data: &Path, restore: &str) -> Result<()> {
    let path = data.join("postgresql.conf");
    let text = format!(
        "# For pg_rewind. The server reads the file beside the data directory.\n{}",
        configuration::line("restore_command", restore)
    );
    crate::durable::write(&path, text.as_bytes(), 0o600)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Promotes the standby to exactly this timeline.
pub(crate) async fn promote(socket: PathBuf, timeline: TimelineId) -> Result<()> {
    let session = Session::connect(&socket).await?;
    let reached = session.promote(PROMOTION).await?;
    anyhow::ensure!(
        reached == timeline.get(),
        "PostgreSQL took timeline {reached} instead of {timeline}; the next promotion claims a higher one"
    );
    Ok(())
}

async fn run(programs: &Programs, program: &'static str, args: &[&str], last: OsString) -> Result<()> {
    let args: Vec<OsString> = args.iter().map(OsString::from).chain([last]).collect();
    let args: Vec<_> = args.iter().map(OsString::as_os_str).collect();
    programs.output(program, &args).await?;
    Ok(())
}

//! A member: the instance manager as the first process of a PID namespace.

use std::{
    fs::{self, File},
    net::IpAddr,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    api_proxy::ApiProxy,
    programs::{self, USER},
    volume::Volume,
};

/// Time between two looks for the end of a Pod.
const POLL: Duration = Duration::from_millis(20);
/// Duration of the Lease: the shortest that an instance accepts.
pub(crate) const LEASE_SECONDS: u64 = 6;

/// Runs a program with shared memory of its own, as a container has it. What PostgreSQL leaves there when it is
/// killed is gone with the Pod.
const PRIVATE_SHARED_MEMORY: &str = r#"mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@""#;

/// A member. Its processes end with it.
pub struct Member {
    /// Name of the member.
    pub name: String,
    /// Address of its Pod.
    pub address: IpAddr,
    /// Its way to the API server.
    pub api: ApiProxy,
    pub(crate) serial: u8,
    /// UID of its Pod, if it has one.
    pub(crate) pod_uid: Option<String>,
    /// Whether its Pod was ready at the last look.
    pub(crate) is_ready: bool,
    folder: PathBuf,
    cluster: String,
    cluster_uid: String,
    lease_seconds: String,
    namespace: String,
    programs: PathBuf,
    previous: Option<PathBuf>,
    child: Option<Child>,
    /// Its volume, if that has a size of its own. Dropped after the processes have ended.
    pub volume: Option<Volume>,
}

/// What a member needs.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) serial: u8,
    pub(crate) address: IpAddr,
    pub(crate) api: ApiProxy,
    pub(crate) folder: PathBuf,
    pub(crate) cluster: String,
    pub(crate) cluster_uid: String,
    pub(crate) lease_seconds: String,
    pub(crate) namespace: String,
    /// Folder with the programs of PostgreSQL.
    pub(crate) programs: PathBuf,
    /// Folder with the programs of the former major version, for an upgrade.
    pub(crate) previous: Option<PathBuf>,
    /// Size of the volume, in MiB. `None`: that of the file system of the tests.
    pub(crate) volume: Option<u64>,
}

impl Member {
    /// Creates a member whose Pod does not run yet. `program` is the instance manager, on the same file system.
    pub(crate) fn new(place: Place, program: &Path) -> Result<Self> {
        for name in ["volume", "sockets"] {
            let folder = place.folder.join(name);
            fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let volume = place.folder.join("volume");
        let volume = place.volume.map(|mebibytes| Volume::mount(&volume, mebibytes)).transpose()?;
        let own = place.folder.join("ensemble-instance");
        fs::hard_link(program, &own)
            .with_context(|| format!("cannot link {} as {}", program.display(), own.display()))?;
        fs::set_permissions(&place.folder, fs::Permissions::from_mode(0o700))?;
        give_to_postgres(&place.folder)?;
        Ok(Self {
            name: place.name,
            address: place.address,
            api: place.api,
            folder: place.folder,
            serial: place.serial,
            pod_uid: None,
            is_ready: false,
            cluster: place.cluster,
            cluster_uid: place.cluster_uid,
            lease_seconds: place.lease_seconds,
            namespace: place.namespace,
            programs: place.programs,
            previous: place.previous,
            child: None,
            volume,
        })
    }

    /// Gives the member what its next Pod mounts, and another way to the API server.
    pub(crate) fn move_to(&mut self, place: Place) -> Result<()> {
        give_to_postgres(&place.folder)?;
        (self.api, self.address, self.cluster_uid) = (place.api, place.address, place.cluster_uid);
        (self.programs, self.previous) = (place.programs, place.previous);
        Ok(())
    }

    /// Returns the folder of the member.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what the member has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Starts the container of the Pod.
    ///
    /// # Errors
    /// Returns an error if it has no Pod, or the process cannot be started.
    pub fn start(&mut self) -> Result<()> {
        let pod_uid = self.pod_uid.as_ref().with_context(|| format!("{} has no Pod", self.name))?;
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        let user = format!("--reuid={USER}");
        let group = format!("--regid={USER}");
        let path = |name: &str| self.folder.join(name).into_os_string();
        // Each process ends with the one that started it: the test, unshare, and the instance manager.
        let child = Command::new("setpriv")
            .args(["--pdeathsig=KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", PRIVATE_SHARED_MEMORY, "sh"])
            .args(["setpriv", &user, &group, "--clear-groups", "--pdeathsig=KILL"])
            .arg(path("ensemble-instance"))
            .arg("run")
            .args(["--cluster", &self.cluster, "--namespace", &self.namespace, "--member", &self.name])
            .args(["--cluster-uid", &self.cluster_uid, "--pod-uid", pod_uid])
            .args(["--address", &self.address.to_string()])
            .args(["--lease-seconds", &self.lease_seconds])
            .args(["--volume".into(), path("volume"), "--sockets".into(), path("sockets")])
            .args(["--certificates".into(), path("certificates")])
            .args(["--application-password".into(), path("certificates/app/password")])
            .args(["--role-passwords".into(), path("certificates/roles")])
            .args(["--archive-secrets".into(), path("archive")])
            .args(["--recovery-secrets".into(), path("recovery")])
            .args(["--queries".into(), path("queries")])
            .arg("--programs")
            .arg(&self.programs)
            .args(
                self.previous.iter().flat_map(|folder| ["--previous-programs".as_ref(), folder.as_os_str()]),
            )
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("KUBECONFIG", path("kubeconfig"))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start setpriv and unshare, of the package util-linux")?;
        self.child = Some(child);
        Ok(())
    }

    /// Runs a statement as the superuser, by the socket.
    ///
    /// # Errors
    /// Returns what `psql` printed if it fails.
    pub fn sql(&self, statement: &str) -> Result<()> {
        self.query(statement).map(drop)
    }

    /// Runs a query as the superuser, by the socket. Returns its rows as lines of text.
    ///
    /// # Errors
    /// Returns what `psql` printed if it fails.
    pub fn query(&self, query: &str) -> Result<String> {
        let output = programs::command("psql")?
            .args(["--no-psqlrc", "--tuples-only", "--no-align"])
            .args(["--username=postgres", "--dbname=postgres", "--command", query])
            .arg("--host")
            .arg(self.folder.join("sockets"))
            .output()
            .context("cannot run psql")?;
        ensure!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }

    /// Returns whether the Pod runs.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends a signal to the instance manager. SIGKILL ends all processes of the Pod.
    ///
    /// # Errors
    /// Returns an error if the Pod does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.first_process()?, signal).context("cannot signal the instance manager")
    }

    /// Sends a signal to all processes of PostgreSQL, and to nobody else.
    ///
    /// # Errors
    /// Returns an error if the Pod does not run.
    pub fn signal_postgresql(&self, signal: Signal) -> Result<()> {
        let mut parents = vec![self.first_process()?];
        while let Some(parent) = parents.pop() {
            for child in children(parent)? {
                // A process can end meanwhile.
                let _ = kill_process(child, signal);
                parents.push(child);
            }
        }
        Ok(())
    }

    /// Sends a signal to all processes of the Pod.
    ///
    /// # Errors
    /// Returns an error if the Pod does not run.
    pub fn signal_all(&self, signal: Signal) -> Result<()> {
        self.signal_postgresql(signal)?;
        self.signal(signal)
    }

    /// Stops the container, if it runs.
    pub(crate) async fn end(&mut self) -> Result<()> {
        if self.runs() {
            self.signal(Signal::TERM)?;
            self.wait().await?;
        }
        Ok(())
    }

    /// Waits until the Pod has ended. The proxy works meanwhile.
    ///
    /// # Errors
    /// Returns an error if the Pod was never started.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the Pod was never started")?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            tokio::time::sleep(POLL).await;
        };
        self.child = None;
        Ok(status)
    }

    /// Kills the Pod as a node does that loses its power: nothing is stopped.
    ///
    /// # Errors
    /// Returns an error if the Pod does not run.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        let mut child = self.child.take().context("the Pod was never started")?;
        child.wait().map(drop).context("cannot wait for the end of the Pod")
    }

    fn first_process(&self) -> Result<Pid> {
        let child = self.child.as_ref().context("the Pod does not run")?;
        let unshare = Pid::from_child(child);
        children(unshare)?.first().copied().with_context(|| format!("{} has ended", self.name))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.child.is_some()
            && self.kill().is_err()
            && let Some(child) = &mut self.child
        {
            // It has ended, or has not started its child yet.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Copies a program. Another process does it: a file that this one has open for writing can be
/// inherited by a process that another test starts, and can then not be executed.
pub(crate) fn copy_program(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("install").args(["--mode=755"]).args([from, to]).status();
    let is_copied = status.with_context(|| format!("cannot copy {}", from.display()))?.success();
    ensure!(is_copied, "cannot copy {} to {}", from.display(), to.display());
    Ok(())
}

/// Returns the children of a process.
fn children(parent: Pid) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace());
        let ppid = fields.and_then(|mut fields| fields.nth(1)?.parse().ok());
        if ppid == Some(parent.as_raw_nonzero().get()) {
            found.extend(entry.file_name().to_str().and_then(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
    }
    Ok(found)
}

/// Returns the numbers of the user of PostgreSQL and of its group.
fn user() -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.split(':').next() == Some(USER));
    let line = line.with_context(|| format!("there is no user {USER}: install the package postgresql"))?;
    let mut ids = line.split(':').skip(2).map(str::parse::<u32>);
    let (uid, gid) = (ids.next().context("no uid")??, ids.next().context("no gid")??);
    Ok((uid, gid))
}

/// Gives a folder and all it contains to the user of PostgreSQL. Nothing else may change it meanwhile, so
/// no server may run in it.
///
/// # Errors
/// Returns an error if there is no such user, or a file disappears.
pub fn give_to_postgres(folder: &Path) -> Result<()> {
    give(folder, user()?)
}

fn give(path: &Path, user: (u32, u32)) -> Result<()> {
    chown(path, Some(user.0), Some(user.1))
        .with_context(|| format!("cannot give away {}", path.display()))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

/// Runs a program as the user of PostgreSQL. Returns what it printed, which it writes to files in `folder`.
///
/// # Errors
/// Returns an error with what it printed if it fails.
pub fn run_as_postgres(folder: &Path, program: &str, args: &[&str]) -> Result<String> {
    let log = folder.join("output");
    // A server that the program starts keeps the pipe of an output open.
    let output = Command::new("setpriv")
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", program])
        .args(args)
        .stdin(std::process::Stdio::null())
        .stdout(File::create(&log)?)
        .stderr(File::create(folder.join("errors"))?)
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    let errors = fs::read_to_string(folder.join("errors"))?;
    ensure!(output.success(), "{program}: {errors}");
    Ok(fs::read_to_string(log)?)
}

//! Makes an upgraded data directory beside the former one.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use tracing::info;

use crate::{
    configuration::line,
    control_data::{self, Layout},
    durable,
    programs::{ProgramError, Programs},
    tasks::initdb,
};

/// First major version in which `initdb` makes checksums unless it is told otherwise.
const FIRST_WITH_DEFAULT_CHECKSUMS: u16 = 18;
/// How long the former version may replay WAL, in seconds.
const RECOVERY_SECONDS: &str = "3600";
/// Folder in the new data directory with what `pg_upgrade` found.
const FINDINGS: &str = "pg_upgrade_output.d";
/// Most bytes of each file of findings that are part of an error.
const FINDING: usize = 300;
/// Settings of the servers that `pg_upgrade` starts.
///
/// If the upgrade fails, standbys and the archive need all WAL of the former version. A server does not start if it has
/// logical replication slots and a lower `wal_level`, and `pg_upgrade` needs both for those that it takes over.
const SETTINGS: [(&str, &str); 3] =
    [("wal_keep_size", "1TB"), ("wal_level", "logical"), ("max_replication_slots", "1000")];
/// Lets the servers that `pg_upgrade` starts accept its connections. They listen on a Unix socket only, and nobody
/// else is in the container.
const ACCESS: &str = "local all all trust\n";

/// What an upgrade needs.
pub(crate) struct Upgrade {
    /// Programs of the new version.
    pub(crate) programs: Programs,
    /// The new major version.
    pub(crate) major_version: u16,
    /// Programs of the version of the data.
    pub(crate) previous: Programs,
    /// The present data directory.
    pub(crate) data: PathBuf,
    /// Where the upgraded data directory is made.
    pub(crate) partial: PathBuf,
    /// Folder for the files of `pg_upgrade`, which is created and removed.
    pub(crate) scratch: PathBuf,
    /// Folder of the Unix sockets.
    pub(crate) sockets: PathBuf,
    /// `shared_preload_libraries` of the spec, which extensions can need.
    pub(crate) libraries: Option<String>,
}

impl Upgrade {
    /// Makes an upgraded data directory. The present one is unusable afterwards.
    ///
    /// # Errors
    /// Returns an error with what `pg_upgrade` found. The present data directory is usable once its control file
    /// has its name again.
    pub(crate) async fn run(self) -> Result<()> {
        let layout = control_data::layout(&self.previous, &self.data).await?;
        self.prepare()?;
        if control_data::read(&self.previous, &self.data).await?.shutdown.is_none() {
            self.recover().await?;
        }
        let segment_size = format!("--wal-segsize={}", layout.segment_mebibytes);
        let more = [&[segment_size.as_str()], self.checksums(layout)].concat();
        initdb(&self.programs, &more, &self.partial).await?;
        let arguments = self.arguments()?;
        let arguments: Vec<_> = arguments.iter().map(OsString::as_os_str).collect();
        let upgraded = self.programs.output_in(Some(&self.scratch), "pg_upgrade", &arguments).await;
        let upgraded = upgraded.map_err(|error| self.explain(error));
        remove(&self.scratch)?;
        upgraded.map(drop)
    }

    fn prepare(&self) -> Result<()> {
        remove(&self.scratch)?;
        let created = DirBuilder::new().mode(0o700).create(&self.scratch);
        created.with_context(|| format!("cannot create {}", self.scratch.display()))?;
        // Left by a server that was killed. The lock of the volume shows that it does not run.
        let stale = self.data.join("postmaster.pid");
        durable::remove(&stale).with_context(|| format!("cannot remove {}", stale.display()))?;
        let access = self.scratch.join("pg_hba.conf");
        let fixed = [("hba_file", access.display().to_string())].into_iter();
        let mut configuration: String = fixed
            .chain(SETTINGS.map(|(name, value)| (name, value.to_owned())))
            .map(|(name, value)| line(name, &value))
            .collect();
        configuration.extend(self.libraries.as_ref().map(|names| line("shared_preload_libraries", names)));
        for (path, text) in [(access, ACCESS), (self.configuration(), configuration.as_str())] {
            durable::write(&path, text.as_bytes(), 0o600)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Lets the former version replay its WAL and stop cleanly. The node has lost its power, or an earlier attempt was
    /// killed.
    async fn recover(&self) -> Result<()> {
        info!("the data were not stopped cleanly: recovering them with the former version");
        let options = format!("{} -c listen_addresses= -k {}", self.option(), self.sockets.display());
        let log = self.scratch.join("recovery.log");
        let start = ["-D".as_ref(), self.data.as_os_str(), "-l".as_ref(), log.as_os_str()];
        let start = start.into_iter().chain(["-o".as_ref(), options.as_ref(), "-w".as_ref(), "-t".as_ref()]);
        let start: Vec<_> = start.chain([RECOVERY_SECONDS.as_ref(), "start".as_ref()]).collect();
        let stop = [
            "-D".as_ref(),
            self.data.as_os_str(),
            "-m".as_ref(),
            "fast".as_ref(),
            "-w".as_ref(),
            "stop".as_ref(),
        ];
        for arguments in [&start[..], &stop] {
            let recovered = self.previous.output("pg_ctl", arguments).await;
            recovered
                .with_context(|| format!("the former version cannot recover the data: {}", tail(&log)))?;
        }
        Ok(())
    }

    /// Returns the option with which a server reads the configuration for the upgrade.
    fn option(&self) -> String {
        format!("-c config_file={}", self.configuration().display())
    }

    fn configuration(&self) -> PathBuf {
        self.scratch.join("postgresql.conf")
    }

    /// Returns the argument with which a new data directory has checksums if the present one has.
    fn checksums(&self, layout: Layout) -> &'static [&'static str] {
        match layout.has_checksums {
            true => &["--data-checksums"],
            false if self.major_version >= FIRST_WITH_DEFAULT_CHECKSUMS => &["--no-data-checksums"],
            false => &[],
        }
    }

    fn arguments(&self) -> Result<Vec<OsString>> {
        let option = |name: &str, value: &Path| {
            let mut argument = OsString::from(format!("--{name}="));
            argument.push(value);
            argument
        };
        let configuration = self.option();
        Ok(vec![
            "--link".into(),
            "--username=postgres".into(),
            option("old-datadir", &self.data),
            option("new-datadir", &self.partial),
            option("old-bindir", &self.previous.folder()?),
            option("new-bindir", &self.programs.folder()?),
            option("socketdir", &self.sockets),
            format!("--old-options={configuration}").into(),
            format!("--new-options={configuration}").into(),
        ])
    }

    /// Adds the findings of `pg_upgrade`, which it writes into files.
    fn explain(&self, error: ProgramError) -> anyhow::Error {
        let findings = findings(&self.partial.join(FINDINGS));
        if findings.is_empty() { error.into() } else { anyhow!("{error}: {}", findings.join("; ")) }
    }
}

/// Returns the end of a log, in one line.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join("; ")
}

/// Returns the beginnings of the files that `pg_upgrade` has left for a person.
fn findings(folder: &Path) -> Vec<String> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let texts = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|it| it == "txt"));
    let mut findings: Vec<_> = texts
        .filter_map(|path| {
            let mut text = fs::read_to_string(&path).ok()?;
            text.truncate(text.floor_char_boundary(FINDING));
            let text: Vec<_> = text.lines().map(str::trim).collect();
            Some(format!("{}: {}", path.file_name()?.display(), text.join(" ")))
        })
        .collect();
    findings.sort();
    findings
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_part_of_the_error() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(findings(root.path()), [""; 0]);
        let folder = root.path().join("20261128T100000.123");
        fs::create_dir_all(folder.join("log")).unwrap();
        fs::write(folder.join("tables_using_reg.txt"), "In database: app\n  public.t.x\n").unwrap();
        fs::write(folder.join("loadable_libraries.txt"), "é".repeat(FINDING)).unwrap();
        fs::write(folder.join("log/pg_upgrade_internal.log"), "many words").unwrap();
        let found = findings(root.path());
        assert_eq!(found.last().unwrap(), "tables_using_reg.txt: In database: app public.t.x");
        assert_eq!((found.len(), found[0].len()), (2, "loadable_libraries.txt: ".len() + FINDING));
    }
}

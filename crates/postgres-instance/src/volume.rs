//! The volume of a member.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use postgres_model::{
    timeline::TimelineId,
    volume_state::{VolumeState, VolumeStateError},
};
use rustix::fs::{FlockOperation, flock};

use crate::durable;

/// The volume, locked by this process.
///
/// It contains `data`, the data directory; `data.partial`, one that is not whole yet; and
/// `instance.json`, the state of the instance. During an upgrade to another major version, `data.former` is the data
/// directory before it.
pub(crate) struct Volume {
    root: PathBuf,
    state: VolumeState,
    /// Held as long as the process runs. PostgreSQL does not see processes of other containers.
    lock: File,
}

/// Error of a volume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// Another process has it.
    #[error(
        "another process uses the volume {0}; it can be a Pod that still stops; this one starts again until \
         the volume is free"
    )]
    Locked(PathBuf),
    /// The file system failed.
    #[error("cannot {action} {path}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The state cannot be relied on.
    #[error(transparent)]
    State(#[from] VolumeStateError),
    /// There are files, but no state.
    #[error(
        "the volume has the data directory {0} and no instance.json; it was not made by this program, and the \
         member must not start"
    )]
    Unknown(PathBuf),
}

impl Volume {
    /// Locks a volume for a cluster, and reads its state. `creator` is the cluster that created the
    /// database.
    ///
    /// # Errors
    /// Returns an error if another process has the volume, if it belongs to another database, or if its
    /// state cannot be relied on or written.
    pub(crate) fn open(root: &Path, creator: &str, cluster_uid: &str) -> Result<Self, VolumeError> {
        let path = root.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(failed("open", &path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(VolumeError::Locked(root.to_owned()));
        }
        let state = read_state(root, creator, cluster_uid)?;
        let mut volume = Self { root: root.to_owned(), state: state.clone(), lock };
        let used = state.used_by(creator, cluster_uid)?;
        volume.update(|state| *state = used)?;
        volume.finish_upgrade()?;
        volume.restore_control_file()?;
        Ok(volume)
    }

    /// Returns the folder of the volume.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Returns where a data directory is made.
    pub(crate) fn partial(&self) -> PathBuf {
        self.root.join("data.partial")
    }

    /// Returns the state.
    pub(crate) fn state(&self) -> &VolumeState {
        &self.state
    }

    /// Returns the highest timeline of which the volume can have WAL, by its state.
    pub(crate) fn highest_timeline(&self, control: TimelineId) -> TimelineId {
        let known = [self.state.followed_timeline, self.state.own_timeline];
        known.into_iter().flatten().fold(control, TimelineId::max)
    }

    /// Changes the state, and makes it durable.
    ///
    /// # Errors
    /// Returns an error if it cannot be written. The state is unchanged then.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut VolumeState)) -> Result<(), VolumeError> {
        let mut state = self.state.clone();
        change(&mut state);
        if state != self.state {
            let path = state_path(&self.root);
            durable::write(&path, &state.render()?, 0o600).map_err(failed("write", &path))?;
            self.state = state;
        }
        Ok(())
    }

    /// Removes what an interrupted copy left. A complete data directory of a later major version stays.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub(crate) fn clear_partial(&self) -> Result<(), VolumeError> {
        if self.state.upgraded.is_none() { remove_folder(&self.partial()) } else { Ok(()) }
    }

    /// Replaces the data directory, if a complete one of a later major version is there.
    ///
    /// # Errors
    /// Returns the error of the file system. Nothing is lost then, and the next call goes on.
    pub(crate) fn finish_upgrade(&mut self) -> Result<(), VolumeError> {
        let Some(system_identifier) = self.state.upgraded else { return Ok(()) };
        let (data, partial, former) = (self.data(), self.partial(), self.root.join("data.former"));
        if partial.exists() {
            if data.exists() {
                durable::rename(&data, &former).map_err(failed("rename", &data))?;
            }
            durable::rename(&partial, &data).map_err(failed("rename", &partial))?;
        }
        remove_folder(&former)?;
        self.update(|state| *state = state.clone().with_upgraded_data(system_identifier))
    }

    /// Makes the data directory usable again from which an interrupted `pg_upgrade` has linked files.
    ///
    /// It has renamed the control file, so that nobody starts the former version after the new one has written.
    /// The new one has not: it starts after [`Self::finish_upgrade`] only.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub(crate) fn restore_control_file(&self) -> Result<(), VolumeError> {
        let control = self.data().join("global/pg_control");
        let renamed = control.with_extension("old");
        if !control.exists() && renamed.exists() {
            durable::rename(&renamed, &control).map_err(failed("rename", &renamed))?;
        }
        Ok(())
    }

    /// Makes a complete data directory the one of the volume.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub(crate) fn complete_partial(&self) -> Result<(), VolumeError> {
        durable::rename(&self.partial(), &self.data()).map_err(failed("rename", &self.partial()))
    }
}

fn remove_folder(path: &Path) -> Result<(), VolumeError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn read_state(root: &Path, creator: &str, cluster_uid: &str) -> Result<VolumeState, VolumeError> {
    let (path, data) = (state_path(root), root.join("data"));
    match fs::read(&path) {
        Ok(json) => Ok(VolumeState::parse(&json)?),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("read", &path)(error)),
        Err(_) if data.exists() => Err(VolumeError::Unknown(data)),
        Err(_) => Ok(VolumeState::empty(creator, cluster_uid)),
    }
}

fn state_path(root: &Path) -> PathBuf {
    root.join("instance.json")
}

/// Unlocks the volume at once. A process that is being started has a copy of the open file until it
/// executes its program, and that would hold the lock.
impl Drop for Volume {
    fn drop(&mut self) {
        // The lock ends with the last copy otherwise.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Returns a function that adds what was attempted to an error.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VolumeError {
    let path = path.to_owned();
    move |source| VolumeError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use postgres_model::system_identifier::SystemIdentifier;

    use super::*;

    #[test]
    fn state_survives_and_the_volume_has_one_user() {
        let root = tempfile::tempdir().unwrap();
        let mut volume = Volume::open(root.path(), "c", "c").unwrap();
        assert!(matches!(Volume::open(root.path(), "c", "c"), Err(VolumeError::Locked(_))));
        volume.update(|state| state.sealed_epoch = Some(3)).unwrap();
        fs::create_dir(volume.partial()).unwrap();
        volume.clear_partial().unwrap();
        volume.clear_partial().unwrap();
        drop(volume);
        assert_eq!(Volume::open(root.path(), "c", "c").unwrap().state().sealed_epoch, Some(3));
        let error = Volume::open(root.path(), "d", "d").err().unwrap().to_string();
        assert!(error.starts_with("the volume belongs to the PostgresCluster with the UID c"), "{error}");
    }

    #[test]
    fn cluster_that_adopts_a_volume_forgets_the_epochs_of_the_former_one() {
        let root = tempfile::tempdir().unwrap();
        let mut volume = Volume::open(root.path(), "former", "former").unwrap();
        volume.update(|state| state.sealed_epoch = Some(7)).unwrap();
        drop(volume);
        assert!(Volume::open(root.path(), "new", "new").is_err(), "the status has to name the former one");
        for _ in 0..2 {
            let volume = Volume::open(root.path(), "former", "new").unwrap();
            let state = volume.state();
            assert_eq!((state.cluster_uid.as_str(), state.sealed_epoch), ("former", None));
        }
        let json = fs::read_to_string(state_path(root.path())).unwrap();
        assert!(json.contains("\"epochsOf\": \"new\""), "{json}");
    }

    /// Returns the names in a folder.
    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn upgraded_data_replace_the_former_ones_wherever_that_is_interrupted() {
        // The folders that a power failure leaves after each step.
        for folders in
            [&["data", "data.partial"][..], &["data.former", "data.partial"], &["data", "data.former"]]
        {
            let root = tempfile::tempdir().unwrap();
            let mut volume = Volume::open(root.path(), "c", "c").unwrap();
            for folder in folders {
                fs::create_dir_all(root.path().join(folder).join("global")).unwrap();
            }
            volume.update(|state| state.upgraded = Some(SystemIdentifier(8))).unwrap();
            volume.clear_partial().unwrap();
            drop(volume);
            let volume = Volume::open(root.path(), "c", "c").unwrap();
            assert_eq!(names(root.path()), ["data", "instance.json", "lock"], "{folders:?}");
            let state = volume.state();
            assert_eq!((state.system_identifier, state.upgraded), (Some(SystemIdentifier(8)), None));
        }
    }

    #[test]
    fn interrupted_upgrade_leaves_usable_data() {
        let root = tempfile::tempdir().unwrap();
        let mut volume = Volume::open(root.path(), "c", "c").unwrap();
        volume.update(|state| state.sealed_epoch = Some(1)).unwrap();
        drop(volume);
        let global = root.path().join("data/global");
        fs::create_dir_all(&global).unwrap();
        fs::write(global.join("pg_control.old"), "control").unwrap();
        let volume = Volume::open(root.path(), "c", "c").unwrap();
        assert_eq!(names(&global), ["pg_control"]);
        fs::write(global.join("pg_control.old"), "left").unwrap();
        volume.restore_control_file().unwrap();
        assert_eq!(fs::read_to_string(global.join("pg_control")).unwrap(), "control");
    }

    #[test]
    fn data_without_a_state_are_never_used() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        assert!(matches!(Volume::open(root.path(), "c", "c"), Err(VolumeError::Unknown(_))));
        fs::write(state_path(root.path()), "{").unwrap();
        assert!(matches!(Volume::open(root.path(), "c", "c"), Err(VolumeError::State(_))));
    }
}

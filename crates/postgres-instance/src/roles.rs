//! The roles and the database that a primary must have.
//!
//! Members log in to each other as one role, and the application as another, which owns a database.
//! A task looks after both, because the creation of a database can take longer than a tick.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use postgres_model::instance::Moment;
use tokio::fs;
use tracing::{error, info};

use crate::{
    configuration::Application,
    server_task::{ServerTask, Work},
    session::{Login, Session},
};

/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two looks at the password. The kubelet updates the file about once a minute.
pub(crate) const RECHECK: Duration = Duration::from_secs(10);

/// A primary that must have the roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    /// When it was started.
    pub(crate) started: Moment,
    /// What it must have.
    pub(crate) application: Application,
}

/// Looks after the roles of the primary. Reports the moment of the start of the last server on which the
/// first attempt has ended. An attempt that failed counts: a wrong Secret stops no database that works.
pub(crate) type Roles = ServerTask<Task>;

impl Roles {
    /// Returns whether the first attempt has ended on the server that was started at a moment.
    pub(crate) fn were_attempted(&self, started: Option<Moment>) -> bool {
        started.is_some() && *self.report() == started
    }
}

/// Creates the roles.
pub(crate) struct Task {
    socket: PathBuf,
    password: PathBuf,
    /// The primary that has all, and the password that it was last given.
    ensured: Option<(Primary, String)>,
    last_error: Option<String>,
}

impl Work for Task {
    type Server = Primary;
    type Report = Moment;

    async fn perform(&mut self, primary: &Primary) -> (Moment, Duration) {
        let error = self.ensure(primary).await.err().map(|error| format!("{error:#}"));
        if error != self.last_error
            && let Some(error) = &error
        {
            error!(error, "cannot prepare the database of the application; trying again");
        }
        self.last_error = error;
        (primary.started, if self.last_error.is_some() { RETRY } else { RECHECK })
    }
}

impl Task {
    /// `password` is the file with the application's password.
    pub(crate) fn new(socket: PathBuf, password: PathBuf) -> Self {
        Self { socket, password, ensured: None, last_error: None }
    }

    async fn ensure(&mut self, primary: &Primary) -> Result<()> {
        let is_new = self.ensured.as_ref().is_none_or(|(ensured, _)| ensured != primary);
        if is_new {
            Session::connect(&self.socket).await?.create_roles().await?;
        }
        let password = read_password(&self.password).await?;
        if !is_new && self.ensured.as_ref().is_some_and(|(_, known)| *known == password) {
            return Ok(());
        }
        let application = &primary.application;
        let Application { database, owner } = application;
        if Session::log_in(&self.socket, database, owner, &password).await? == Login::Refused {
            Session::connect(&self.socket).await?.create_application(application, &password).await?;
            info!(database, owner, "the application can connect");
        }
        self.ensured = Some((primary.clone(), password));
        Ok(())
    }
}

/// Reads a file with a password.
pub(crate) async fn read_password(path: &Path) -> Result<String> {
    let password = fs::read(path).await;
    let password = password.with_context(|| format!("cannot read the password in {}", path.display()))?;
    String::from_utf8(password).with_context(|| format!("the password in {} is no text", path.display()))
}

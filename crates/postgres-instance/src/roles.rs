//! The roles and the database that a primary must have.
//!
//! Members log in to each other as one role, and the application as another, which owns a database.
//! A task looks after both, because the creation of a database can take longer than a tick.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use postgres_model::instance::Moment;
use tokio::{fs, sync::watch, time::timeout};
use tracing::{error, info};

use crate::{
    configuration::Application,
    session::{Login, Session},
};

/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two looks at the password. The kubelet updates the file about once a minute.
const RECHECK: Duration = Duration::from_secs(10);

/// A primary that must have the roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    /// When it was started.
    pub(crate) started: Moment,
    /// What it must have.
    pub(crate) application: Application,
}

/// Looks after the roles of the primary.
pub(crate) struct Roles {
    primary: watch::Sender<Option<Primary>>,
    attempted: watch::Receiver<Option<Moment>>,
}

impl Roles {
    /// Starts the task. `password` is the file with the application's password.
    pub(crate) fn start(socket: PathBuf, password: PathBuf) -> Self {
        let (primary, primaries) = watch::channel(None);
        let (attempts, attempted) = watch::channel(None);
        tokio::spawn(run(Task { socket, password, ensured: None }, primaries, attempts));
        Self { primary, attempted }
    }

    /// Names the primary that runs.
    pub(crate) fn set_primary(&self, primary: Option<Primary>) {
        self.primary.send_if_modified(|present| {
            let is_new = *present != primary;
            *present = primary;
            is_new
        });
    }

    /// Returns whether the first attempt has ended on the server that was started at a moment. An
    /// attempt that failed counts: a wrong Secret stops no database that works.
    pub(crate) fn were_attempted(&self, started: Option<Moment>) -> bool {
        started.is_some() && *self.attempted.borrow() == started
    }

    /// Waits for the end of the first attempt on a server.
    pub(crate) async fn changed(&mut self) {
        if self.attempted.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

struct Task {
    socket: PathBuf,
    password: PathBuf,
    /// The primary that has all, and the password that it was last given.
    ensured: Option<(Primary, String)>,
}

async fn run(
    mut task: Task,
    mut primaries: watch::Receiver<Option<Primary>>,
    attempts: watch::Sender<Option<Moment>>,
) {
    let mut last_error = None;
    loop {
        let primary = primaries.borrow_and_update().clone();
        let pause = match &primary {
            Some(primary) => {
                let error = task.ensure(primary).await.err().map(|error| format!("{error:#}"));
                attempts.send_if_modified(|attempted| {
                    attempted.replace(primary.started) != Some(primary.started)
                });
                if error != last_error
                    && let Some(error) = &error
                {
                    error!(error, "cannot prepare the database of the application; trying again");
                }
                last_error = error;
                if last_error.is_some() { RETRY } else { RECHECK }
            }
            None => Duration::MAX,
        };
        if matches!(timeout(pause, primaries.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}

impl Task {
    async fn ensure(&mut self, primary: &Primary) -> Result<()> {
        let is_new = self.ensured.as_ref().is_none_or(|(ensured, _)| ensured != primary);
        if is_new {
            Session::connect(&self.socket).await?.create_roles().await?;
        }
        let password = fs::read(&self.password).await;
        let password =
            password.with_context(|| format!("cannot read the password in {}", self.password.display()))?;
        let password = String::from_utf8(password)
            .with_context(|| format!("the password in {} is no text", self.password.display()))?;
        if !is_new && self.ensured.as_ref().is_some_and(|(_, known)| *known == password) {
            return Ok(());
        }
        let application = &primary.application;
        if Session::log_in(&self.socket, application, &password).await? == Login::Refused {
            Session::connect(&self.socket).await?.create_application(application, &password).await?;
            let Application { database, owner } = application;
            info!(database, owner, "the application can connect");
        }
        self.ensured = Some((primary.clone(), password));
        Ok(())
    }
}

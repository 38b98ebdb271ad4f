//! Roles and databases of the spec, which a primary creates, changes, and drops.
//!
//! Each object is looked at for itself, so one that PostgreSQL refuses stops no other.

mod databases;
mod roles;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Error, Result};
use postgres_model::{
    databases::DeclaredObjects,
    instance::Moment,
    report::{DatabasesReport, shortened},
};
use tracing::{info, warn};

use self::{databases::Databases, roles::DeclaredRoles};
use crate::{
    roles::{RECHECK, read_password},
    server_task::{ServerTask, Work},
    session::Session,
};

/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(5);
/// Time after which everything is compared again.
const COMPARE: Duration = Duration::from_mins(10);

/// A primary that must have the objects of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    /// When it was started.
    pub(crate) started: Moment,
    /// What it must have.
    pub(crate) objects: Arc<DeclaredObjects>,
    /// The role that owns a database whose owner is not given.
    pub(crate) owner: String,
}

/// Looks after the roles and databases of the spec. Reports once all passwords are there.
pub(crate) type Declared = ServerTask<Task>;

impl Declared {
    /// Returns what came of the objects on the server that was started at a moment.
    pub(crate) fn report_of(&self, started: Option<Moment>) -> Option<DatabasesReport> {
        let report = self.report();
        let (server, report) = report.as_ref()?;
        report.clone().filter(|_| started == Some(*server))
    }
}

/// Creates, changes, and drops the objects.
pub(crate) struct Task {
    socket: PathBuf,
    /// Folder with a file for the password of each role.
    passwords: PathBuf,
    /// The primary that was compared last, with which passwords, and when.
    compared: Option<(Primary, Passwords, Instant)>,
    /// The start of a server, and the passwords that its roles are known to have.
    known: (Moment, Passwords),
    last_problem: Option<String>,
}

/// Passwords of the roles that can log in, as far as they are there.
type Passwords = BTreeMap<String, String>;

impl Work for Task {
    type Server = Primary;
    type Report = (Moment, Option<DatabasesReport>);

    async fn perform(&mut self, primary: &Primary) -> (Self::Report, Duration) {
        let (report, pause) =
            if primary.objects.is_empty() { (None, Duration::MAX) } else { self.ensure(primary).await };
        ((primary.started, report), pause)
    }
}

impl Task {
    pub(crate) fn new(socket: PathBuf, passwords: PathBuf) -> Self {
        Self { socket, passwords, compared: None, known: Default::default(), last_problem: None }
    }

    async fn ensure(&mut self, primary: &Primary) -> (Option<DatabasesReport>, Duration) {
        let mut problems = Problems::default();
        let (passwords, awaited) = self.read_passwords(&primary.objects, &mut problems).await;
        let is_known = self.compared.as_ref().is_some_and(|(known, with, at)| {
            known == primary && *with == passwords && at.elapsed() < COMPARE
        });
        if !is_known && let Err(error) = self.apply(primary, &passwords, &mut problems).await {
            problems.add("the roles and databases", &error);
        }
        let problem = problems.text();
        self.log(problem.as_deref());
        let is_complete = problem.is_none();
        self.compared = is_complete.then(|| match self.compared.take().filter(|_| is_known) {
            Some(compared) => compared,
            None => (primary.clone(), passwords, Instant::now()),
        });
        let fingerprint = primary.objects.fingerprint();
        // A password that is awaited is no problem: the kubelet needs about a minute.
        let is_settled = !is_complete || !awaited;
        let report = is_settled.then_some(DatabasesReport { fingerprint, problem });
        (report, if is_complete { RECHECK } else { RETRY })
    }

    /// Returns the passwords that are there, and whether others are awaited.
    async fn read_passwords(&self, objects: &DeclaredObjects, problems: &mut Problems) -> (Passwords, bool) {
        let (mut passwords, mut awaited) = (Passwords::new(), false);
        for role in objects.roles.iter().filter(|role| role.has_password()) {
            let path = self.passwords.join(&role.name);
            if path.exists() {
                match read_password(&path).await {
                    Ok(password) => drop(passwords.insert(role.name.clone(), password)),
                    Err(error) => problems.add(&format!("role {}", role.name), &error),
                }
            } else if self.passwords.exists() {
                awaited = true;
            } else {
                problems.add(&format!("role {}", role.name), &no_volume());
            }
        }
        (passwords, awaited)
    }

    /// Roles come first, because they own databases, and are dropped last.
    async fn apply(
        &mut self,
        primary: &Primary,
        passwords: &Passwords,
        problems: &mut Problems,
    ) -> Result<()> {
        let session = Session::connect_to_change(&self.socket, None).await?;
        let objects = &primary.objects;
        let roles = DeclaredRoles { session: &session, roles: &objects.roles };
        let created = roles.create(problems).await;
        let (started, known) = &mut self.known;
        if std::mem::replace(started, primary.started) != primary.started {
            known.clear();
        }
        known.retain(|role, _| !created.contains(role.as_str()));
        for (role, password) in passwords {
            if known.get(role) == Some(password) {
                continue;
            }
            match roles.set_password(&self.socket, role, password).await {
                Ok(()) => drop(known.insert(role.clone(), password.clone())),
                Err(error) => problems.add(&format!("role {role}"), &error.into()),
            }
        }
        let databases = Databases { session: &session, socket: &self.socket, owner: &primary.owner };
        databases.ensure(&objects.databases, problems).await;
        roles.drop(problems).await;
        Ok(())
    }

    fn log(&mut self, problem: Option<&str>) {
        if self.last_problem.as_deref() == problem {
            return;
        }
        if let Some(problem) = problem {
            warn!(problem, "roles or databases are not as in the spec; trying again");
        } else {
            info!("all roles and databases are as in the spec");
        }
        self.last_problem = problem.map(str::to_owned);
    }
}

fn no_volume() -> Error {
    Error::msg(
        "the Pod was created before the manager knew spec.roles, and has no volume with passwords; set the \
         annotation lukeb0nd.com/restart to replace the Pods",
    )
}

/// What PostgreSQL refused.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, object: &str, error: &Error) {
        self.0.push(format!("{object}: {error:#}"));
    }

    /// Returns all problems, as far as a report has space.
    fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| shortened(self.0.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use postgres_model::report::MAX_PROBLEM;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn password_is_awaited_where_the_pod_has_a_volume_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let passwords = folder.path().join("roles");
        let task = Task::new(folder.path().to_owned(), passwords.clone());
        let objects: DeclaredObjects = serde_json::from_value(json!({
            "roles": [{"name": "a", "login": true}, {"name": "b", "login": true}, {"name": "c"}],
        }))
        .unwrap();
        let mut problems = Problems::default();
        let (found, awaited) = task.read_passwords(&objects, &mut problems).await;
        assert!(found.is_empty() && !awaited);
        let text = problems.text().unwrap();
        assert!(
            text.starts_with("role a: the Pod was created before") && text.contains("; role b: "),
            "{text}"
        );
        std::fs::create_dir(&passwords).unwrap();
        std::fs::write(passwords.join("a"), "secret").unwrap();
        let mut problems = Problems::default();
        let (found, awaited) = task.read_passwords(&objects, &mut problems).await;
        assert_eq!((found, awaited), ([("a".to_owned(), "secret".to_owned())].into(), true));
        assert_eq!(problems.text(), None);
    }

    #[test]
    fn problems_fit_into_a_report() {
        let mut problems = Problems::default();
        for _ in 0..3 {
            problems.add("role ä", &Error::msg("ä".repeat(MAX_PROBLEM / 4)));
        }
        let text = problems.text().unwrap();
        assert!(text.len() <= MAX_PROBLEM && text.len() > MAX_PROBLEM - 4, "{}", text.len());
    }
}

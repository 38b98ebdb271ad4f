//! Asks PostgreSQL for its state, once a second.

use std::{fs, path::PathBuf, time::Duration};

use postgres_model::instance::Moment;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{debug, info};

use crate::{
    clock::now,
    session::{Answer, Session, SessionError},
};

/// Time between two questions, while PostgreSQL starts and afterwards.
const STARTING: Duration = Duration::from_millis(100);
const RUNNING: Duration = Duration::from_secs(1);
/// Time without an answer, or without progress of its start, after which PostgreSQL counts as hung.
const HUNG: Duration = Duration::from_secs(10);

/// The last answer of PostgreSQL.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastAnswer {
    /// Start of the server that answered.
    started: Option<Moment>,
    /// When it was asked.
    asked: Moment,
    /// When it answered.
    at: Moment,
    /// What it answered. `None` before the first answer.
    pub(crate) answer: Option<Answer>,
}

/// Asks the server that runs.
pub(crate) struct Probe {
    server: watch::Sender<Option<Moment>>,
    answers: watch::Receiver<LastAnswer>,
    progress: Progress,
}

/// How far the start of PostgreSQL has come.
#[derive(Default)]
struct Progress {
    cpu_ticks: u64,
    at: Moment,
}

impl Probe {
    /// Starts the task.
    pub(crate) fn start(socket: PathBuf) -> Self {
        let (server, servers) = watch::channel(None);
        let (sender, answers) = watch::channel(LastAnswer::default());
        tokio::spawn(run(socket, servers, sender));
        Self { server, answers, progress: Progress::default() }
    }

    /// Names the server that runs by the moment of its start.
    pub(crate) fn set_server(&mut self, started: Option<Moment>) {
        self.server.send_if_modified(|present| {
            let is_new = *present != started;
            *present = started;
            is_new
        });
    }

    /// Asks again at once.
    pub(crate) fn ask_now(&self) {
        self.server.send_modify(|_| {});
    }

    /// Returns the last answer of the server that runs, if it was asked after a moment.
    pub(crate) fn answer_since(&self, moment: Moment) -> Option<Answer> {
        let last = self.answers.borrow();
        let is_current = last.started == *self.server.borrow() && last.asked >= moment;
        last.answer.clone().filter(|_| is_current)
    }

    /// Returns when the last answer was asked for.
    pub(crate) fn asked(&self) -> Moment {
        self.answers.borrow().asked
    }

    /// Returns whether the server answers, or makes progress in its start.
    pub(crate) fn is_responsive(&mut self) -> bool {
        let Some(started) = *self.server.borrow() else { return false };
        let last = self.answers.borrow().clone();
        if last.started == Some(started) {
            return now().saturating_sub(last.at) < HUNG;
        }
        self.progress.advances_since(started)
    }

    /// Waits for the next answer.
    pub(crate) async fn changed(&mut self) {
        if self.answers.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Progress {
    fn advances_since(&mut self, started: Moment) -> bool {
        let ticks = cpu_ticks();
        if ticks != self.cpu_ticks || self.at < started {
            *self = Self { cpu_ticks: ticks, at: now() };
        }
        now().saturating_sub(self.at) < HUNG
    }
}

/// Returns the processor time of all other processes, in clock ticks.
fn cpu_ticks() -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name != "1" && name.to_str().is_some_and(|name| name.parse::<u32>().is_ok())
    });
    pids.filter_map(|entry| ticks_of(&fs::read_to_string(entry.path().join("stat")).ok()?)).sum()
}

/// Returns user and system time of `/proc/<pid>/stat`: the fields 14 and 15. Field 2, the name, is in
/// parentheses and can contain spaces.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_ascii_whitespace().skip(11).take(2);
    times.map(|field| field.parse::<u64>().ok()).sum()
}

async fn run(
    socket: PathBuf,
    mut servers: watch::Receiver<Option<Moment>>,
    answers: watch::Sender<LastAnswer>,
) {
    let mut session = None;
    let mut asked = None;
    loop {
        let started = *servers.borrow_and_update();
        if asked != started {
            (session, asked) = (None, started);
        }
        let mut pause = None;
        if started.is_some() {
            let question = now();
            let result = ask(&mut session, &socket).await;
            pause = Some(if result.is_ok() { RUNNING } else { STARTING });
            publish(&answers, started, question, result);
        }
        let changed = match pause {
            Some(pause) => timeout(pause, servers.changed()).await.unwrap_or(Ok(())),
            None => servers.changed().await,
        };
        if changed.is_err() {
            return;
        }
        // Several changes in a row lead to one question.
        sleep(Duration::from_millis(5)).await;
    }
}

async fn ask(session: &mut Option<Session>, socket: &std::path::Path) -> Result<Answer, SessionError> {
    let open = match session.take() {
        Some(open) => open,
        None => Session::connect(socket).await?,
    };
    let answer = open.ask().await?;
    *session = Some(open);
    Ok(answer)
}

fn publish(
    answers: &watch::Sender<LastAnswer>,
    started: Option<Moment>,
    asked: Moment,
    result: Result<Answer, SessionError>,
) {
    match result {
        Ok(answer) => {
            let is_first = answers.borrow().started != started;
            if is_first {
                info!(version = answer.version, in_recovery = answer.in_recovery, "PostgreSQL answers");
            }
            answers.send_replace(LastAnswer { started, asked, at: now(), answer: Some(answer) });
        }
        Err(error) => debug!(%error, "PostgreSQL does not answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_the_name() {
        let stat = "42 (postgres: a) b) S 1 42 42 0 -1 4194560 1 0 0 0 7 5 0 0 20 0 1 0 100 0 0";
        assert_eq!(ticks_of(stat), Some(12));
        assert_eq!(ticks_of("42 (x"), None);
    }
}

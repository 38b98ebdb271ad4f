//! Tasks that look after something on the server, beside the main loop.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// What a task does.
pub(crate) trait Work: Send + 'static {
    /// A server that runs, and what it must have.
    type Server: Clone + PartialEq + Send + Sync + 'static;
    /// What the task tells the main loop.
    type Report: PartialEq + Send + Sync + 'static;

    /// Works once on the server. Returns a report, and the time until the next look if nothing changes.
    fn perform(&mut self, server: &Self::Server) -> impl Future<Output = (Self::Report, Duration)> + Send;
}

/// A task that works on the server that runs.
pub(crate) struct ServerTask<W: Work> {
    server: watch::Sender<Option<W::Server>>,
    report: watch::Receiver<Option<W::Report>>,
}

impl<W: Work> ServerTask<W> {
    /// Starts the task.
    pub(crate) fn start(work: W) -> Self {
        let (server, servers) = watch::channel(None);
        let (reports, report) = watch::channel(None);
        tokio::spawn(run(work, servers, reports));
        Self { server, report }
    }

    /// Names the server that runs.
    pub(crate) fn set_server(&self, server: Option<W::Server>) {
        self.server.send_if_modified(|present| {
            let is_new = *present != server;
            *present = server;
            is_new
        });
    }

    /// Returns the last report, which can be about a former server.
    pub(crate) fn report(&self) -> watch::Ref<'_, Option<W::Report>> {
        self.report.borrow()
    }

    /// Waits for a report that differs from the last one.
    pub(crate) async fn changed(&mut self) {
        if self.report.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn run<W: Work>(
    mut work: W,
    mut servers: watch::Receiver<Option<W::Server>>,
    reports: watch::Sender<Option<W::Report>>,
) {
    loop {
        let server = servers.borrow_and_update().clone();
        let pause = match &server {
            Some(server) => {
                let (report, pause) = work.perform(server).await;
                reports.send_if_modified(|present| {
                    let is_new = present.as_ref() != Some(&report);
                    *present = Some(report);
                    is_new
                });
                pause
            }
            None => Duration::MAX,
        };
        if matches!(timeout(pause, servers.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}

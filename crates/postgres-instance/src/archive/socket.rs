//! Answers `archive_command` and `restore_command` on a Unix socket.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    Archiving,
    protocol::{Answer, MAX_REQUEST, Request},
};

/// Most requests at the same time. PostgreSQL sends one to archive, and one to restore.
const CONNECTIONS: usize = 8;
/// How long a request may take to arrive.
const REQUEST: Duration = Duration::from_secs(5);
/// Wait after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Listens on the socket. Only processes of this user can connect.
///
/// # Errors
/// Returns the error of the socket.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    // Left by an earlier run of this container.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers requests for ever.
pub(super) async fn serve(listener: UnixListener, archiving: Arc<Archiving>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let archiving = archiving.clone();
                tokio::spawn(async move {
                    answer(stream, &archiving).await;
                    drop(slot);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection for the archive");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Answers one request. Nobody waits for the answer if the client is gone, but the work is finished.
async fn answer(mut stream: UnixStream, archiving: &Archiving) {
    let mut line = String::new();
    let mut reader = BufReader::new((&mut stream).take(MAX_REQUEST));
    let read = timeout(REQUEST, reader.read_line(&mut line)).await;
    let request = read.ok().and_then(Result::ok).and_then(|_| Request::parse(&line));
    let Some(request) = request else { return debug!("malformed request for the archive") };
    let answer = match request {
        Request::Archive(name) => archiving.archive(name).await,
        Request::Restore(name, file) => archiving.restore(name, &file).await,
    };
    if let Answer::Failed(reason) = &answer {
        debug!(line = line.trim_end(), reason, "a request for the archive failed");
    }
    if let Err(error) = stream.write_all(answer.line().as_bytes()).await {
        debug!(%error, "the client of the archive is gone");
    }
}

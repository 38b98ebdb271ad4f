//! Forwards the frames of a watch.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt};
use hyper::body::Bytes;
use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, sleep_until},
};

use super::{
    Control, Shared,
    frames::{FrameInfo, Lines, expired, frame},
    rules::FrameFault,
};
use crate::token::Token;

/// Longer than any watch.
const NEVER: Duration = Duration::from_hours(1);

/// Whether the stream continues.
#[derive(PartialEq)]
enum Flow {
    On,
    Ended,
}

/// A forwarded watch.
pub(super) struct WatchRelay {
    shared: Arc<Shared>,
    resource: String,
    /// Whether it starts with the current state.
    lists: bool,
    sender: mpsc::Sender<Vec<u8>>,
    /// Delayed frames with the times at which they are sent.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// Runs whose frames are hidden.
    hidden: Vec<Token>,
    /// When the watch expires.
    expires: Option<Instant>,
    /// The last frame of each object of a run.
    last: HashMap<(String, String), Vec<u8>>,
}

impl WatchRelay {
    pub(super) fn new(
        shared: Arc<Shared>,
        resource: String,
        lists: bool,
        sender: mpsc::Sender<Vec<u8>>,
    ) -> Self {
        let (waiting, hidden, last) = (VecDeque::new(), Vec::new(), HashMap::new());
        Self { shared, resource, lists, sender, waiting, hidden, expires: None, last }
    }

    pub(super) async fn run(
        mut self,
        mut pieces: impl Stream<Item = Result<Bytes, ()>> + Unpin,
        mut control: broadcast::Receiver<Control>,
    ) {
        let mut lines = Lines::default();
        let mut life = self.shared.life.subscribe();
        loop {
            let now = Instant::now();
            let due = self.waiting.front().map_or(now + NEVER, |(due, _)| *due);
            let expires = self.expires.unwrap_or(now + NEVER);
            let flow = tokio::select! {
                () = self.sender.closed() => Flow::Ended,
                piece = pieces.next() => match piece {
                    Some(Ok(piece)) => {
                        if life.wait_for(|life| !life.is_cut).await.is_err() {
                            return;
                        }
                        self.record(lines.push(&piece)).await
                    }
                    _ => self.end(None).await,
                },
                () = sleep_until(due) => self.release().await,
                () = sleep_until(expires) => self.end(Some(expired())).await,
                info = control.recv() => match info {
                    Ok(info) => self.handle_control(info).await,
                    Err(broadcast::error::RecvError::Lagged(_)) => Flow::On,
                    Err(broadcast::error::RecvError::Closed) => Flow::Ended,
                },
            };
            if flow == Flow::Ended {
                return;
            }
        }
    }

    fn is_meant(&self, resource: Option<&String>) -> bool {
        resource.is_none_or(|resource| *resource == self.resource)
    }

    async fn handle_control(&mut self, info: Control) -> Flow {
        match info {
            Control::Expire(resource) if self.is_meant(resource.as_ref()) => self.end(Some(expired())).await,
            Control::End(resource) if resource == self.resource => self.end(None).await,
            Control::Silence(resource) if self.is_meant(resource.as_ref()) => {
                self.sender.closed().await;
                Flow::Ended
            }
            Control::Cut => Flow::Ended,
            _ => Flow::On,
        }
    }

    /// Ends the watch after sending delayed frames.
    async fn end(&mut self, last: Option<Vec<u8>>) -> Flow {
        let waiting: Vec<_> = self.waiting.drain(..).map(|(_, line)| line).collect();
        for line in waiting.into_iter().chain(last) {
            let _ = self.sender.send(line).await;
        }
        Flow::Ended
    }

    async fn send(&mut self, line: Vec<u8>) -> Flow {
        if self.sender.send(line).await.is_ok() { Flow::On } else { Flow::Ended }
    }

    /// Sends delayed frames that are due.
    async fn release(&mut self) -> Flow {
        while let Some((_, line)) = self.waiting.pop_front_if(|(due, _)| *due <= Instant::now()) {
            if self.send(line).await == Flow::Ended {
                return Flow::Ended;
            }
        }
        Flow::On
    }

    async fn record(&mut self, lines: Vec<Vec<u8>>) -> Flow {
        for line in lines {
            for line in self.lines_for(line) {
                if self.send(line).await == Flow::Ended {
                    return Flow::Ended;
                }
            }
        }
        Flow::On
    }

    /// Returns the lines to send for a frame now.
    fn lines_for(&mut self, line: Vec<u8>) -> Vec<Vec<u8>> {
        let Some(info) = FrameInfo::read(&line) else { return vec![line] };
        let mut rules = self.shared.rules.lock();
        if let Some(stale) = &rules.stale {
            if info.token() == Some(stale.token) {
                return Vec::new();
            }
            if info.event == "BOOKMARK" && self.lists {
                self.lists = false;
                let objects = stale.objects.get(&self.resource).into_iter().flatten();
                return objects.map(|object| frame("ADDED", object)).chain([line]).collect();
            }
        }
        let Some(token) = info.token() else { return vec![line] };
        let fault = rules.fault_for_frame(&self.resource, &info);
        drop(rules);
        if self.hidden.contains(&token) {
            return Vec::new();
        }
        let before = self.last.insert((info.namespace, info.name), line.clone());
        let now = Instant::now();
        match fault {
            Some(FrameFault::Hide(time)) => {
                self.hidden.push(token);
                self.expires = Some(self.expires.unwrap_or(now + time));
                Vec::new()
            }
            Some(FrameFault::Crash) => {
                self.hidden.push(token);
                self.shared.kill(token);
                Vec::new()
            }
            Some(FrameFault::Duplicate) => vec![line.clone(), line],
            Some(FrameFault::Late(time)) => {
                self.waiting.push_back((now + time, line));
                Vec::new()
            }
            Some(FrameFault::Again(time)) => {
                let Some(before) = before else { return vec![line] };
                self.waiting.push_back((now + time, line.clone()));
                vec![line, before]
            }
            None => vec![line],
        }
    }
}

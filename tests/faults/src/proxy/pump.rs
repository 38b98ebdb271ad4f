//! The way of the frames of one watch.

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
    frames::{Lines, Told, expired, frame},
    rules::Twist,
};
use crate::token::Token;

/// Longer than any watch.
const NEVER: Duration = Duration::from_hours(1);

/// Whether there is more to come.
#[derive(PartialEq)]
enum Flow {
    On,
    Ended,
}

/// A watch that is passed on.
pub(super) struct Pump {
    shared: Arc<Shared>,
    resource: String,
    /// Whether it begins with what is there.
    lists: bool,
    sender: mpsc::Sender<Vec<u8>>,
    /// Frames whose time has yet to come, by when it does.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// Runs of which nothing is shown.
    hidden: Vec<Token>,
    /// When the watch expires.
    expires: Option<Instant>,
    /// The last frame of each object of a run.
    last: HashMap<(String, String), Vec<u8>>,
}

impl Pump {
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
                        self.take_in(lines.take_in(&piece)).await
                    }
                    _ => self.end(None).await,
                },
                () = sleep_until(due) => self.release().await,
                () = sleep_until(expires) => self.end(Some(expired())).await,
                told = control.recv() => match told {
                    Ok(told) => self.obey(told).await,
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

    async fn obey(&mut self, told: Control) -> Flow {
        match told {
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

    /// Ends the watch. What waits for its time is passed on first.
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

    /// Passes on what waited for its time.
    async fn release(&mut self) -> Flow {
        while let Some((_, line)) = self.waiting.pop_front_if(|(due, _)| *due <= Instant::now()) {
            if self.send(line).await == Flow::Ended {
                return Flow::Ended;
            }
        }
        Flow::On
    }

    async fn take_in(&mut self, lines: Vec<Vec<u8>>) -> Flow {
        for line in lines {
            for line in self.lines_for(line) {
                if self.send(line).await == Flow::Ended {
                    return Flow::Ended;
                }
            }
        }
        Flow::On
    }

    /// What is passed on for a frame, now.
    fn lines_for(&mut self, line: Vec<u8>) -> Vec<Vec<u8>> {
        let Some(told) = Told::read(&line) else { return vec![line] };
        let mut rules = self.shared.rules.lock();
        if let Some(stale) = &rules.stale {
            if told.token() == Some(stale.token) {
                return Vec::new();
            }
            if told.event == "BOOKMARK" && self.lists {
                self.lists = false;
                let objects = stale.objects.get(&self.resource).into_iter().flatten();
                return objects.map(|object| frame("ADDED", object)).chain([line]).collect();
            }
        }
        let Some(token) = told.token() else { return vec![line] };
        let twist = rules.tell(&self.resource, &told);
        drop(rules);
        if self.hidden.contains(&token) {
            return Vec::new();
        }
        let before = self.last.insert((told.namespace, told.name), line.clone());
        let now = Instant::now();
        match twist {
            Some(Twist::Hide(time)) => {
                self.hidden.push(token);
                self.expires = Some(self.expires.unwrap_or(now + time));
                Vec::new()
            }
            Some(Twist::Crash) => {
                self.hidden.push(token);
                self.shared.kill(token);
                Vec::new()
            }
            Some(Twist::Twice) => vec![line.clone(), line],
            Some(Twist::Late(time)) => {
                self.waiting.push_back((now + time, line));
                Vec::new()
            }
            Some(Twist::Again(time)) => {
                let Some(before) = before else { return vec![line] };
                self.waiting.push_back((now + time, line.clone()));
                vec![line, before]
            }
            None => vec![line],
        }
    }
}

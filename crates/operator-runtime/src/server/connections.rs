//! Open connections of one server, limited in number.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::activity::Activity;

/// Open connections of one server.
pub(super) struct Connections {
    limit: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    entries: HashMap<u64, Entry>,
    next: u64,
}

struct Entry {
    activity: Arc<Activity>,
    close: CancellationToken,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, open: Arc::default() }
    }

    /// Adds a connection. If the server is full, closes the connection with the lowest priority.
    ///
    /// The order is: connections without a request, then idle connections, then connections with
    /// requests in flight. Within each group, the oldest is first.
    pub(super) fn add(&self) -> Connection {
        let mut open = self.open.lock();
        while open.entries.len() >= self.limit {
            let lowest = open.entries.iter().min_by_key(|(_, entry)| entry.activity.priority());
            let Some(number) = lowest.map(|(number, _)| *number) else { break };
            if let Some(entry) = open.entries.remove(&number) {
                entry.close.cancel();
            }
        }
        let (activity, close) = (Arc::new(Activity::new()), CancellationToken::new());
        let number = open.next;
        open.next += 1;
        open.entries.insert(number, Entry { activity: activity.clone(), close: close.clone() });
        Connection { number, activity, close, open: self.open.clone() }
    }
}

/// Entry of one connection. Dropping it removes the entry.
pub(super) struct Connection {
    number: u64,
    activity: Arc<Activity>,
    close: CancellationToken,
    open: Arc<Mutex<Open>>,
}

impl Connection {
    pub(super) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Completes when a new connection replaces this one.
    pub(super) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.close.cancelled()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.lock().entries.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether each connection was closed.
    fn closed<const N: usize>(connections: [&Connection; N]) -> [bool; N] {
        connections.map(|connection| connection.close.is_cancelled())
    }

    #[test]
    fn closes_unused_then_idle_connections() {
        let connections = Connections::new(3);
        let [busy, idle, unused] = [(); 3].map(|()| connections.add());
        let request = Activity::start_request(busy.activity(), None);
        drop(Activity::start_request(idle.activity(), None));

        let second = connections.add();
        assert_eq!(closed([&busy, &idle, &unused, &second]), [false, false, true, false]);
        let third = connections.add();
        assert_eq!(closed([&busy, &idle, &second, &third]), [false, false, true, false]);
        drop(request);
    }

    #[test]
    fn closes_longest_idle_connection() {
        let connections = Connections::new(2);
        let [first, second] = [(); 2].map(|()| connections.add());
        drop(Activity::start_request(first.activity(), None));
        drop(Activity::start_request(second.activity(), None));
        drop(Activity::start_request(first.activity(), None));
        let third = connections.add();
        assert_eq!(closed([&first, &second, &third]), [false, true, false]);
    }

    #[test]
    fn closes_connection_with_oldest_request_if_all_are_busy() {
        let connections = Connections::new(2);
        let [older, newer] = [(); 2].map(|()| connections.add());
        let first = Activity::start_request(older.activity(), None);
        let second = Activity::start_request(newer.activity(), None);
        let _third = connections.add();
        assert_eq!(closed([&older, &newer]), [true, false]);
        drop((first, second));
    }

    #[test]
    fn dropped_connection_removes_its_entry() {
        let connections = Connections::new(1);
        drop(connections.add());
        let first = connections.add();
        assert_eq!(connections.open.lock().entries.len(), 1);
        assert_eq!(closed([&first]), [false]);
    }
}

//! Open connections of one server, limited in number.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::activity::{Activity, InFlight};

/// Open connections of one server.
pub(super) struct Connections {
    limit: usize,
    request_timeout: Option<Duration>,
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
    pub(super) fn new(limit: usize, request_timeout: Option<Duration>) -> Self {
        Self { limit, request_timeout, open: Arc::default() }
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
        let (activity, close) = (Arc::new(Activity::new(self.request_timeout)), CancellationToken::new());
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

/// Extension of every request: the connection on which it came. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionHandle(Arc<Connection>);

impl ConnectionHandle {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }

    /// Counts the connection as open and busy after the server has handed it over for an upgrade, until
    /// the returned value is dropped.
    pub fn hold(&self) -> UpgradedConnection {
        let in_flight = Activity::start_request(self.0.activity(), None);
        UpgradedConnection { connection: self.0.clone(), _in_flight: in_flight }
    }
}

/// A connection that was upgraded, and that counts as open and busy.
pub struct UpgradedConnection {
    connection: Arc<Connection>,
    _in_flight: InFlight,
}

impl UpgradedConnection {
    /// Completes when a new connection replaces this one.
    pub async fn closed(&self) {
        self.connection.closed().await;
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
        let connections = Connections::new(3, None);
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
        let connections = Connections::new(2, None);
        let [first, second] = [(); 2].map(|()| connections.add());
        drop(Activity::start_request(first.activity(), None));
        drop(Activity::start_request(second.activity(), None));
        drop(Activity::start_request(first.activity(), None));
        let third = connections.add();
        assert_eq!(closed([&first, &second, &third]), [false, true, false]);
    }

    #[test]
    fn closes_connection_with_oldest_request_if_all_are_busy() {
        let connections = Connections::new(2, None);
        let [older, newer] = [(); 2].map(|()| connections.add());
        let first = Activity::start_request(older.activity(), None);
        let second = Activity::start_request(newer.activity(), None);
        let _third = connections.add();
        assert_eq!(closed([&older, &newer]), [true, false]);
        drop((first, second));
    }

    #[test]
    fn upgraded_connection_counts_until_it_ends() {
        let connections = Connections::new(1, None);
        let open = ConnectionHandle::new(Arc::new(connections.add()));
        let held = open.hold();
        drop(open);
        assert_eq!(connections.open.lock().entries.len(), 1);
        assert!(!held.connection.activity().is_idle());
        let _second = connections.add();
        assert_eq!(closed([&held.connection]), [true]);
        drop(held);
        assert_eq!(connections.open.lock().entries.len(), 1, "only the second is left");
    }

    #[test]
    fn dropped_connection_removes_its_entry() {
        let connections = Connections::new(1, None);
        drop(connections.add());
        let first = connections.add();
        assert_eq!(connections.open.lock().entries.len(), 1);
        assert_eq!(closed([&first]), [false]);
    }
}

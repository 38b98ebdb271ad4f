//! Client and activity of one connection, which decide how long a full server keeps it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::client::Client;

/// Priority of a connection. A full server closes the connection with the lowest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Priority {
    client: Client,
    /// Whether a request is in progress.
    is_busy: bool,
    /// When the fields above changed last.
    since: Instant,
}

/// Activity of one connection.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<Priority>>);

impl Activity {
    /// Creates the activity of a new connection, whose client is unknown.
    pub(super) fn new() -> Self {
        let priority = Priority { client: Client::Unknown, is_busy: false, since: Instant::now() };
        Self(Arc::new(Mutex::new(priority)))
    }

    pub(super) fn priority(&self) -> Priority {
        *self.0.lock()
    }

    pub(super) fn client(&self) -> Client {
        self.0.lock().client
    }

    /// Records who the client is.
    pub(super) fn set_client(&self, client: Client) {
        *self.0.lock() = Priority { client, is_busy: false, since: Instant::now() };
    }

    /// Starts a request. It ends when the returned value is dropped.
    pub(super) fn start_request(&self) -> RequestInProgress<'_> {
        self.set_busy(true);
        RequestInProgress(self)
    }

    fn set_busy(&self, is_busy: bool) {
        let mut priority = self.0.lock();
        *priority = Priority { is_busy, since: Instant::now(), ..*priority };
    }
}

/// Request in progress. HTTP/1.1 allows only one for each connection.
pub(super) struct RequestInProgress<'a>(&'a Activity);

impl Drop for RequestInProgress<'_> {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_is_by_client_then_activity_then_age() {
        let activities = [(); 6].map(|()| Activity::new());
        let [first, second, member, busy_member, operator, busy_operator] = &activities;
        member.set_client(Client::Member);
        busy_member.set_client(Client::Member);
        operator.set_client(Client::Operator);
        busy_operator.set_client(Client::Operator);
        let requests = [busy_member, busy_operator, first].map(Activity::start_request);
        let order = [second, first, member, busy_member, operator, busy_operator];
        let priorities = order.map(Activity::priority);
        assert!(priorities.is_sorted(), "{priorities:?}");
        drop(requests);
        assert!([busy_member, busy_operator, first].iter().all(|activity| !activity.priority().is_busy));
        assert!(first.priority() > second.priority(), "the connection that was used last stays longer");
        assert!(member.priority() < busy_member.priority() && busy_member.priority() < operator.priority());
    }
}

//! The open connections of one server, and which of them goes when there are too many.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::activity::Activity;

/// The open connections of one server.
pub(super) struct Connections {
    limit: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    places: HashMap<u64, Entry>,
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

    /// Takes in a connection. If there are too many, closes the one that is needed least: first
    /// those that have never sent a request, then those that are idle, the longest first, and
    /// last the one whose request takes the longest.
    pub(super) fn admit(&self) -> Place {
        let mut open = self.open.lock();
        while open.places.len() >= self.limit {
            let least = open.places.iter().min_by_key(|(_, entry)| entry.activity.need());
            let Some(number) = least.map(|(number, _)| *number) else { break };
            if let Some(entry) = open.places.remove(&number) {
                entry.close.cancel();
            }
        }
        let (activity, close) = (Arc::new(Activity::new()), CancellationToken::new());
        let number = open.next;
        open.next += 1;
        open.places.insert(number, Entry { activity: activity.clone(), close: close.clone() });
        Place { number, activity, close, open: self.open.clone() }
    }
}

/// The place of one connection among the open ones; free again when it is dropped.
pub(super) struct Place {
    number: u64,
    activity: Arc<Activity>,
    close: CancellationToken,
    open: Arc<Mutex<Open>>,
}

impl Place {
    pub(super) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Completes when another connection needs the place.
    pub(super) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.close.cancelled()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of these was closed.
    fn closed<const N: usize>(places: [&Place; N]) -> [bool; N] {
        places.map(|place| place.close.is_cancelled())
    }

    #[test]
    fn the_connection_that_is_needed_least_is_closed_first() {
        let connections = Connections::new(3);
        let [busy, idle, unused] = [(); 3].map(|()| connections.admit());
        let request = Activity::begin(busy.activity(), None);
        drop(Activity::begin(idle.activity(), None));

        let second = connections.admit();
        assert_eq!(closed([&busy, &idle, &unused, &second]), [false, false, true, false]);
        let third = connections.admit();
        assert_eq!(closed([&busy, &idle, &second, &third]), [false, false, true, false]);
        drop(request);
    }

    #[test]
    fn of_several_idle_connections_the_one_that_is_idle_the_longest_goes() {
        let connections = Connections::new(2);
        let [first, second] = [(); 2].map(|()| connections.admit());
        drop(Activity::begin(first.activity(), None));
        drop(Activity::begin(second.activity(), None));
        drop(Activity::begin(first.activity(), None));
        let third = connections.admit();
        assert_eq!(closed([&first, &second, &third]), [false, true, false]);
    }

    #[test]
    fn where_all_are_busy_the_slowest_request_gives_way() {
        let connections = Connections::new(2);
        let [slow, quick] = [(); 2].map(|()| connections.admit());
        let waiting = Activity::begin(slow.activity(), None);
        let at_work = Activity::begin(quick.activity(), None);
        let _third = connections.admit();
        assert_eq!(closed([&slow, &quick]), [true, false]);
        drop((waiting, at_work));
    }

    #[test]
    fn a_closed_connection_frees_its_place() {
        let connections = Connections::new(1);
        drop(connections.admit());
        let first = connections.admit();
        assert_eq!(connections.open.lock().places.len(), 1);
        assert_eq!(closed([&first]), [false]);
    }
}

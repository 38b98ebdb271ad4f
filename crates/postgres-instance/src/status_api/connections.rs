//! Open connections of one address, limited in number.

use std::{collections::HashMap, future::Future};

use tokio::task::{AbortHandle, Id, JoinSet};

use super::activity::Activity;

/// Open connections of one address. Dropping it closes them.
pub(super) struct Connections {
    limit: usize,
    tasks: JoinSet<()>,
    open: HashMap<Id, (AbortHandle, Activity)>,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), tasks: JoinSet::new(), open: HashMap::new() }
    }

    /// Serves a new connection. If there are too many, closes the one with the lowest priority first.
    pub(super) async fn add(
        &mut self,
        activity: Activity,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        while self.tasks.len() >= self.limit {
            self.close_lowest();
            self.next_end().await;
        }
        let task = self.tasks.spawn(connection);
        self.open.insert(task.id(), (task, activity));
    }

    /// Waits until a connection has ended. Returns `None` if there is none.
    pub(super) async fn next_end(&mut self) -> Option<()> {
        let id = match self.tasks.join_next_with_id().await? {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
        Some(())
    }

    /// Waits until all connections have ended.
    pub(super) async fn all_ended(&mut self) {
        while self.next_end().await.is_some() {}
    }

    fn close_lowest(&mut self) {
        let lowest = self.open.iter().min_by_key(|(_, (_, activity))| activity.priority());
        let lowest = lowest.map(|(id, _)| *id);
        if let Some((task, _)) = lowest.and_then(|id| self.open.remove(&id)) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::{super::client::Client, *};

    #[tokio::test]
    async fn full_server_closes_connection_with_lowest_priority() {
        let mut connections = Connections::new(2);
        let [operator, unknown, next] = [(); 3].map(|()| Activity::new());
        operator.set_client(Client::Operator);
        for activity in [&operator, &unknown, &next] {
            connections.add(activity.clone(), pending()).await;
        }
        assert_eq!(connections.tasks.len(), 2);
        let open: Vec<_> = connections.open.values().map(|(_, activity)| activity.priority()).collect();
        assert!(open.contains(&operator.priority()) && open.contains(&next.priority()), "{open:?}");
    }

    #[tokio::test]
    async fn connection_that_ends_or_panics_makes_room() {
        let mut connections = Connections::new(2);
        connections.add(Activity::new(), async {}).await;
        connections.add(Activity::new(), async { panic!("a connection must not stop the server") }).await;
        connections.all_ended().await;
        assert!(connections.open.is_empty() && connections.next_end().await.is_none());
    }
}

//! Cache of lists that the API server has just forbidden to a user.

use std::{collections::HashMap, time::Duration};

use capsule::cluster_resources::Resource;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::credential::Credential;

/// Time for which a refusal is known. A right that the user gets meanwhile is used after it.
const LIFETIME: Duration = Duration::from_secs(10);
/// Most refusals that are known.
const MAX_ENTRIES: usize = 10_000;

/// Refusals of the last ten seconds. A known refusal saves a request that would be refused again, and never
/// shows more than a view does.
#[derive(Default)]
pub struct ForbiddenLists(Mutex<HashMap<(Credential, Resource), Instant>>);

impl ForbiddenLists {
    /// Returns whether the API server has refused a list to this credential.
    pub fn has(&self, credential: Credential, resource: &Resource) -> bool {
        self.0.lock().get(&(credential, resource.clone())).is_some_and(is_fresh)
    }

    /// Records a refusal.
    pub fn add(&self, credential: Credential, resource: &Resource) {
        let mut forbidden_lists = self.0.lock();
        if forbidden_lists.len() >= MAX_ENTRIES {
            forbidden_lists.retain(|_, since| is_fresh(since));
        }
        if forbidden_lists.len() < MAX_ENTRIES {
            forbidden_lists.insert((credential, resource.clone()), Instant::now());
        }
    }
}

fn is_fresh(since: &Instant) -> bool {
    since.elapsed() < LIFETIME
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::testing::headers;

    fn resource(plural: &str) -> Resource {
        Resource { group: String::new(), version: "v1".to_owned(), plural: plural.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_is_of_one_credential_and_kind_and_ends() {
        let of = |line: &str| Credential::of(&headers(&[line]));
        let (alice, bob) = (of("Authorization: Bearer a"), of("Authorization: Bearer b"));
        let forbidden_lists = ForbiddenLists::default();
        forbidden_lists.add(alice, &resource("namespaces"));
        assert!(forbidden_lists.has(alice, &resource("namespaces")));
        assert!(
            !forbidden_lists.has(alice, &resource("nodes"))
                && !forbidden_lists.has(bob, &resource("namespaces"))
        );
        tokio::time::advance(LIFETIME).await;
        assert!(!forbidden_lists.has(alice, &resource("namespaces")));
    }

    #[tokio::test(start_paused = true)]
    async fn number_is_bounded() {
        let forbidden_lists = ForbiddenLists::default();
        for number in 0..MAX_ENTRIES + 10 {
            forbidden_lists.add(
                Credential::of(&headers(&[&format!("Authorization: Bearer {number}")])),
                &resource("nodes"),
            );
        }
        assert_eq!(forbidden_lists.0.lock().len(), MAX_ENTRIES);
        tokio::time::advance(LIFETIME).await;
        forbidden_lists.add(Credential::of(&headers(&[])), &resource("nodes"));
        assert_eq!(forbidden_lists.0.lock().len(), 1);
    }
}

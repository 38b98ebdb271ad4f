//! Which kinds the proxy may list, as the API server says.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use tokio::sync::Mutex;

/// Name of the ServiceAccount of the proxy, in the namespace of the manager (`deploy/proxy`).
const ACCOUNT: &str = "ensemble-proxy";
/// What the proxy needs to show a kind.
const VERBS: [&str; 3] = ["get", "list", "watch"];
/// Time for which an answer is used, so that many changes at once ask once.
const LIFETIME: Duration = Duration::from_secs(5);
/// Most kinds that are asked for.
const MAX_KINDS: usize = 100;

/// A kind: its API group, and its plural name.
pub(super) type KindName = (String, String);

/// Asks the API server what the proxy may do.
pub(super) struct ProxyRights {
    reviews: Api<SubjectAccessReview>,
    namespace: String,
    /// When each kind was asked for, and whether a right is missing.
    answers: Mutex<BTreeMap<KindName, (Instant, bool)>>,
}

impl ProxyRights {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self { reviews: Api::all(client), namespace: namespace.to_owned(), answers: Mutex::default() }
    }

    /// Returns the ServiceAccount of the proxy, as `namespace:name`.
    pub(super) fn account(&self) -> String {
        format!("{}:{ACCOUNT}", self.namespace)
    }

    /// Returns the kinds that the proxy may not list. Kinds above the limit are not asked for.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer.
    pub(super) async fn missing(
        &self,
        kinds: &BTreeSet<KindName>,
    ) -> Result<BTreeSet<KindName>, kube::Error> {
        let mut answers = self.answers.lock().await;
        answers.retain(|kind, (asked, _)| kinds.contains(kind) && asked.elapsed() < LIFETIME);
        for kind in kinds.iter().take(MAX_KINDS) {
            if !answers.contains_key(kind) {
                let is_missing = self.is_missing(kind).await?;
                answers.insert(kind.clone(), (Instant::now(), is_missing));
            }
        }
        Ok(answers.iter().filter(|(_, (_, is_missing))| *is_missing).map(|(kind, _)| kind.clone()).collect())
    }

    async fn is_missing(&self, (group, plural): &KindName) -> Result<bool, kube::Error> {
        for verb in VERBS {
            let asked = ResourceAttributes {
                group: Some(group.clone()),
                resource: Some(plural.clone()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SubjectAccessReviewSpec {
                resource_attributes: Some(asked),
                user: Some(format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace)),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{}", self.namespace),
                    "system:authenticated".to_owned(),
                ]),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let review = self.reviews.create(&PostParams::default(), &review).await?;
            if !review.status.is_some_and(|status| status.allowed) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

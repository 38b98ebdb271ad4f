//! Namespaces: which Tenant one belongs to, and who may say so.

mod assign;
mod claim;
mod metadata;
mod names;
mod reserve;
mod restore;
mod validate;

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};
use operator_core::{
    admission::{
        BoxError, CREATE, Caches, DELETE, Denial, Mutation, Mutator, Operation, Request, UPDATE, Validator,
        Verdict, Webhook, target,
    },
    events::Events,
    fence,
    rate_limit::Rate,
};
use parking_lot::Mutex;

use self::{
    assign::assign,
    reserve::Reservations,
    restore::Assigned,
    validate::{Admitted, judge},
};
use super::{
    lookups::{Facts, Lookups},
    match_conditions::{CHANGES_WHAT_A_TENANT_GIVES, CONCERNS_A_TENANT, NOT_THE_SYSTEM},
    rate_limits::KeyedBuckets,
};
use crate::{membership::named, reasons::NAMESPACE_DENIED};

/// How many refusals Events tell of about one Tenant.
const EVENTS_EACH: Rate = Rate { burst: 10, interval: Duration::from_secs(6) };
/// The same about all Tenants.
const EVENTS_ALL: Rate = Rate { burst: 100, interval: Duration::from_secs(1) };

/// Makes a new namespace part of its Tenant, and keeps it there with what the Tenant gives it.
pub(super) fn assignment() -> Webhook {
    Webhook::mutating::<Assignment>("namespace-assignment")
        .on(target::<Namespace>(CREATE | UPDATE))
        .match_condition("not-by-the-system", NOT_THE_SYSTEM)
        .match_condition("concerns-a-tenant", CONCERNS_A_TENANT)
        .match_condition("changes-what-a-tenant-gives", CHANGES_WHAT_A_TENANT_GIVES)
        .build()
}

/// Guards namespaces, through every resource by which they can be written.
pub(super) fn guard() -> Webhook {
    Webhook::validating::<Guard>("namespaces")
        .on(target::<Namespace>(CREATE | UPDATE | DELETE))
        .on(target::<Namespace>(UPDATE).subresource("status"))
        .on(target::<Namespace>(UPDATE).subresource("finalize"))
        .match_condition("not-by-the-system", NOT_THE_SYSTEM)
        .match_condition("concerns-a-tenant", CONCERNS_A_TENANT)
        .side_effects()
        .build()
}

struct Assignment {
    known: Lookups,
}

impl Mutator for Assignment {
    type Object = Namespace;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { known: Lookups::build(caches) }
    }

    async fn mutate(&self, request: &Request<Namespace>) -> Result<Mutation<Namespace>, BoxError> {
        let names = names_of(request);
        let facts = self.known.facts(&request.user, &names).await?;
        let assigned = match assign(request, &facts) {
            Err(_) => match self.known.renewed(facts, &request.user, &names, is_new(request)).await {
                Ok(facts) => assign(request, &facts),
                Err(error) => Err(error.into_denial()?),
            },
            assigned => assigned,
        };
        Ok(match assigned {
            Ok(Some(Assigned { namespace, warnings })) => {
                warnings.into_iter().fold(Mutation::change(namespace), Mutation::warn)
            }
            Ok(None) => Mutation::keep(),
            Err(denial) => Mutation::deny(denial),
        })
    }
}

struct Guard {
    known: Lookups,
    places: Reservations,
    events: Events,
    budget: Mutex<KeyedBuckets<String>>,
}

impl Validator for Guard {
    type Object = Namespace;

    fn build(caches: &mut Caches<'_>) -> Self {
        let known = Lookups::build(caches);
        let budget = Mutex::new(KeyedBuckets::new(EVENTS_EACH, EVENTS_ALL));
        Self { places: Reservations::build(caches, &known), events: caches.events(), known, budget }
    }

    async fn validate(&self, request: &Request<Namespace>) -> Result<Verdict, BoxError> {
        let names = names_of(request);
        let mut facts = self.known.facts(&request.user, &names).await?;
        let mut judged = judge(request, &facts);
        if judged.is_err() {
            // The caches may be behind, so nothing is refused by what they alone say.
            let renewed = self.known.renewed(facts.clone(), &request.user, &names, is_new(request)).await;
            judged = match renewed {
                Ok(renewed) => {
                    facts = renewed;
                    judge(request, &facts)
                }
                Err(error) => Err(error.into_denial()?),
            };
        }
        let judged = match judged {
            Ok(Admitted::Freely) => Ok(()),
            Ok(Admitted::Joining { tenant, namespace }) => {
                self.places.take(tenant, &namespace, request.dry_run).await?
            }
            Err(denial) => Err(denial),
        };
        if let (Err(denial), false) = (&judged, request.dry_run) {
            self.tell(&facts, denial);
        }
        Ok(judged.into())
    }
}

impl Guard {
    /// Says in an Event about each Tenant that the request names, or else about the only one of who asks, that it was
    /// refused: its administrators hear of it where they look. Whoever reaches the port of the webhooks can have requests
    /// refused, so there are no more Events than the budget allows.
    fn tell(&self, facts: &Facts, denial: &Denial) {
        let named: Vec<_> = facts.named.values().collect();
        let only = facts.owned.values().take(usize::from(named.is_empty() && facts.owned.len() == 1));
        for tenant in named.into_iter().chain(only) {
            if !self.budget.lock().take(tenant.name_any(), fence::now()) {
                continue;
            }
            let note = format!("refused to {}: {}", facts.who, denial.message);
            self.events.warning(tenant.object_ref(&()), NAMESPACE_DENIED, "Admission", &note);
        }
    }
}

fn is_new(request: &Request<Namespace>) -> bool {
    request.operation == Operation::Create
}

/// The Tenants that the namespace names, before or after.
fn names_of(request: &Request<Namespace>) -> Vec<String> {
    let mut names: Vec<_> = request.states().flat_map(|namespace| named(&namespace.metadata)).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, Pod},
    storage::v1::StorageClass,
};

use super::*;
use crate::admission::{
    BoxError, CREATE, Caches, Metadata, Request, UPDATE, Validator, Verdict, Webhook, WebhookBuilder,
    any_namespaced, target,
};

struct Anything;

impl Validator for Anything {
    type Object = Metadata;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, _: &Request<Metadata>) -> Result<Verdict, BoxError> {
        Ok(Verdict::allow())
    }
}

fn named(name: &'static str) -> WebhookBuilder<Metadata> {
    Webhook::validating::<Anything>(name)
}

fn some() -> LabelSelector {
    LabelSelector {
        match_labels: Some([("a".to_owned(), "b".to_owned())].into()),
        ..LabelSelector::default()
    }
}

#[test]
fn good_declarations_have_no_fault() {
    for webhook in [
        named("pods").on(target::<Pod>(CREATE | UPDATE)),
        named("namespaces").on(target::<Namespace>(CREATE)).match_condition("a", "true"),
        named("namespaces").on(target::<Namespace>(CREATE)).in_namespaces(some()),
        named("anything").on(any_namespaced(CREATE)).with_labels(some()),
    ] {
        assert_eq!(of_webhook(&webhook.build()), Vec::<String>::new());
    }
}

#[test]
fn bad_declarations_are_told_what_is_wrong() {
    let pods = || target::<Pod>(CREATE);
    for (webhook, says) in [
        (named("Pods").on(pods()), "no DNS label"),
        (named("convert").on(pods()), "is taken"),
        (named("pods"), "asked about nothing"),
        (named("pods").on(pods()).timeout_seconds(6), "not 1 to 5 seconds"),
        (named("pods").on(pods()).timeout_seconds(0), "not 1 to 5 seconds"),
        (
            named("nodes").on(target::<Node>(UPDATE)).match_condition("a", "true"),
            "in front of nodes or leases",
        ),
        (
            named("nodes").on(target::<Node>(UPDATE).subresource("status")).with_labels(some()),
            "in front of nodes",
        ),
        (named("leases").on(target::<Lease>(UPDATE)), "in front of nodes or leases"),
        (
            named("both").on(pods()).on(target::<Namespace>(CREATE)).match_condition("a", "true"),
            "declare two webhooks",
        ),
        (named("namespaces").on(target::<Namespace>(CREATE)), "every object of a cluster-scoped kind"),
        (named("classes").on(target::<StorageClass>(CREATE)), "every object of a cluster-scoped kind"),
        (named("anything").on(any_namespaced(CREATE)), "every kind in all namespaces"),
        (named("pods").on(pods()).reinvoked(), "only a mutating webhook"),
    ] {
        let faults = of_webhook(&webhook.build());
        assert!(faults.iter().any(|fault| fault.contains(says)), "{faults:?} should say {says:?}");
    }
}

#[test]
fn two_webhooks_of_one_name_are_a_fault() {
    let registration = Registration {
        name: "test",
        companions: &[],
        rules: Vec::new,
        crds: Vec::new,
        webhooks: || {
            vec![named("a").on(target::<Pod>(CREATE)).build(), named("a").on(target::<Pod>(CREATE)).build()]
        },
        policies: |_| Vec::new(),
        conversions: Vec::new,
        gauges: || &[],
        settings: || &[],
        owned_finalizer: || None,
        leftovers: Vec::new,
        build: |_| unreachable!("nobody runs it"),
    };
    assert_eq!(faults(&registration), ["two webhooks are called a; each needs a name of its own"]);
}

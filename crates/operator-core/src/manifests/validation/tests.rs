use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, Pod},
    storage::v1::StorageClass,
};

use super::*;
use crate::{
    admission::{CREATE, Metadata, UPDATE, Webhook, WebhookBuilder, any_namespaced, target},
    manifests::testing::Anything,
};

fn named(name: &'static str) -> WebhookBuilder<Metadata> {
    Webhook::validating::<Anything>(name)
}

fn selector() -> LabelSelector {
    LabelSelector {
        match_labels: Some([("a".to_owned(), "b".to_owned())].into()),
        ..LabelSelector::default()
    }
}

#[test]
fn accepts_valid_declarations() {
    for webhook in [
        named("pods").on(target::<Pod>(CREATE | UPDATE)),
        named("namespaces").on(target::<Namespace>(CREATE)).match_condition("a", "true"),
        named("namespaces").on(target::<Namespace>(CREATE)).in_namespaces(selector()),
        named("anything").on(any_namespaced(CREATE)).with_labels(selector()),
    ] {
        assert_eq!(validate_webhook(&webhook.build()), Vec::<String>::new());
    }
}

#[test]
fn rejects_invalid_declarations() {
    let pods = || target::<Pod>(CREATE);
    for (webhook, message) in [
        (named("Pods").on(pods()), "no DNS label"),
        (named("convert").on(pods()), "is reserved"),
        (named("pods"), "has no target"),
        (named("pods").on(pods()).timeout_seconds(6), "not 1 to 5 seconds"),
        (named("pods").on(pods()).timeout_seconds(0), "not 1 to 5 seconds"),
        (named("nodes").on(target::<Node>(UPDATE)).match_condition("a", "true"), "reviews nodes or leases"),
        (
            named("nodes").on(target::<Node>(UPDATE).subresource("status")).with_labels(selector()),
            "reviews nodes",
        ),
        (named("leases").on(target::<Lease>(UPDATE)), "reviews nodes or leases"),
        (
            named("both").on(pods()).on(target::<Namespace>(CREATE)).match_condition("a", "true"),
            "declare two webhooks",
        ),
        (named("namespaces").on(target::<Namespace>(CREATE)), "every object of a cluster-scoped kind"),
        (named("classes").on(target::<StorageClass>(CREATE)), "every object of a cluster-scoped kind"),
        (named("anything").on(any_namespaced(CREATE)), "every kind in all namespaces"),
        (named("pods").on(pods()).reinvoked(), "only a mutating webhook"),
    ] {
        let errors = validate_webhook(&webhook.build());
        assert!(errors.iter().any(|error| error.contains(message)), "{errors:?} should contain {message:?}");
    }
}

#[test]
fn rejects_duplicate_names() {
    let registration = Registration {
        webhooks: || {
            vec![named("a").on(target::<Pod>(CREATE)).build(), named("a").on(target::<Pod>(CREATE)).build()]
        },
        ..Registration::new("test", |_| unreachable!("the test does not run it"))
    };
    assert_eq!(validate_webhooks(&registration), ["two webhooks have the name a; choose unique names"]);
}

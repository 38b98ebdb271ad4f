//! Attacks with the query of a list.

use super::{NAMESPACES, OF_ALICE, TENANTS, start};

#[tokio::test]
async fn queries_that_can_be_read_in_two_ways_have_no_view() {
    let setup = start().await;
    let long = format!("labelSelector={}", "a".repeat(20 << 10));
    for query in [
        "labelSelector=a&labelSelector=b",
        "labelSelector=&labelSelector=",
        "labelSelector=a&label%53elector=b",
        "LabelSelector=a",
        "labelselector=a",
        "labelSelector=a%20in%20(",
        "labelSelector=a%20in%20%28",
        "labelSelector=a%20in%20(b",
        "labelSelector=a)",
        "labelSelector=a,,b",
        "labelSelector=,",
        "labelSelector=!",
        "labelSelector=%C3%A4",
        "labelSelector=\u{e4}",
        "labelSelector=%ff",
        "labelSelector=%",
        "labelSelector=%zz",
        "labelSelector=%u0061",
        "labelSelector=a%00",
        "labelSelector=a;labelSelector=b",
        "limit=1;labelSelector=a",
        "labelSelector=a%26labelSelector=b",
        "labelSelector[]=a",
        "labelSelector=a?labelSelector=b",
        "?labelSelector=a",
        "watch=banana",
        "watch",
        "watch=",
        "watch=True",
        "watch=true&watch=false",
        "watch=false&watch=true",
        "limit=-1",
        "continue=%0d%0aX:%20y",
        "resourceVersion=latest",
        "resourceVersionMatch=exact",
        "sendInitialEvents=yes",
        "pretty=true",
        "dryRun=All",
        "includeObject=All",
        "timeoutSeconds=-1",
        "fieldManager=x",
        "x=y",
        "=",
        &long,
    ] {
        let target = format!("{NAMESPACES}?{query}");
        let (response, view) = setup.get_by_alice(&target).await;
        assert_eq!((response.status, view), (403, None), "{query}");
    }
}

#[tokio::test]
async fn view_of_namespaces_begins_with_the_requirement_of_the_proxy() {
    let setup = start().await;
    let key = "Z2FzLWRldg";
    for (query, rest) in [
        ("", String::new()),
        ("&", String::new()),
        ("labelSelector=", String::new()),
        ("labelSelector=!capsule.clastix.io/tenant", "%2C%21capsule.clastix.io%2Ftenant".to_owned()),
        (
            "labelSelector=capsule.clastix.io/tenant=gas",
            "%2Ccapsule.clastix.io%2Ftenant%20in%20%28gas%29".to_owned(),
        ),
        ("label%53elector=a%2Cb", "%2Ca%2Cb".to_owned()),
        ("fieldSelector=metadata.name!=x", "&fieldSelector=metadata.name%21%3Dx".to_owned()),
        ("fieldSelector=metadata.name=gas-dev", "&fieldSelector=metadata.name%3Dgas-dev".to_owned()),
        ("limit=1", "&limit=1".to_owned()),
        (&format!("limit=1&continue={key}"), format!("&limit=1&continue={key}")),
        ("continue=a%26labelSelector%3Db", "&continue=a%26labelSelector%3Db".to_owned()),
        ("resourceVersion=0", "&resourceVersion=0".to_owned()),
        (
            "resourceVersionMatch=Exact&resourceVersion=7",
            "&resourceVersion=7&resourceVersionMatch=Exact".to_owned(),
        ),
        (
            "sendInitialEvents=true&watch=1&timeoutSeconds=99999",
            "&watch=true&sendInitialEvents=true&timeoutSeconds=600".to_owned(),
        ),
        ("watch=0", String::new()),
    ] {
        let separator = if query.is_empty() { "" } else { "?" };
        let (response, view) = setup.get_by_alice(&format!("{NAMESPACES}{separator}{query}")).await;
        assert_eq!(view, Some(format!("{NAMESPACES}?{OF_ALICE}{rest}")), "{query}");
        assert_eq!(response.status, 200, "{query}");
        assert!(!response.text().contains("gas"), "{query}: {response:?}");
    }
}

#[tokio::test]
async fn view_of_tenants_has_no_pages_and_whole_objects() {
    let setup = start().await;
    for (query, status, view) in [
        ("limit=1", 200, Some("")),
        ("includeObject=None", 200, Some("")),
        ("continue=", 200, Some("?continue=")),
        ("continue=Z2Fz", 410, None),
        ("limit=1&continue=Z2Fz", 410, None),
        ("labelSelector=a,a", 200, Some("?labelSelector=a%2Ca")),
        ("pretty=true", 403, None),
        ("dryRun=All", 403, None),
        ("labelSelector=a&labelSelector=b", 403, None),
    ] {
        let (response, shown) = setup.get_by_alice(&format!("{TENANTS}?{query}")).await;
        assert_eq!(
            (response.status, shown),
            (status, view.map(|view| format!("{TENANTS}{view}"))),
            "{query}"
        );
        assert!(!response.text().contains("gas"), "{query}: {response:?}");
    }
    let (response, view) = setup.get_by_alice(&format!("{TENANTS}/oil?watch=true")).await;
    assert_eq!((response.status, view), (403, None), "a watch of one Tenant has no view");
}

//! The proxy while it runs: its rights, its certificate, many watches, and its end.

use std::collections::BTreeSet;

use capsule::api::v1beta2::ProxyKind;
use cluster::wait::eventually;
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};
use tenant_proxy::{
    rbac,
    view::{View, ViewKind},
};
use tokio::time::timeout;

use crate::support::{PATIENCE, TestProxy, USER, shared, write_certificate};

#[tokio::test]
async fn rights_are_all_used_and_sufficient() {
    let proxy = TestProxy::start(&[]).await;
    let owner = proxy.owner(&[]).await;
    let settings: Vec<_> = ProxyKind::SHOWN
        .iter()
        .map(|kind| serde_json::json!({"kind": kind, "operations": ["List"]}))
        .collect();
    let classes = serde_json::json!({"allowed": ["rights"]});
    let spec = serde_json::json!({
        "owners": [{"kind": "ServiceAccount", "name": owner.name, "proxySettings": settings}],
        "storageClasses": classes, "priorityClasses": classes, "runtimeClasses": classes,
        "ingressOptions": {"allowedClasses": classes},
    });
    proxy.tenant_with("rights", spec).await;
    proxy.namespace_of("rights", "rights-dev", &[]).await;
    owner.until_namespaces(&["rights-dev"]).await;
    for path in ViewKind::ALL.into_iter().filter_map(View::of_all).map(|view| view.to_string()) {
        for query in ["", "?watch=true&timeoutSeconds=1"] {
            assert_eq!(owner.get(&format!("{path}{query}"), &[]).await.status(), 200, "{path}{query}");
        }
        // Most of them do not exist.
        let status = owner.get(&format!("{path}/rights"), &[]).await.status();
        assert!([200, 403, 404].contains(&status.as_u16()), "{path}: {status}");
    }
    let allowed: BTreeSet<_> = rbac::rules(&ViewKind::ALL.into())
        .into_iter()
        .flat_map(|rule| {
            let rule = rule.into_policy();
            let resource = rule.resources.unwrap()[0].clone();
            rule.verbs.into_iter().map(move |verb| (resource.clone(), verb))
        })
        .collect();
    let used = || -> BTreeSet<_> {
        // Other tests of the same process use the same account.
        let log = proxy.cluster.audit().unwrap().by_user(USER);
        assert!(log.entries.iter().all(|entry| ![401, 403].contains(&entry.code)), "{:?}", log.entries);
        // Nodes are for rules, whose rights administrators grant, and the list of kinds is for everybody.
        let entries =
            log.entries.into_iter().filter(|entry| !["", "nodes"].contains(&entry.resource.as_str()));
        entries.map(|entry| (entry.resource, entry.verb)).collect()
    };
    // An API server that streams lists gets a watch only.
    let streamed = |verb: &str| if verb == "list" { "watch" } else { verb }.to_owned();
    let is_used = |used: &BTreeSet<(String, String)>, (resource, verb): &(String, String)| {
        used.contains(&(resource.clone(), verb.clone())) || used.contains(&(resource.clone(), streamed(verb)))
    };
    let all_used = async || {
        let used = used();
        Ok(used.is_subset(&allowed) && allowed.iter().all(|right| is_used(&used, right)))
    };
    eventually("all rights to be used", PATIENCE, all_used).await.unwrap_or_else(|error| {
        panic!("{error:#}: used {:?}, allowed {allowed:?}", used());
    });
}

#[tokio::test]
async fn hundreds_of_watches_leave_room_for_other_requests() {
    let proxy = shared().await;
    let owner = proxy.owner(&["many"]).await;
    proxy.namespace_of("many", "many-dev", &[]).await;
    owner.until_namespaces(&["many-dev"]).await;
    let client = owner.client().await;
    // One after the other: eight views of a user can begin at once. The API server allows 100 on a connection.
    let mut watches = Vec::new();
    for _ in 0..250 {
        let request =
            http::Request::get("/api/v1/namespaces?watch=true").body(kube::client::Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        watches.push(response);
    }
    assert_eq!(timeout(PATIENCE, owner.namespaces()).await.unwrap(), ["many-dev"]);
}

#[tokio::test]
async fn views_of_one_user_are_limited_and_end() {
    let proxy = shared().await;
    let owner = proxy.owner(&["limited"]).await;
    proxy.namespace_of("limited", "limited-dev", &[]).await;
    owner.until_namespaces(&["limited-dev"]).await;
    let all = join_all((0..100).map(|_| owner.get("/api/v1/namespaces", &[]))).await;
    assert!(all.iter().all(|response| [200, 429].contains(&response.status().as_u16())));
    assert!(all.iter().any(|response| response.status() == 200));
    assert_eq!(owner.namespaces().await, ["limited-dev"]);
}

#[tokio::test]
async fn replaced_certificate_is_used_and_connections_stay() {
    let mut proxy = TestProxy::start(&[]).await;
    let token = proxy.cluster.user_token("alice").unwrap();
    let old = proxy.client(&token).await;
    let version = async |client: &kube::Client| client.apiserver_version().await;
    version(&old).await.unwrap();
    proxy.authority = write_certificate(&proxy.certificate);
    eventually("the new certificate", PATIENCE, async || {
        Ok(version(&proxy.client(&token).await).await.is_ok())
    })
    .await
    .unwrap();
    version(&old).await.unwrap();
}

#[tokio::test]
async fn stop_finishes_requests_in_progress() {
    let mut proxy = TestProxy::start(&[]).await;
    let token = proxy.cluster.user_token("alice").unwrap();
    let client = proxy.client(&token).await;
    client.apiserver_version().await.unwrap();
    let request = http::Request::get("/version").body(kube::client::Body::empty()).unwrap();
    let response = client.send(request).await.unwrap();
    proxy.stop.cancel();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("gitVersion"));
    drop(client);
    timeout(PATIENCE, proxy.ended.take().unwrap()).await.unwrap().unwrap();
    let maps = Api::<ConfigMap>::namespaced(proxy.client(&token).await, "default");
    assert!(maps.list(&ListParams::default()).await.is_err(), "nobody listens");
}

#[tokio::test]
async fn disabled_view_is_the_answer_of_the_api_server() {
    let proxy = TestProxy::start(&["--views=tenants"]).await;
    let owner = proxy.owner(&["disabled"]).await;
    assert_eq!(owner.get("/api/v1/namespaces", &[]).await.status(), 403);
    eventually("the Tenants of the account", PATIENCE, async || {
        Ok(owner.get("/apis/capsule.clastix.io/v1beta2/tenants", &[]).await.status() == 200)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn metrics_are_read_by_whom_the_api_server_allows_it() {
    let proxy = shared().await;
    let scraper = proxy.owner(&[]).await;
    assert_eq!(proxy.scrape("wrong").await.status(), 401);
    let refused = proxy.scrape(&scraper.token).await;
    assert_eq!(refused.status(), 403);
    let namespace = scraper.name.split(':').nth(2).unwrap();
    proxy
        .apply(serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "scraper"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        }))
        .await;
    proxy
        .apply(serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "scraper"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "builder"}],
        }))
        .await;
    assert_eq!(proxy.get(&scraper.token, "/version", &[]).await.status(), 200);
    eventually("the metrics", PATIENCE, async || {
        let response = proxy.scrape(&scraper.token).await;
        let text = String::from_utf8_lossy(response.body());
        let is_counted = text.contains("ensemble_proxy_requests_total{route=\"forward\",code=\"200\"}");
        Ok(response.status() == 200 && is_counted && !text.contains(&scraper.token))
    })
    .await
    .unwrap();
}

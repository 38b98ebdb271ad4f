//! Lists of namespaces.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{TestProxy, shared};

/// The people of the documentation: alice owns oil, bob owns gas, dan owns nothing, carol is no user of
/// Capsule.
async fn oil_and_gas() -> &'static TestProxy {
    let proxy = shared().await;
    proxy.tenant("oil", &[("User", "alice")]).await;
    proxy.tenant("gas", &[("User", "bob")]).await;
    for (name, env) in [("oil-dev", "dev"), ("oil-prod", "prod")] {
        proxy.namespace_of("oil", name, &[("env", env)]).await;
    }
    proxy.namespace_of("gas", "gas-dev", &[("env", "dev")]).await;
    // The caches of the proxy have seen the Tenants when a list is not empty.
    for user in ["alice", "bob"] {
        cluster::wait::eventually("the namespaces of a user", crate::support::PATIENCE, async || {
            Ok(proxy.kubectl(user, &["get", "namespaces", "--output=name"]).await?.lines().count() > 0)
        })
        .await
        .unwrap();
    }
    proxy
}

/// Returns the lines of a list. A table has no last column, which is the age: time passes between two lists.
fn without_ages(list: &str) -> Vec<&str> {
    let is_table = list.starts_with("NAME");
    list.split('\n')
        .map(|line| if is_table { line.rsplit_once(' ').map_or(line, |row| row.0) } else { line })
        .collect()
}

#[tokio::test]
async fn people_list_their_own_namespaces() {
    let proxy = oil_and_gas().await;
    let admin = |args: &'static [&'static str]| async move { proxy.cluster.kubectl(args).await.unwrap() };
    for output in ["name", "wide", "yaml"] {
        let output = format!("--output={output}");
        let seen = proxy.kubectl("alice", &["get", "namespaces", &output]).await.unwrap();
        let selected = ["get", "namespaces", "--selector=capsule.clastix.io/tenant=oil", &output];
        let expected = proxy.cluster.kubectl(&selected).await.unwrap();
        assert_eq!(without_ages(&seen), without_ages(&expected), "{output}");
    }
    assert_eq!(
        proxy.kubectl("bob", &["get", "namespaces", "--output=name"]).await.unwrap(),
        "namespace/gas-dev\n"
    );
    // The proxy widens nothing.
    let refused = proxy.direct("alice", &["get", "namespaces"]).await.unwrap_err();
    assert!(format!("{refused:#}").contains("Forbidden"), "{refused:#}");
    assert_eq!(proxy.kubectl("dan", &["get", "namespaces"]).await.unwrap(), "");
    assert!(admin(&["get", "namespaces", "--output=name"]).await.contains("namespace/kube-system"));
}

#[tokio::test]
async fn selectors_of_users_select_among_their_own() {
    let proxy = oil_and_gas().await;
    for (arg, expected) in [
        ("--selector=env=dev", "namespace/oil-dev\n"),
        ("--selector=env notin (dev,stage)", "namespace/oil-prod\n"),
        ("--selector=capsule.clastix.io/tenant=gas", ""),
        ("--selector=!capsule.clastix.io/tenant", ""),
        ("--field-selector=metadata.name=gas-dev", ""),
        ("--field-selector=metadata.name=oil-dev", "namespace/oil-dev\n"),
    ] {
        let seen = proxy.kubectl("alice", &["get", "namespaces", "--output=name", arg]).await.unwrap();
        assert_eq!(seen, expected, "{arg}");
    }
}

#[tokio::test]
async fn who_is_no_user_of_capsule_gets_the_answer_of_the_api_server() {
    let proxy = oil_and_gas().await;
    let token = proxy.cluster.user_token("carol").unwrap();
    let through = proxy.get(&token, "/api/v1/namespaces", &[]).await;
    let client = kube::Client::try_from({
        let file = proxy.cluster.user_kubeconfig("carol").unwrap();
        let file = kube::config::Kubeconfig::read_from(file).unwrap();
        kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await.unwrap()
    });
    let request = http::Request::get("/api/v1/namespaces").body(kube::client::Body::empty()).unwrap();
    let direct = client.unwrap().send(request).await.unwrap();
    assert_eq!(
        (through.status(), direct.status()),
        (http::StatusCode::FORBIDDEN, http::StatusCode::FORBIDDEN)
    );
    let direct = http_body_util::BodyExt::collect(direct.into_body()).await.unwrap().to_bytes();
    assert_eq!(through.body(), &direct.to_vec());
}

#[tokio::test]
async fn other_namespaces_are_refused_as_without_the_proxy() {
    let proxy = oil_and_gas().await;
    let named = async |name: &str| {
        let args = ["get", "namespace", name];
        let (through, direct) = (proxy.kubectl("alice", &args).await, proxy.direct("alice", &args).await);
        let through = format!("{:#}", through.unwrap_err());
        assert_eq!(through, format!("{:#}", direct.unwrap_err()));
        through.replace(name, "NAME")
    };
    // Nobody learns which namespaces exist.
    assert_eq!(named("gas-dev").await, named("missing").await);
}

#[tokio::test]
async fn pages_contain_no_name_of_another_tenant() {
    let proxy = shared().await;
    let owner = proxy.owner(&["pages"]).await;
    proxy.tenant("strangers", &[("User", "nobody")]).await;
    let mut expected = BTreeSet::new();
    for number in 0..12 {
        let own = format!("pages-{number:02}");
        proxy.namespace_of("pages", &own, &[]).await;
        // They lie between the others in the order of names.
        proxy.namespace_of("strangers", &format!("pages-{number:02}-secret"), &[]).await;
        expected.insert(own);
    }
    owner.until_namespaces(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (mut seen, mut next, mut pages) = (BTreeSet::new(), String::new(), 0);
    loop {
        let path = format!("/api/v1/namespaces?limit=1&continue={next}");
        let page = owner.get(&path, &[]).await;
        assert_eq!(page.status(), 200);
        let text = String::from_utf8(page.body().clone()).unwrap();
        assert!(!text.contains("secret"), "{text}");
        let page: Value = serde_json::from_str(&text).unwrap();
        pages += 1;
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()),
        );
        let Some(token) = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) else {
            break;
        };
        let decoded = decode(token);
        assert!(!decoded.contains("secret"), "{decoded}");
        token.clone_into(&mut next);
    }
    assert_eq!(seen, expected);
    // The API server does not know whether what follows is selected, so the last page can be empty.
    assert!([12, 13].contains(&pages), "{pages}");
}

/// Decodes a token of a page.
fn decode(token: &str) -> String {
    let token = token.replace('-', "+").replace('_', "/");
    let padded = format!("{token}{}", "=".repeat((4 - token.len() % 4) % 4));
    let decoded: k8s_openapi::ByteString = serde_json::from_value(padded.into()).unwrap();
    String::from_utf8_lossy(&decoded.0).into_owned()
}

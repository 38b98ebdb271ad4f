//! Host names of Ingresses.

use k8s_openapi::api::networking::v1::Ingress;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::{Subject, create_tenant, object, shared_env};
use crate::support::TestEnv;

fn ingress(namespace: &str, name: &str, routes: &[(&str, &str)]) -> Value {
    let rule = |(host, path): &(&str, &str)| {
        let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
        let mut rule =
            json!({ "http": { "paths": [{ "path": path, "pathType": "Prefix", "backend": backend }] } });
        if !host.is_empty() {
            rule["host"] = (*host).into();
        }
        rule
    };
    let rules: Vec<_> = routes.iter().map(rule).collect();
    object("networking.k8s.io/v1", "Ingress", namespace, name, json!({ "rules": rules }))
}

#[tokio::test]
async fn host_names_must_be_allowed() {
    let env = shared_env().await;
    let hosts = json!({ "allowed": ["web.example"], "allowedRegex": "^[a-z]+\\.oil\\.io$" });
    let (_, namespace) =
        create_tenant(env, "hosts", json!({ "ingressOptions": { "allowedHostnames": hosts } })).await;
    let with = |routes: &[(&str, &str)]| ingress(&namespace, "web", routes);
    env.until_admitted(&with(&[("web.example", "/"), ("a.oil.io", "/")])).await;
    let text = "Tenant hosts requires a host name in each rule";
    env.assert_denied(&with(&[("web.example", "/"), ("", "/")]), text).await;
    let text =
        "host names b.example, c.example are not allowed by Tenant hosts; allowed host names: web.example";
    env.assert_denied(&with(&[("c.example", "/"), ("b.example", "/")]), text).await;
    env.assert_denial_event(&with(&[("c.example", "/")]), "IngressHostnameNotValid").await;

    // A stored Ingress stays usable when the list becomes stricter.
    env.store(with(&[("web.example", "/")])).await;
    env.change_tenant("hosts", json!({ "ingressOptions": { "allowedHostnames": { "allowed": [] } } })).await;
    env.until_denied(&ingress(&namespace, "other", &[("web.example", "/")]), "are not allowed").await;
    env.store(with(&[("web.example", "/"), ("web.example", "/more")])).await;
}

#[tokio::test]
async fn invalid_pattern_is_refused_on_the_tenant() {
    let env = shared_env().await;
    let spec = json!({ "ingressOptions": { "allowedHostnames": { "allowedRegex": "(" } } });
    let refused = env.try_tenant("badhosts", spec).await.unwrap_err();
    assert!(refused.contains("spec.ingressOptions.allowedHostnames"), "{refused}");
}

#[tokio::test]
async fn wildcards_are_denied_unless_they_are_allowed() {
    let env = shared_env().await;
    let (_, namespace) = create_tenant(env, "wildcards", json!({})).await;
    let wildcard = ingress(&namespace, "web", &[("*.wild.example", "/")]);
    env.until_admitted(&ingress(&namespace, "web", &[("a.wild.example", "/"), ("", "/")])).await;
    let text = "host name *.wild.example is a wildcard, which Tenant wildcards does not allow";
    env.assert_denied(&wildcard, text).await;
    env.change_tenant("wildcards", json!({ "ingressOptions": { "allowWildcardHostnames": true } })).await;
    env.until_admitted(&wildcard).await;
}

/// Creates two Tenants with a namespace each, and a second namespace of the first one.
async fn two_tenants(env: &TestEnv, name: &str, scope: &str) -> [String; 3] {
    let options =
        || json!({ "ingressOptions": { "hostnameCollisionScope": scope, "allowWildcardHostnames": true } });
    let (owner, first) = create_tenant(env, &format!("{name}-one"), options()).await;
    let (_, other) = create_tenant(env, &format!("{name}-two"), options()).await;
    let second = format!("{name}-one-prod");
    owner.create(env, &second).await.unwrap();
    env.until_tenant_ready(&format!("{name}-one"), 2).await;
    [first, second, other]
}

#[tokio::test]
async fn collisions_are_denied_in_their_scope() {
    let env = shared_env().await;
    for (scope, name, denied) in [
        ("Cluster", "collcluster", [true, true, true]),
        ("Tenant", "colltenant", [true, true, false]),
        ("Namespace", "collnamespace", [true, false, false]),
        ("Disabled", "colldisabled", [false, false, false]),
    ] {
        let namespaces = two_tenants(env, name, scope).await;
        let host = format!("{name}.example");
        env.store(ingress(&namespaces[0], "web", &[(&host, "/")])).await;
        for (namespace, is_denied) in namespaces.iter().zip(denied) {
            env.until_admitted(&ingress(namespace, "other", &[(&host, "/path")])).await;
            let same = ingress(namespace, "other", &[(&host, "/")]);
            if is_denied {
                env.assert_denied(&same, &format!("already uses host {host} with path /")).await;
            } else {
                env.until_admitted(&same).await;
            }
        }
        // An Ingress does not collide with itself.
        env.store(ingress(&namespaces[0], "web", &[(&host, "/"), (&host, "/more")])).await;
    }
}

#[tokio::test]
async fn wildcards_collide_with_names_of_other_tenants() {
    let env = shared_env().await;
    let [first, second, other] = two_tenants(env, "collwild", "Cluster").await;
    env.store(ingress(&first, "web", &[("a.wild.io", "/")])).await;
    env.until_admitted(&ingress(&second, "web", &[("*.wild.io", "/")])).await;
    env.assert_denied(&ingress(&other, "web", &[("*.wild.io", "/")]), "already uses host *.wild.io").await;
    env.until_admitted(&ingress(&other, "web", &[("*.a.wild.io", "/")])).await;
    env.store(ingress(&first, "all", &[("*.wide.io", "/")])).await;
    env.assert_denied(&ingress(&other, "web", &[("b.wide.io", "/")]), "already uses host b.wide.io").await;
}

/// Two Tenants request the same host at the same moment, and different managers review them.
#[tokio::test]
async fn one_of_two_simultaneous_ingresses_wins() {
    let env = shared_env().await;
    let [first, second, _] = two_tenants(env, "collrace", "Cluster").await;
    let other = "collrace-two-b";
    Subject::user("owner-of-collrace-two").create(env, other).await.unwrap();
    env.until_tenant_ready("collrace-two", 2).await;
    let client = env.cluster.client().await.unwrap();
    for (round, (one, two)) in [(&first, other), (&second, other)].repeat(15).into_iter().enumerate() {
        let host = format!("race-{round}.example");
        let create = async |namespace: &str| {
            let ingress = ingress(namespace, "race", &[(&host, "/")]);
            let api = Api::<Ingress>::namespaced(client.clone(), namespace);
            api.create(&PostParams::default(), &serde_json::from_value(ingress).unwrap()).await
        };
        let (created, denied) = match tokio::join!(create(one), create(two)) {
            (Ok(_), Err(denied)) => (one.as_str(), denied),
            (Err(denied), Ok(_)) => (two, denied),
            other => panic!("{host}: {other:?}"),
        };
        assert!(denied.to_string().contains("already uses host"), "{denied}");
        // The host is free again as soon as the managers observe the deletion.
        let api = Api::<Ingress>::namespaced(client.clone(), created);
        api.delete("race", &DeleteParams::default()).await.unwrap();
        let free = ingress(if created == two { one } else { two }, "probe", &[(&host, "/")]);
        env.until_admitted(&free).await;
    }
}

//! Tests of conversion webhooks.

use cluster::wait::eventually;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::{error::chain, manifests::webhooks::definitions};
use serde_json::json;

use super::{
    converted_kind::{v1, v2},
    handlers::REGISTRATION,
    support::{TIMEOUT, TestEnv},
};

/// More objects than the page size of kubectl, so that one review contains a whole list.
const MANY: usize = 600;

async fn install_crd(env: &TestEnv) {
    let mut definitions = definitions(&REGISTRATION, &env.client_config);
    let conversion = definitions[0].spec.conversion.as_mut().and_then(|one| one.webhook.as_mut()).unwrap();
    conversion.client_config.as_mut().unwrap().ca_bundle = Some(env.ca.clone());
    env.cluster.install_crds(&definitions).await.unwrap();
}

async fn set_review_version(env: &TestEnv, version: &str) {
    let webhook = json!({ "webhook": { "conversionReviewVersions": [version] } });
    let patch = Patch::Merge(json!({ "spec": { "conversion": webhook } }));
    let crds = Api::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >::all(env.client.clone());
    crds.patch("ropes.webhook.example.com", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn converts_objects_between_versions() {
    let env = TestEnv::new().await;
    install_crd(&env).await;
    let old = Api::<v1::Rope>::namespaced(env.client.clone(), &env.namespace);
    let new = Api::<v2::Rope>::namespaced(env.client.clone(), &env.namespace);
    for review in ["v1", "v1beta1"] {
        set_review_version(&env, review).await;
        let name = format!("round-{review}");
        let mut rope = v1::Rope::new(&name, v1::RopeSpec { centimetres: 1250 });
        rope.labels_mut().insert("a".to_owned(), "b".to_owned());
        eventually("the API server to convert", TIMEOUT, async || {
            Ok(old.create(&PostParams::default(), &rope).await)
        })
        .await
        .unwrap();
        let stored = new.get(&name).await.unwrap();
        assert_eq!((stored.spec.metres, stored.spec.remainder, stored.labels()["a"].as_str()), (12, 50, "b"));
        let back = old.get(&name).await.unwrap();
        assert_eq!((back.spec.centimetres, back.uid()), (1250, stored.uid()));
    }

    let create = async |number: usize| {
        let spec = v2::RopeSpec { metres: 14 + i64::try_from(number).unwrap(), remainder: 0 };
        new.create(&PostParams::default(), &v2::Rope::new(&format!("many-{number}"), spec)).await
    };
    futures::future::try_join_all((0..MANY).map(create)).await.unwrap();
    let listed = old.list(&ListParams::default()).await.unwrap();
    let many: Vec<_> = listed.iter().filter(|rope| rope.name_any().starts_with("many-")).collect();
    assert_eq!(many.len(), MANY);
    assert!(many.iter().all(|rope| rope.spec.centimetres >= 1400 && rope.spec.centimetres % 100 == 0));

    // The error names the object that cannot be converted. Other objects are converted.
    let invalid = v2::Rope::new("invalid", v2::RopeSpec { metres: 13, remainder: 0 });
    new.create(&PostParams::default(), &invalid).await.unwrap();
    let error = chain(&old.get("invalid").await.unwrap_err());
    assert!(error.contains("13 metres are not supported") && error.contains("invalid"), "{error}");
    assert_eq!(old.get("many-0").await.unwrap().spec.centimetres, 1400);
}

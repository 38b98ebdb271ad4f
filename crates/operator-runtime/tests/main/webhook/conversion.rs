//! Conversion: objects of one version, read and written in another.

use cluster::wait::eventually;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::{admission::configuration::definitions, error::chain};
use serde_json::json;

use super::{
    handlers::REGISTRATION,
    sails::{v1, v2},
    stage::{PATIENCE, Stage},
};

/// More than one page of a list, so that lists are converted as a whole.
const MANY: usize = 600;

async fn define(stage: &Stage) {
    let mut definitions = definitions(&REGISTRATION, &stage.reach);
    let conversion = definitions[0].spec.conversion.as_mut().and_then(|one| one.webhook.as_mut()).unwrap();
    conversion.client_config.as_mut().unwrap().ca_bundle = Some(stage.ca.clone());
    stage.cluster.install_crds(&definitions).await.unwrap();
}

async fn understand_only(stage: &Stage, version: &str) {
    let webhook = json!({ "webhook": { "conversionReviewVersions": [version] } });
    let patch = Patch::Merge(json!({ "spec": { "conversion": webhook } }));
    let crds = Api::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >::all(stage.client.clone());
    crds.patch("sails.webhook.example.com", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn objects_are_read_and_written_in_each_version() {
    let stage = Stage::quiet().await;
    define(&stage).await;
    let old = Api::<v1::Sail>::namespaced(stage.client.clone(), &stage.namespace);
    let new = Api::<v2::Sail>::namespaced(stage.client.clone(), &stage.namespace);
    for review in ["v1", "v1beta1"] {
        understand_only(&stage, review).await;
        let name = format!("round-{review}");
        let mut sail = v1::Sail::new(&name, v1::SailSpec { centimetres: 1250 });
        sail.labels_mut().insert("a".to_owned(), "b".to_owned());
        eventually("the API server to convert", PATIENCE, async || {
            Ok(old.create(&PostParams::default(), &sail).await)
        })
        .await
        .unwrap();
        let stored = new.get(&name).await.unwrap();
        assert_eq!((stored.spec.metres, stored.spec.rest, stored.labels()["a"].as_str()), (12, 50, "b"));
        let back = old.get(&name).await.unwrap();
        assert_eq!((back.spec.centimetres, back.uid()), (1250, stored.uid()));
    }

    let create = async |number: usize| {
        let spec = v2::SailSpec { metres: 14 + i64::try_from(number).unwrap(), rest: 0 };
        new.create(&PostParams::default(), &v2::Sail::new(&format!("many-{number}"), spec)).await
    };
    futures::future::try_join_all((0..MANY).map(create)).await.unwrap();
    let listed = old.list(&ListParams::default()).await.unwrap();
    let many: Vec<_> = listed.iter().filter(|sail| sail.name_any().starts_with("many-")).collect();
    assert_eq!(many.len(), MANY);
    assert!(many.iter().all(|sail| sail.spec.centimetres >= 1400 && sail.spec.centimetres % 100 == 0));

    // What cannot be converted is named, and does not stand in the way of the others.
    let unlucky = v2::Sail::new("unlucky", v2::SailSpec { metres: 13, rest: 0 });
    new.create(&PostParams::default(), &unlucky).await.unwrap();
    let error = chain(&old.get("unlucky").await.unwrap_err());
    assert!(error.contains("13 metres are unlucky") && error.contains("unlucky"), "{error}");
    assert_eq!(old.get("many-0").await.unwrap().spec.centimetres, 1400);
}

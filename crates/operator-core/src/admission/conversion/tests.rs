use kube::{CustomResource, KubeSchema, ResourceExt};
use proptest::prelude::*;

use super::*;

mod v2 {
    use super::*;

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "test.example.com", version = "v2", kind = "Sail", namespaced)]
    pub(super) struct SailSpec {
        pub(super) metres: i64,
    }
}

mod v1 {
    use super::*;

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "test.example.com", version = "v1", kind = "Sail", namespaced)]
    pub(super) struct SailSpec {
        pub(super) centimetres: i64,
    }
}

const REST: &str = "test.example.com/centimetres";

fn to_hub(mut old: v1::Sail) -> Result<v2::Sail, String> {
    match old.spec.centimetres {
        13 => return Err("13 is unlucky".to_owned()),
        14 => panic!("14 is worse"),
        _ => {}
    }
    let rest = (old.spec.centimetres % 100).to_string();
    old.annotations_mut().insert(REST.to_owned(), rest);
    let mut new = v2::Sail::new("", v2::SailSpec { metres: old.spec.centimetres / 100 });
    new.metadata = old.metadata;
    new.metadata.name = Some("meddled with".to_owned());
    Ok(new)
}

#[allow(clippy::unnecessary_wraps, reason = "converters have this shape")]
fn from_hub(mut new: v2::Sail) -> Result<v1::Sail, String> {
    let rest = new.annotations_mut().remove(REST).and_then(|rest| rest.parse().ok()).unwrap_or(0);
    let mut old = v1::Sail::new("", v1::SailSpec { centimetres: new.spec.metres * 100 + rest });
    old.metadata = new.metadata;
    Ok(old)
}

fn conversion() -> Conversion {
    Conversion::hub::<v2::Sail>().spoke(to_hub, from_hub).build()
}

fn sail(version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("test.example.com/{version}"), "kind": "Sail",
        "metadata": { "name": "a", "namespace": "n", "uid": "u", "novelty": 1 },
        "spec": spec,
    })
}

fn review(version: &str, to: &str, objects: Vec<Value>) -> Value {
    json!({
        "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "kind": "ConversionReview",
        "request": { "uid": "7", "desiredAPIVersion": format!("test.example.com/{to}"), "objects": objects },
    })
}

fn bounds() -> ConversionBounds {
    ConversionBounds {
        object: usize::MAX,
        answer: 1 << 20,
        deadline: Instant::now() + std::time::Duration::from_mins(1),
        cancelled: Arc::default(),
    }
}

fn answer(review: Value) -> (Value, ConversionResponse) {
    let converted = conversion().answer(review.to_string().as_bytes(), &bounds()).unwrap();
    (serde_json::from_slice(&converted.body).unwrap(), converted)
}

#[test]
fn each_review_is_answered_in_its_own_version_and_order() {
    for version in ["v1", "v1beta1"] {
        let objects = (0..500).map(|number| sail("v1", json!({ "centimetres": number * 100 }))).collect();
        let (reply, converted) = answer(review(version, "v2", objects));
        assert_eq!(reply["apiVersion"], format!("apiextensions.k8s.io/{version}"));
        assert_eq!(
            (&reply["response"]["uid"], &reply["response"]["result"]["status"]),
            (&json!("7"), &json!("Success"))
        );
        let metres = reply["response"]["convertedObjects"].as_array().unwrap().iter();
        let metres: Vec<_> = metres.map(|sail| sail["spec"]["metres"].as_i64().unwrap()).collect();
        assert_eq!(metres, (0..500).collect::<Vec<_>>());
        assert_eq!((converted.count, converted.failed.is_none()), (500, true));
    }
}

#[test]
fn metadata_stays_but_for_labels_and_annotations() {
    let new = conversion().convert(sail("v1", json!({ "centimetres": 250 })), "test.example.com/v2").unwrap();
    let annotations = json!({ REST: "50" });
    let metadata =
        json!({ "name": "a", "namespace": "n", "uid": "u", "novelty": 1, "annotations": annotations });
    assert_eq!((&new["metadata"], &new["apiVersion"]), (&metadata, &json!("test.example.com/v2")));
    let old = conversion().convert(new, "test.example.com/v1").unwrap();
    assert!(old["metadata"].get("annotations").is_none_or(|left| *left == json!({})), "{old}");
}

#[test]
fn one_object_that_cannot_be_converted_fails_the_review_by_name() {
    for (unlucky, says) in [(13, "13 is unlucky"), (14, "by a bug of the manager")] {
        let objects = [1, unlucky, 2].map(|number| sail("v1", json!({ "centimetres": number }))).to_vec();
        let (reply, converted) = answer(review("v1", "v2", objects));
        let message = "cannot convert Sail n/a of test.example.com/v1 to test.example.com/v2: ";
        let told = reply["response"]["result"]["message"].as_str().unwrap();
        assert!(told.starts_with(message) && told.contains(says), "{told}");
        assert!(reply["response"]["convertedObjects"].is_null(), "{reply}");
        assert!(converted.failed.is_some());
    }
}

#[test]
fn what_is_unknown_is_named_with_what_is_known() {
    let convert = |object, to| conversion().convert(object, to).unwrap_err().to_string();
    let error = convert(sail("v1", json!({ "centimetres": 1 })), "test.example.com/v3");
    assert!(error.contains("known are v2, v1"), "{error}");
    let error = convert(sail("v1", json!({ "centimetres": 1 })), "other.example.com/v2");
    assert!(error.contains("sails.test.example.com are not of"), "{error}");
    let error = convert(sail("v1", json!({ "centimetres": "the secret" })), "test.example.com/v2");
    assert!(error.contains("not as this version") && !error.contains("the secret"), "{error}");
    assert!(convert(json!(3), "test.example.com/v2").contains("are not of"));
}

#[test]
fn bodies_that_make_no_sense_are_refused() {
    let of_v2 = json!({ "apiVersion": "apiextensions.k8s.io/v2", "kind": "ConversionReview" });
    let without = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview" });
    let admission = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview" });
    for (body, says) in [
        ("{".to_owned(), "no ConversionReview in JSON"),
        (of_v2.to_string(), "found kind ConversionReview of apiextensions.k8s.io/v2"),
        (admission.to_string(), "found kind AdmissionReview"),
        (without.to_string(), "has no request"),
    ] {
        let error = conversion().answer(body.as_bytes(), &bounds()).unwrap_err();
        assert!(error.is_senders() && error.to_string().contains(says), "{error}");
    }
}

/// Why a review of these objects failed under these bounds.
fn refused(objects: Vec<Value>, bounds: &ConversionBounds) -> String {
    let review = review("v1", "v2", objects).to_string();
    let converted = conversion().answer(review.as_bytes(), bounds).unwrap();
    let reply: Value = serde_json::from_slice(&converted.body).unwrap();
    assert_eq!(reply["response"]["result"]["status"], "Failure");
    assert!(converted.body.len() < 4096, "the objects that were converted are not sent");
    converted.failed.unwrap().to_string()
}

#[test]
fn a_review_gets_no_more_than_its_bounds() {
    let one = || sail("v1", json!({ "centimetres": 100 }));
    let long = |length: usize| sail("v1", json!({ "centimetres": 1, "novelty": "x".repeat(length) }));
    let unbounded = bounds();
    assert!(
        refused(vec![one(); 20_001], &ConversionBounds { answer: 1 << 30, ..bounds() })
            .contains("at most 20000")
    );
    assert!(refused(vec![long(3 << 20)], &unbounded).contains("at most 2097152"));
    let hungry = json!({ "centimetres": 1, "novelty": vec![json!({}); 1000] });
    let bounded = ConversionBounds { object: 1 << 20, ..bounds() };
    assert!(refused(vec![one(), sail("v1", hungry)], &bounded).contains("object 1 of the review"));
    assert!(refused(vec![one(); 100], &ConversionBounds { answer: 8192, ..bounds() }).contains("more than"));
    let over = ConversionBounds { deadline: Instant::now(), ..bounds() };
    assert!(refused(vec![one()], &over).contains("takes too long"));
    let left = ConversionBounds { cancelled: Arc::new(AtomicBool::new(true)), ..bounds() };
    assert!(refused(vec![one()], &left).contains("nobody waits"));
}

#[test]
fn objects_of_the_wanted_version_stay_as_they_are_written() {
    let object = r#"{ "kind": "Sail",  "apiVersion": "test.example.com/v2", "novelty": [ 1.50 ] }"#;
    let review = review("v1", "v2", Vec::new()).to_string().replace("[]", &format!("[{object}, {object}]"));
    let converted = conversion().answer(review.as_bytes(), &bounds()).unwrap();
    let text = String::from_utf8(converted.body).unwrap();
    assert!(text.contains(&format!("[{object},{object}]")), "{text}");
}

#[test]
fn what_strangers_write_is_not_repeated_at_length() {
    let mut object = sail("v7", json!({}));
    object["metadata"]["name"] = "x".repeat(1 << 20).into();
    assert!(refused(vec![object], &bounds()).len() < 2000);
    let long = review("v1", &"x".repeat(2000), Vec::new()).to_string();
    assert!(conversion().answer(long.as_bytes(), &bounds()).unwrap_err().is_senders());
}

proptest! {
    #[test]
    fn nothing_is_lost_on_the_way_to_the_hub_and_back(centimetres in 100_i64..1_000_000) {
        let old = sail("v1", json!({ "centimetres": centimetres }));
        let new = conversion().convert(old.clone(), "test.example.com/v2").unwrap();
        let mut back = conversion().convert(new, "test.example.com/v1").unwrap();
        back["metadata"].as_object_mut().unwrap().remove("annotations");
        prop_assert_eq!(back, old);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(conversion().answer(&bytes, &bounds()).is_err());
    }
}

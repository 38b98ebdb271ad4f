use kube::{CustomResource, KubeSchema, ResourceExt};
use proptest::prelude::*;

use super::*;

mod v2 {
    use super::*;

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "test.example.com", version = "v2", kind = "Gadget", namespaced)]
    pub(super) struct GadgetSpec {
        pub(super) metres: i64,
    }
}

mod v1 {
    use super::*;

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "test.example.com", version = "v1", kind = "Gadget", namespaced)]
    pub(super) struct GadgetSpec {
        pub(super) centimetres: i64,
    }
}

const REST: &str = "test.example.com/centimetres";
const FAILS: i64 = 13;
const PANICS: i64 = 14;

fn to_hub(mut old: v1::Gadget) -> Result<v2::Gadget, String> {
    match old.spec.centimetres {
        FAILS => return Err("13 is not allowed".to_owned()),
        PANICS => panic!("14 panics"),
        _ => {}
    }
    let rest = (old.spec.centimetres % 100).to_string();
    old.annotations_mut().insert(REST.to_owned(), rest);
    let mut new = v2::Gadget::new("", v2::GadgetSpec { metres: old.spec.centimetres / 100 });
    new.metadata = old.metadata;
    new.metadata.name = Some("changed".to_owned());
    Ok(new)
}

#[allow(clippy::unnecessary_wraps, reason = "converters have this shape")]
fn from_hub(mut new: v2::Gadget) -> Result<v1::Gadget, String> {
    let rest = new.annotations_mut().remove(REST).and_then(|rest| rest.parse().ok()).unwrap_or(0);
    let mut old = v1::Gadget::new("", v1::GadgetSpec { centimetres: new.spec.metres * 100 + rest });
    old.metadata = new.metadata;
    Ok(old)
}

fn conversion() -> Conversion {
    Conversion::hub::<v2::Gadget>().spoke(to_hub, from_hub).build()
}

fn gadget(version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("test.example.com/{version}"), "kind": "Gadget",
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

fn limits() -> ConversionLimits {
    ConversionLimits {
        object: usize::MAX,
        response: 1 << 20,
        deadline: Instant::now() + std::time::Duration::from_hours(1),
        cancelled: Arc::default(),
    }
}

fn answer(review: Value) -> (Value, ConversionResponse) {
    let converted = conversion().answer(review.to_string().as_bytes(), &limits()).unwrap();
    (serde_json::from_slice(&converted.body).unwrap(), converted)
}

#[test]
fn responds_in_the_version_and_order_of_the_review() {
    for version in ["v1", "v1beta1"] {
        let objects = (0..500).map(|number| gadget("v1", json!({ "centimetres": number * 100 }))).collect();
        let (reply, converted) = answer(review(version, "v2", objects));
        assert_eq!(reply["apiVersion"], format!("apiextensions.k8s.io/{version}"));
        assert_eq!(
            (&reply["response"]["uid"], &reply["response"]["result"]["status"]),
            (&json!("7"), &json!("Success"))
        );
        let metres = reply["response"]["convertedObjects"].as_array().unwrap().iter();
        let metres: Vec<_> = metres.map(|gadget| gadget["spec"]["metres"].as_i64().unwrap()).collect();
        assert_eq!(metres, (0..500).collect::<Vec<_>>());
        assert_eq!((converted.count, converted.failed.is_none()), (500, true));
    }
}

#[test]
fn preserves_metadata_except_labels_and_annotations() {
    let new =
        conversion().convert(gadget("v1", json!({ "centimetres": 250 })), "test.example.com/v2").unwrap();
    let annotations = json!({ REST: "50" });
    let metadata =
        json!({ "name": "a", "namespace": "n", "uid": "u", "novelty": 1, "annotations": annotations });
    assert_eq!((&new["metadata"], &new["apiVersion"]), (&metadata, &json!("test.example.com/v2")));
    let old = conversion().convert(new, "test.example.com/v1").unwrap();
    assert!(old["metadata"].get("annotations").is_none_or(|left| *left == json!({})), "{old}");
}

#[test]
fn one_failed_object_fails_the_review() {
    for (number, cause) in [(FAILS, "13 is not allowed"), (PANICS, "a bug of the manager")] {
        let objects = [1, number, 2].map(|number| gadget("v1", json!({ "centimetres": number }))).to_vec();
        let (reply, converted) = answer(review("v1", "v2", objects));
        let message = "cannot convert Gadget n/a of test.example.com/v1 to test.example.com/v2: ";
        let actual = reply["response"]["result"]["message"].as_str().unwrap();
        assert!(actual.starts_with(message) && actual.contains(cause), "{actual}");
        assert!(reply["response"]["convertedObjects"].is_null(), "{reply}");
        assert!(converted.failed.is_some());
    }
}

#[test]
fn error_names_the_known_versions() {
    let convert = |object, to| conversion().convert(object, to).unwrap_err().to_string();
    let error = convert(gadget("v1", json!({ "centimetres": 1 })), "test.example.com/v3");
    assert!(error.contains("known versions are v2, v1"), "{error}");
    let error = convert(gadget("v1", json!({ "centimetres": 1 })), "other.example.com/v2");
    assert!(error.contains("does not belong to gadgets.test.example.com"), "{error}");
    let error = convert(gadget("v1", json!({ "centimetres": "the secret" })), "test.example.com/v2");
    assert!(error.contains("does not match the schema") && !error.contains("the secret"), "{error}");
    assert!(convert(json!(3), "test.example.com/v2").contains("does not belong to"));
}

#[test]
fn rejects_invalid_bodies() {
    let of_v2 = json!({ "apiVersion": "apiextensions.k8s.io/v2", "kind": "ConversionReview" });
    let without = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview" });
    let admission = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview" });
    for (body, says) in [
        ("{".to_owned(), "no ConversionReview in JSON"),
        (of_v2.to_string(), "found kind ConversionReview of apiextensions.k8s.io/v2"),
        (admission.to_string(), "found kind AdmissionReview"),
        (without.to_string(), "has no request"),
    ] {
        let error = conversion().answer(body.as_bytes(), &limits()).unwrap_err();
        assert!(error.is_client_error() && error.to_string().contains(says), "{error}");
    }
}

#[test]
fn does_not_quote_objects_that_are_no_list() {
    for objects in [json!("the secret"), json!({ "the secret": 1 }), json!(1)] {
        let objects = serde_json::value::to_raw_value(&objects).unwrap();
        let error = for_each_object(&objects, |_| unreachable!("there is no object")).unwrap_err();
        assert_eq!(error.to_string(), "objects is not a list");
    }
}

/// Returns why a review of these objects failed under these limits.
fn failure(objects: Vec<Value>, limits: &ConversionLimits) -> String {
    let review = review("v1", "v2", objects).to_string();
    let converted = conversion().answer(review.as_bytes(), limits).unwrap();
    let reply: Value = serde_json::from_slice(&converted.body).unwrap();
    assert_eq!(reply["response"]["result"]["status"], "Failure");
    assert!(converted.body.len() < 4096, "converted objects are not sent");
    converted.failed.unwrap().to_string()
}

#[test]
fn enforces_the_limits() {
    let one = || gadget("v1", json!({ "centimetres": 100 }));
    let long = |length: usize| gadget("v1", json!({ "centimetres": 1, "novelty": "x".repeat(length) }));
    let unlimited = limits();
    assert!(
        failure(vec![one(); 20_001], &ConversionLimits { response: 1 << 30, ..limits() })
            .contains("at most 20000")
    );
    assert!(failure(vec![long(3 << 20)], &unlimited).contains("at most 2097152"));
    let large = json!({ "centimetres": 1, "novelty": vec![json!({}); 1000] });
    let limited = ConversionLimits { object: 1 << 20, ..limits() };
    assert!(failure(vec![one(), gadget("v1", large)], &limited).contains("object 1 of the review"));
    assert!(
        failure(vec![one(); 100], &ConversionLimits { response: 8192, ..limits() }).contains("would exceed")
    );
    let expired = ConversionLimits { deadline: Instant::now(), ..limits() };
    assert!(failure(vec![one()], &expired).contains("deadline"));
    let cancelled = ConversionLimits { cancelled: Arc::new(AtomicBool::new(true)), ..limits() };
    assert!(failure(vec![one()], &cancelled).contains("disconnected"));
}

#[test]
fn objects_with_the_desired_version_are_copied_unchanged() {
    let object = r#"{ "kind": "Gadget",  "apiVersion": "test.example.com/v2", "novelty": [ 1.50 ] }"#;
    let review = review("v1", "v2", Vec::new()).to_string().replace("[]", &format!("[{object}, {object}]"));
    let converted = conversion().answer(review.as_bytes(), &limits()).unwrap();
    let text = String::from_utf8(converted.body).unwrap();
    assert!(text.contains(&format!("[{object},{object}]")), "{text}");
}

#[test]
fn truncates_user_input_in_messages() {
    let mut object = gadget("v7", json!({}));
    object["metadata"]["name"] = "x".repeat(1 << 20).into();
    assert!(failure(vec![object], &limits()).len() < 2000);
    let long = review("v1", &"x".repeat(2000), Vec::new()).to_string();
    assert!(conversion().answer(long.as_bytes(), &limits()).unwrap_err().is_client_error());
}

proptest! {
    #[test]
    fn round_trip_through_the_hub_loses_nothing(centimetres in 100_i64..1_000_000) {
        let old = gadget("v1", json!({ "centimetres": centimetres }));
        let new = conversion().convert(old.clone(), "test.example.com/v2").unwrap();
        let mut back = conversion().convert(new, "test.example.com/v1").unwrap();
        back["metadata"].as_object_mut().unwrap().remove("annotations");
        prop_assert_eq!(back, old);
    }

    #[test]
    fn rejects_any_bytes_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(conversion().answer(&bytes, &limits()).is_err());
    }
}

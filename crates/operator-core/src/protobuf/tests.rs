use http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{messages::*, *};

/// A message with one field.
#[derive(Clone, PartialEq, Message, Serialize)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

const FORMAT: Protobuf = Protobuf::of::<Named>();

fn object(kind: &str, message: &impl Message) -> Vec<u8> {
    let types = TypeMeta { api_version: "v1".to_owned(), kind: kind.to_owned() };
    [MAGIC, &Unknown { types, raw: message.encode_to_vec() }.encode_to_vec()].concat()
}

fn named(name: &str) -> Vec<u8> {
    object("Pod", &Named { name: name.to_owned() })
}

fn expired() -> Status {
    Status { status: "Failure".to_owned(), reason: "Expired".to_owned(), code: 410, ..Status::default() }
}

/// Returns an event with its length.
fn event(kind: &str, raw: Vec<u8>) -> Vec<u8> {
    let event = WatchEvent { kind: kind.to_owned(), object: RawExtension { raw } }.encode_to_vec();
    [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
}

/// Returns the lines of a watch that arrives in these parts.
fn lines<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Value>, BoxError> {
    let mut watch = WatchStream::new(FORMAT);
    let mut lines = Vec::new();
    for part in parts {
        lines.extend(watch.push(part)?);
    }
    let lines = lines.split_inclusive(|byte| *byte == b'\n');
    Ok(lines.map(|line| serde_json::from_slice(line).unwrap()).collect())
}

/// Sends a request to an API server that responds with this status, type, and body.
async fn sent(path: &str, status: u16, media_type: &'static str, body: Vec<u8>) -> Result<Vec<u8>, BoxError> {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let respond = async |request: Request<Body>| {
        assert_eq!(request.headers()[ACCEPT], ACCEPTED);
        let response = Response::builder().status(status).header(CONTENT_TYPE, media_type);
        Ok(response.body(Full::new(Bytes::from(body)))?)
    };
    let response = FORMAT.send(request, respond).await?;
    assert_eq!(response.status(), StatusCode::from_u16(status)?);
    Ok(response.into_body().collect().await?.to_bytes().to_vec())
}

#[tokio::test]
async fn objects_and_failures_become_json() {
    let one = sent("/api/v1/namespaces/a/pods/b", 200, PROTOBUF, named("b")).await.unwrap();
    let one: Value = serde_json::from_slice(&one).unwrap();
    assert_eq!(one, json!({ "apiVersion": "v1", "kind": "Pod", "name": "b" }));
    for path in ["/api/v1/pods", "/api/v1/pods?watch=true"] {
        let failed = sent(path, 410, PROTOBUF, object("Status", &expired())).await.unwrap();
        let failed: kube::core::Status = serde_json::from_slice(&failed).unwrap();
        assert_eq!((failed.code, failed.reason.as_str()), (410, "Expired"));
    }
}

#[tokio::test]
async fn json_passes_unchanged() {
    for path in ["/api/v1/namespaces/a/pods/b", "/api/v1/pods?watch=true"] {
        assert_eq!(sent(path, 200, JSON, b"{}".to_vec()).await.unwrap(), b"{}");
    }
}

#[tokio::test]
async fn what_is_no_object_is_an_error() {
    for body in [&b""[..], b"{}", b"k8s\0\xff", &[MAGIC, &[0x12, 2, 0xff, 0xff]].concat()] {
        let error = sent("/api/v1/namespaces/a/pods/b", 200, PROTOBUF, body.to_vec()).await.unwrap_err();
        assert!(!error.to_string().is_empty());
        // Other objects of a watch are not affected.
        let watch = [event("ADDED", body.to_vec()), event("ADDED", named("a"))].concat();
        let lines = lines([watch.as_slice()]).unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0]["object"]["name"], "a");
    }
    let no_event = [&3_u32.to_be_bytes()[..], &[0xff; 3]].concat();
    assert!(sent("/api/v1/pods?watch=true", 200, PROTOBUF, no_event).await.is_err());
}

#[tokio::test]
async fn event_above_the_limit_is_an_error_before_it_is_read() {
    let error = lines([&(1_u32 << 30).to_be_bytes()[..]]).unwrap_err();
    assert!(error.to_string().contains("1073741824 bytes"), "{error}");
    let large = named(&"x".repeat(MAX_OBJECT));
    assert!(sent("/api/v1/namespaces/a/pods/b", 200, PROTOBUF, large).await.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However a watch is cut into parts, its events are the same.
    #[test]
    fn parts_of_a_watch_do_not_matter(
        names in prop::collection::vec("[a-z]{0,200}", 0..8),
        lengths in prop::collection::vec(1_usize..50, 1..20),
    ) {
        let mut watch: Vec<u8> = names.iter().flat_map(|name| event("ADDED", named(name))).collect();
        watch.extend(event("ERROR", object("Status", &expired())));
        let (mut rest, mut parts) = (watch.as_slice(), Vec::new());
        for length in lengths.iter().cycle() {
            let Some((part, after)) = rest.split_at_checked(*length) else { break };
            parts.push(part);
            rest = after;
        }
        let lines = lines(parts.into_iter().chain([rest])).unwrap();
        let (last, objects) = lines.split_last().unwrap();
        prop_assert_eq!(&last["object"]["code"], &json!(410));
        prop_assert_eq!(objects.len(), names.len());
        for (line, name) in objects.iter().zip(&names) {
            let object = json!({ "apiVersion": "v1", "kind": "Pod", "name": name });
            prop_assert_eq!(line, &json!({ "type": "ADDED", "object": object }));
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = lines([bytes.as_slice()]);
        let _ = lines([event("ADDED", bytes).as_slice()]);
    }
}

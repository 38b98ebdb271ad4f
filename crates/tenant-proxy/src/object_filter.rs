//! Lists and watches from which the proxy removes what a user does not see, by names and labels.
//!
//! Only names, labels, types of events, and the metadata of a list are read. What stays has the bytes of the
//! API server.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::watch_expiry::Framing;

/// Most bytes of a list.
pub const MAX_LIST_BYTES: usize = 32 << 20;
/// Most objects of a list.
const MAX_ITEMS: usize = 10_000;
/// Most bytes of one event of a watch. The API server accepts objects of 3 MiB.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// Why a list or a watch has no view.
#[derive(Debug, thiserror::Error)]
pub enum ObjectFilterError {
    /// It is not what the API server writes. The cause can contain what the user must not see.
    #[error("the API server returned something else than a list or a watch in JSON")]
    Malformed(#[from] serde_json::Error),
    /// It has too many objects.
    #[error("the list has {0} objects, and at most {MAX_ITEMS} are read")]
    TooMany(usize),
    /// An event is too long.
    #[error("an event of the watch has more than {MAX_EVENT_BYTES} bytes")]
    TooLong,
    /// The watch of the API server broke.
    #[error("the watch of the API server broke: {0}")]
    Broken(axum::Error),
}

/// What says whether an object is visible.
#[derive(Debug, Default, Deserialize)]
pub struct Metadata<'a> {
    /// Name of the object.
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    /// Labels of the object.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// An object, or a Table.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
    /// The API server writes an empty list as null. `None`: it is no Table.
    #[serde(borrow, default)]
    rows: Option<Vec<Row<'a>>>,
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    object: Named<'a>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<'a> Object<'a> {
    /// Returns the metadata of the object, or of all rows of a Table.
    fn all(self) -> Vec<Metadata<'a>> {
        match self.rows {
            Some(rows) => rows.into_iter().map(|row| row.object.metadata).collect(),
            None => self.metadata.into_iter().collect(),
        }
    }
}

/// Returns whether an object, or each row of a Table, is visible.
///
/// # Errors
/// Returns an error if it is neither of them in JSON.
pub fn object(body: &[u8], is_visible: impl Fn(&Metadata<'_>) -> bool) -> Result<bool, ObjectFilterError> {
    let all = serde_json::from_slice::<Object<'_>>(body)?.all();
    Ok(!all.is_empty() && all.iter().all(is_visible))
}

/// Returns the names of the visible objects of a list.
///
/// # Errors
/// Returns an error if it is not a list in JSON, or has too many objects.
pub fn names(
    body: &[u8],
    is_visible: impl Fn(&Metadata<'_>) -> bool,
) -> Result<HashSet<String>, ObjectFilterError> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow)]
        items: Option<Vec<Named<'a>>>,
    }
    let items = serde_json::from_slice::<List<'_>>(body)?.items.unwrap_or_default();
    if items.len() > MAX_ITEMS {
        return Err(ObjectFilterError::TooMany(items.len()));
    }
    let visible = items.into_iter().map(|item| item.metadata).filter(is_visible);
    Ok(visible.map(|metadata| metadata.name.into_owned()).collect())
}

/// Returns a list without the objects that do not meet `is_visible`, and without what the metadata of the
/// list says about others.
///
/// # Errors
/// Returns an error if it is not a list in JSON, or has too many objects.
pub fn list(body: &[u8], is_visible: impl Fn(&Metadata<'_>) -> bool) -> Result<Vec<u8>, ObjectFilterError> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body)?;
    let mut shown = BTreeMap::new();
    for (name, value) in fields {
        let value = match name.as_str() {
            "metadata" => metadata(value)?,
            "items" => {
                visible(value, |item| Ok(is_visible(&serde_json::from_str::<Named<'_>>(item)?.metadata)))?
            }
            "rows" => {
                visible(value, |row| Ok(is_visible(&serde_json::from_str::<Row<'_>>(row)?.object.metadata)))?
            }
            // Version, kind, and the columns of a Table.
            _ => value.to_owned(),
        };
        shown.insert(name, value);
    }
    Ok(serde_json::to_vec(&shown)?)
}

/// Returns the metadata of a list without what it says about further objects.
fn metadata(value: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(value.get())?;
    fields.remove("continue");
    fields.remove("remainingItemCount");
    to_raw_value(&fields)
}

/// Returns the objects that are shown.
fn visible(
    value: &RawValue,
    is_shown: impl Fn(&str) -> Result<bool, serde_json::Error>,
) -> Result<Box<RawValue>, ObjectFilterError> {
    // The API server writes an empty list as null.
    let objects: Vec<&RawValue> = serde_json::from_str::<Option<_>>(value.get())?.unwrap_or_default();
    if objects.len() > MAX_ITEMS {
        return Err(ObjectFilterError::TooMany(objects.len()));
    }
    let mut shown = Vec::new();
    for object in objects {
        if is_shown(object.get())? {
            shown.push(object);
        }
    }
    Ok(to_raw_value(&shown)?)
}

/// What the user of a watch gets instead of an event.
enum Shown {
    /// Nothing.
    Nothing,
    /// The event as it came.
    Same,
    /// The event with another type.
    As(Vec<u8>),
    /// The end: an object that the user knows is not visible any more.
    End,
}

/// The body of a watch in JSON with the visible events.
pub struct VisibleEvents<V> {
    /// `None` after the end.
    body: Option<Body>,
    is_visible: V,
    /// Names of the objects that the user knows. `None`: an object never becomes visible, or stops to be.
    known: Option<HashSet<String>>,
    /// The beginning of an event.
    rest: Vec<u8>,
}

impl<V: Fn(&Metadata<'_>) -> bool> VisibleEvents<V> {
    /// Returns the body of a watch with the events whose object meets `is_visible`.
    ///
    /// If that depends on more than the name, `known` are the objects that the user knows from the list
    /// before the watch: the watch ends with an error if one of them stops to be visible, as its last state
    /// is not for the user.
    pub fn new(body: Body, is_visible: V, known: Option<HashSet<String>>) -> Self {
        Self { body: Some(body), is_visible, known, rest: Vec::new() }
    }

    /// Adds bytes. Returns the visible events that are complete, and whether the watch ends.
    fn add(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, bool), ObjectFilterError> {
        let mut visible = Vec::new();
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut done = 0;
        for line in rest.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            done += line.len();
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.shown(line)? {
                Shown::Nothing => {}
                Shown::Same => visible.extend_from_slice(line),
                Shown::As(event) => visible.extend(event),
                Shown::End => {
                    visible.extend_from_slice(&Framing::Json.expired());
                    return Ok((visible, true));
                }
            }
        }
        rest.drain(..done);
        self.rest = rest;
        if self.rest.len() > MAX_EVENT_BYTES { Err(ObjectFilterError::TooLong) } else { Ok((visible, false)) }
    }

    /// Decides about an event: errors and bookmarks are for everybody, and Tables are shown only if all
    /// their rows are visible.
    fn shown(&mut self, line: &[u8]) -> Result<Shown, ObjectFilterError> {
        let event: Event<'_> = serde_json::from_slice(line)?;
        if matches!(event.r#type.as_ref(), "BOOKMARK" | "ERROR") {
            return Ok(Shown::Same);
        }
        let all = serde_json::from_str::<Object<'_>>(event.object.get())?.all();
        let is_visible = !all.is_empty() && all.iter().all(&self.is_visible);
        let Some(known) = &mut self.known else {
            return Ok(if is_visible { Shown::Same } else { Shown::Nothing });
        };
        let mut names = all.into_iter().map(|metadata| metadata.name.into_owned());
        Ok(match event.r#type.as_ref() {
            "DELETED" => {
                let mut was_known = false;
                for name in names {
                    was_known |= known.remove(&name);
                }
                if was_known { Shown::Same } else { Shown::Nothing }
            }
            _ if !is_visible => {
                if names.any(|name| known.contains(&name)) {
                    Shown::End
                } else {
                    Shown::Nothing
                }
            }
            _ => {
                let mut is_new = false;
                for name in names {
                    is_new |= known.insert(name);
                }
                if is_new && event.r#type == "MODIFIED" {
                    Shown::As(added(event.object))
                } else {
                    Shown::Same
                }
            }
        })
    }
}

/// Returns the event of an object that has become visible.
fn added(object: &RawValue) -> Vec<u8> {
    format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object.get()).into_bytes()
}

impl<V: Fn(&Metadata<'_>) -> bool + Unpin> HttpBody for VisibleEvents<V> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
            let visible = match ready!(Pin::new(body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => Err(ObjectFilterError::Broken(error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.add(&bytes),
                    Err(_) => continue,
                },
            };
            match visible {
                Ok((visible, is_end)) => {
                    if is_end {
                        self.body = None;
                    }
                    if !visible.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(visible.into()))));
                    }
                }
                Err(error) => {
                    self.body = None;
                    return Poll::Ready(Some(Err(axum::Error::new(error))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    use super::*;

    fn is_oil(metadata: &Metadata<'_>) -> bool {
        metadata.name == "oil"
    }

    fn filtered(value: &Value) -> Value {
        serde_json::from_slice(&list(value.to_string().as_bytes(), is_oil).unwrap()).unwrap()
    }

    #[test]
    fn list_has_the_visible_objects() {
        let object = |name: &str| json!({"metadata": {"name": name}, "spec": {"a": [1, null]}});
        let all = json!({
            "apiVersion": "v1", "kind": "TenantList",
            "metadata": {"resourceVersion": "7", "continue": "Z2Fz", "remainingItemCount": 3},
            "items": [object("gas"), object("oil"), object("oil2")],
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "TenantList",
            "metadata": {"resourceVersion": "7"}, "items": [object("oil")],
        });
        assert_eq!(filtered(&all), expected);
    }

    #[test]
    fn table_has_the_visible_rows() {
        let row = |name: &str| json!({"cells": [name, 1], "object": {"metadata": {"name": name}}});
        let table = |rows: &[Value]| {
            json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"},
                "columnDefinitions": [{"name": "Name"}], "rows": rows,
            })
        };
        assert_eq!(filtered(&table(&[row("gas"), row("oil")])), table(&[row("oil")]));
        assert_eq!(filtered(&table(&[row("gas")])), table(&[]));
    }

    #[test]
    fn what_has_no_name_is_an_error_and_never_shown() {
        for value in [
            json!([]),
            json!({"items": [{"spec": {}}]}),
            json!({"items": [7]}),
            json!({"rows": [{"cells": ["gas"]}]}),
            json!({"rows": [{"cells": ["gas"], "object": null}]}),
            json!({"items": "gas"}),
        ] {
            assert!(list(value.to_string().as_bytes(), |_| true).is_err(), "{value}");
        }
        assert!(list(b"{", is_oil).is_err());
        let many = json!({"items": vec![json!({"metadata": {"name": "oil"}}); MAX_ITEMS + 1]});
        assert!(matches!(list(many.to_string().as_bytes(), is_oil), Err(ObjectFilterError::TooMany(_))));
    }

    async fn watched(frames: &[&str]) -> Result<String, axum::Error> {
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| Ok::<_, std::convert::Infallible>(Bytes::from((*frame).to_owned())))
            .collect();
        let body = Body::from_stream(futures::stream::iter(frames));
        let all = VisibleEvents::new(body, is_oil, None).collect().await?.to_bytes();
        Ok(String::from_utf8(all.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn watch_has_the_visible_events_as_they_came() {
        let oil = "{\"type\": \"ADDED\",\"object\":{\"metadata\":{\"name\":\"oil\"}} }\n";
        let gas = oil.replace("oil", "gas");
        let row = "{\"type\":\"MODIFIED\",\"object\":{\"rows\":[{\"object\":{\"metadata\":{\"name\":\"oil\"}}}]}}\n";
        let other_row = row.replace("oil", "gas");
        let both = row.replace("[{", "[{\"object\":{\"metadata\":{\"name\":\"gas\"}}},{");
        let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
        let all = [gas.as_str(), oil, &other_row, &both, row, bookmark].concat();
        let expected = [oil, row, bookmark].concat();
        assert_eq!(watched(&[&all]).await.unwrap(), expected);
        for cut in 1..all.len() {
            assert_eq!(watched(&[&all[..cut], &all[cut..]]).await.unwrap(), expected, "{cut}");
        }
    }

    #[tokio::test]
    async fn event_that_cannot_be_read_ends_the_watch() {
        assert!(watched(&["{\"type\":\"ADDED\"}\n"]).await.is_err());
        assert!(watched(&["gas\n"]).await.is_err());
        let long = "x".repeat(MAX_EVENT_BYTES + 1);
        assert!(watched(&[&long]).await.is_err());
    }

    /// Returns the events of a watch of fast objects, whose user knows the object `old`.
    async fn fast(events: &[(&str, &str, &str)]) -> Vec<(String, String)> {
        let events = events.iter().map(|(event, name, tier)| {
            let object = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
            Ok::<_, std::convert::Infallible>(Bytes::from(format!(
                "{}\n",
                json!({"type": event, "object": object})
            )))
        });
        let body = Body::from_stream(futures::stream::iter(events.collect::<Vec<_>>()));
        let is_fast =
            |metadata: &Metadata<'_>| metadata.labels.get("tier").is_some_and(|tier| tier == "fast");
        let known = HashSet::from(["old".to_owned()]);
        let all = VisibleEvents::new(body, is_fast, Some(known)).collect().await.unwrap().to_bytes();
        let lines = all.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let event: Value = serde_json::from_slice(line).unwrap();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
            })
            .collect()
    }

    #[tokio::test]
    async fn object_becomes_visible_by_its_labels_and_its_end_is_told() {
        let seen = fast(&[
            ("ADDED", "new", "slow"),
            ("MODIFIED", "new", "slow"),
            ("DELETED", "other", "fast"),
            ("MODIFIED", "new", "fast"),
            ("MODIFIED", "new", "fast"),
            ("DELETED", "new", "fast"),
            ("DELETED", "new", "fast"),
            ("DELETED", "old", "slow"),
        ])
        .await;
        let expected = [("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new"), ("DELETED", "old")];
        assert_eq!(seen, expected.map(|(event, name)| (event.to_owned(), name.to_owned())));
    }

    #[tokio::test]
    async fn watch_ends_when_a_known_object_stops_to_be_visible() {
        let seen =
            fast(&[("ADDED", "new", "fast"), ("MODIFIED", "old", "slow"), ("ADDED", "late", "fast")]).await;
        let expected = [("ADDED", "new"), ("ERROR", "")];
        assert_eq!(seen, expected.map(|(event, name)| (event.to_owned(), name.to_owned())));
    }

    #[test]
    fn object_and_names_are_read() {
        let object_of = |value: Value| object(value.to_string().as_bytes(), is_oil);
        assert!(object_of(json!({"metadata": {"name": "oil"}})).unwrap());
        assert!(object_of(json!({"rows": [{"object": {"metadata": {"name": "oil"}}}]})).unwrap());
        for value in
            [json!({"metadata": {"name": "gas"}}), json!({"rows": null}), json!({"rows": []}), json!({})]
        {
            assert!(!object_of(value.clone()).unwrap(), "{value}");
        }
        assert!(object(b"[", is_oil).is_err());
        let list = json!({"items": [{"metadata": {"name": "oil"}}, {"metadata": {"name": "gas"}}]});
        assert_eq!(names(list.to_string().as_bytes(), is_oil).unwrap(), HashSet::from(["oil".to_owned()]));
        assert!(names(b"{\"items\":null}", is_oil).unwrap().is_empty());
    }
}

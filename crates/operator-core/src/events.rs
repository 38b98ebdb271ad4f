//! Events (`events.k8s.io/v1`) about objects.

use std::collections::VecDeque;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;
use tracing::debug;

/// Longest note that the API server accepts, in bytes.
const MAX_NOTE_BYTES: usize = 1024;
/// Number of Events that can wait to be sent.
const MAX_PENDING: usize = 256;
/// Number of warnings whose notes are kept to count repetitions.
const MAX_WARNINGS: usize = 256;

/// Publishes Events in the background and in order. Cheap to clone.
///
/// Corresponds to client-go's `EventRecorder`.
///
/// Publishing is best effort. Events are dropped if too many are pending, and never block or fail a
/// reconcile. Repeated warnings with the same note are counted in one Event; another note is
/// another Event. Normal Events are combined if reason, action, and related object are equal.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<(Event, ObjectReference)>,
}

impl Events {
    /// Returns the publisher of a controller. Must be called within a Tokio runtime. The background
    /// task ends with the last clone.
    pub fn new(client: Client, controller: &str, instance: &str) -> Self {
        let (sender, mut pending) = mpsc::channel(MAX_PENDING);
        let reporter =
            Reporter { controller: format!("ensemble/{controller}"), instance: Some(instance.to_owned()) };
        tokio::spawn(async move {
            let mut recorders = Recorders::new(client, reporter);
            while let Some((event, about)) = pending.recv().await {
                if let Err(error) = recorders.of(&event).publish(&event, &about).await {
                    debug!(%error, reason = %event.reason, "cannot publish an Event");
                }
            }
        });
        Self { sender }
    }

    /// Publishes an Event of type `Normal`.
    pub fn normal(&self, about: ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Normal, about, None, reason, action, note);
    }

    /// Publishes an Event of type `Normal` with a related object, such as a child.
    pub fn normal_with_related(
        &self,
        about: ObjectReference,
        related: ObjectReference,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.publish(EventType::Normal, about, Some(related), reason, action, note);
    }

    /// Publishes an Event of type `Warning`.
    pub fn warning(&self, about: ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Warning, about, None, reason, action, note);
    }

    /// Publishes an Event of type `Warning` with a related object.
    pub fn warning_with_related(
        &self,
        about: ObjectReference,
        related: ObjectReference,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.publish(EventType::Warning, about, Some(related), reason, action, note);
    }

    fn publish(
        &self,
        type_: EventType,
        about: ObjectReference,
        secondary: Option<ObjectReference>,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(shorten(note).to_owned()),
            action: action.to_owned(),
            secondary,
        };
        if self.sender.try_send((event, about)).is_err() {
            debug!(reason, "dropped an Event because too many are pending");
        }
    }
}

/// kube's recorder combines Events with different notes, so each warning note gets its own
/// recorder.
struct Recorders {
    client: Client,
    reporter: Reporter,
    normal: Recorder,
    warnings: VecDeque<(Option<String>, Recorder)>,
}

impl Recorders {
    fn new(client: Client, reporter: Reporter) -> Self {
        let normal = Recorder::new(client.clone(), reporter.clone());
        Self { client, reporter, normal, warnings: VecDeque::new() }
    }

    fn of(&mut self, event: &Event) -> Recorder {
        if event.type_ == EventType::Normal {
            return self.normal.clone();
        }
        if let Some((_, recorder)) = self.warnings.iter().find(|(note, _)| *note == event.note) {
            return recorder.clone();
        }
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        self.warnings.truncate(MAX_WARNINGS - 1);
        self.warnings.push_front((event.note.clone(), recorder.clone()));
        recorder
    }
}

/// Truncates a note to the length that the API server accepts.
fn shorten(note: &str) -> &str {
    note.get(..note.floor_char_boundary(MAX_NOTE_BYTES)).unwrap_or(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_long_notes_between_characters() {
        let note = "ä".repeat(MAX_NOTE_BYTES);
        assert_eq!(shorten(&note).len(), MAX_NOTE_BYTES);
        let odd = format!("x{note}");
        assert_eq!(shorten(&odd).len(), MAX_NOTE_BYTES - 1);
    }
}

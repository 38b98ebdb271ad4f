//! Events (`events.k8s.io/v1`): what happened to an object and why, for people.

use std::collections::VecDeque;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;
use tracing::debug;

/// The longest note that the API server takes, in bytes.
const LONGEST_NOTE: usize = 1024;
/// How many Events may wait to be sent.
const WAITING: usize = 256;
/// How many warnings are remembered by their words.
const REMEMBERED: usize = 256;

/// Publishes Events about objects, in the background and in order. Cheap to clone.
///
/// Best effort, as Events are: they may be dropped when the API server is slow, and never hold up or fail a
/// reconcile. A warning in the same words becomes the same Event with a count, and one in other words is another:
/// another cause has to be seen. Of what goes well, Events with the same reason, action and related object are one.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<(Event, ObjectReference)>,
}

impl Events {
    /// Events of a controller. Ends with the last clone; must be called within a Tokio runtime.
    pub fn new(client: Client, controller: &str, instance: &str) -> Self {
        let (sender, mut waiting) = mpsc::channel(WAITING);
        let reporter =
            Reporter { controller: format!("ensemble/{controller}"), instance: Some(instance.to_owned()) };
        tokio::spawn(async move {
            let mut recorders = Recorders::new(client, reporter);
            while let Some((event, about)) = waiting.recv().await {
                if let Err(error) = recorders.of(&event).publish(&event, &about).await {
                    debug!(%error, reason = %event.reason, "an Event could not be published");
                }
            }
        });
        Self { sender }
    }

    /// Tells of something that went as it should.
    pub fn normal(&self, about: ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Normal, about, None, reason, action, note);
    }

    /// As [`Events::normal`], of something that was done to another object, a child for example.
    pub fn normal_to(
        &self,
        about: ObjectReference,
        related: ObjectReference,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.publish(EventType::Normal, about, Some(related), reason, action, note);
    }

    /// Tells of something that a person may want to look into.
    pub fn warning(&self, about: ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Warning, about, None, reason, action, note);
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
            debug!(reason, "too many Events are waiting, so this one was dropped");
        }
    }
}

/// kube's recorder counts Events as the same whose words differ, so warnings in other words go to another one.
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
        self.warnings.truncate(REMEMBERED - 1);
        self.warnings.push_front((event.note.clone(), recorder.clone()));
        recorder
    }
}

/// The longest beginning of the note that the API server takes.
fn shorten(note: &str) -> &str {
    note.get(..note.floor_char_boundary(LONGEST_NOTE)).unwrap_or(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let note = "ä".repeat(LONGEST_NOTE);
        assert_eq!(shorten(&note).len(), LONGEST_NOTE);
        let odd = format!("x{note}");
        assert_eq!(shorten(&odd).len(), LONGEST_NOTE - 1);
    }
}

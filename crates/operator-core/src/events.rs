//! Events (`events.k8s.io/v1`): what happened to an object and why, for people.

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

/// Publishes Events about objects, in the background and in order. Cheap to clone.
///
/// Best effort, as Events are: they may be dropped when the API server is slow, and never hold up or fail a
/// reconcile. Equal Events become one with a count.
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
            let recorder = Recorder::new(client, reporter);
            while let Some((event, about)) = waiting.recv().await {
                if let Err(error) = recorder.publish(&event, &about).await {
                    debug!(%error, reason = %event.reason, "an Event could not be published");
                }
            }
        });
        Self { sender }
    }

    /// Tells of something that went as it should.
    pub fn normal(&self, about: ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Normal, about, reason, action, note);
    }

    /// Tells of something that a person may want to look into.
    pub fn warning(&self, about: ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Warning, about, reason, action, note);
    }

    fn publish(&self, type_: EventType, about: ObjectReference, reason: &str, action: &str, note: &str) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(shorten(note).to_owned()),
            action: action.to_owned(),
            secondary: None,
        };
        if self.sender.try_send((event, about)).is_err() {
            debug!(reason, "too many Events are waiting, so this one was dropped");
        }
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

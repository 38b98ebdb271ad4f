//! `wait`: follows one object until it is as asked.

use std::{fmt, pin::pin, str::FromStr};

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::{
    ResourceExt,
    api::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};
use operator_core::{conditions::find, error::status};

use crate::{
    connect::Cluster,
    flags::Wait,
    kinds,
    object::{conditions, deleted, speaks_of_the_present},
    output::{BAD, Ending, GOOD, complain, paint, say},
};

/// What an object is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Gone.
    Deleted,
    /// A condition has a status.
    Condition {
        /// The type.
        type_: String,
        /// The status.
        status: String,
    },
}

impl FromStr for Goal {
    type Err = String;

    /// `deleted`, `Ready`, `Progressing=False`; what kubectl takes as well, `delete` and `condition=Ready`.
    fn from_str(text: &str) -> Result<Self, String> {
        if ["deleted", "delete"].contains(&text) {
            return Ok(Self::Deleted);
        }
        let text = text.strip_prefix("condition=").unwrap_or(text);
        let (type_, status) = text.split_once('=').unwrap_or((text, "True"));
        let is_word =
            |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric());
        if !is_word(type_) || !is_word(status) {
            return Err("use a condition such as Ready, CONDITION=STATUS, or deleted".to_owned());
        }
        Ok(Self::Condition { type_: type_.to_owned(), status: status.to_owned() })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => f.write_str("deleted"),
            Self::Condition { type_, status } if status == "True" => f.write_str(type_),
            Self::Condition { type_, status } => write!(f, "{type_}={status}"),
        }
    }
}

impl Goal {
    /// Whether the object, or that there is none, is what is waited for; if not, why.
    fn judge(&self, object: Option<&DynamicObject>) -> Result<(), String> {
        match (self, object) {
            (Self::Deleted, None) => Ok(()),
            (Self::Deleted, Some(object)) => Err(remains(object)),
            (Self::Condition { .. }, None) => Err("there is no such object".to_owned()),
            (Self::Condition { type_, status }, Some(object)) => is_so(object, type_, status),
        }
    }
}

fn remains(object: &DynamicObject) -> String {
    if deleted(object).is_none() {
        return "nobody has asked for its deletion".to_owned();
    }
    let ready = conditions(object).into_iter().find(|condition| condition.type_ == "Ready");
    let said =
        ready.map(|ready| format!("; Ready says {}: {}", ready.reason, ready.message)).unwrap_or_default();
    match object.finalizers() {
        [] => format!("it is about to go{said}"),
        finalizers => format!("it is held by {}{said}", finalizers.join(", ")),
    }
}

fn is_so(object: &DynamicObject, type_: &str, wanted: &str) -> Result<(), String> {
    let all = conditions(object);
    let Some(condition) = find(&all, type_) else {
        let known: Vec<_> = all.iter().map(|condition| condition.type_.as_str()).collect();
        return Err(if known.is_empty() {
            "it has no conditions yet: no controller has looked at it".to_owned()
        } else {
            format!("it has no condition {type_}, but {}", known.join(", "))
        });
    };
    if !speaks_of_the_present(object, condition) {
        return Err("the controller has not looked at the present spec yet".to_owned());
    }
    if condition.status.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(format!("{type_} is {}: {}: {}", condition.status, condition.reason, condition.message))
}

/// Waits.
pub(crate) async fn run(cluster: &Cluster, flags: &Wait) -> Result<Ending> {
    let (kind, name) = kinds::find_object(&flags.object.kind, flags.object.name.as_deref())?;
    let namespace = cluster.namespace();
    let what = kind.describe(namespace, &name);
    let api = kind.api(&cluster.client, Some(namespace));
    let mut last = "the API server has not said how it is".to_owned();
    let mut since = String::new();
    let follow = async {
        let mut states = pin!(watcher::watch_object(api, &name).default_backoff());
        while let Some(state) = states.next().await {
            match state.map(|object| flags.what.judge(object.as_ref())) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(why)) => (last, since) = (why, String::new()),
                Err(error) => match refusal(error) {
                    Ok(passing) => since = format!("; since then: {passing}"),
                    Err(error) => return Err(error.context(format!("cannot watch {what}"))),
                },
            }
        }
        bail!("the watch of {what} has ended")
    };
    match tokio::time::timeout(flags.timeout, follow).await {
        Ok(Ok(())) => {
            say(&format!("{what} is {}\n", paint(GOOD, &flags.what.to_string())))?;
            Ok(Ending::Fine)
        }
        Ok(Err(error)) => {
            // A definition that is missing is said as such.
            kinds::list_all(cluster, std::slice::from_ref(&kind), Some(namespace)).await?;
            Err(error)
        }
        Err(_) => {
            let not = paint(BAD, "not");
            complain(&format!("{what} is {not} {} after {:?}: {last}{since}\n", flags.what, flags.timeout));
            Ok(Ending::Wrong)
        }
    }
}

/// An error of a watch: fatal if the API server refuses, else words for who waits longer.
fn refusal(error: watcher::Error) -> Result<String> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)
            if status(&error).is_some_and(|status| [401, 403, 404].contains(&status.code)) =>
        {
            Err(anyhow::Error::new(error))
        }
        other => Ok(operator_core::error::chain(&other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::object;

    fn goal(text: &str) -> Goal {
        text.parse().unwrap()
    }

    fn with(conditions: Value) -> DynamicObject {
        object(
            json!({ "metadata": { "name": "a", "generation": 2 }, "status": { "conditions": conditions } }),
        )
    }

    fn ready(status: &str, seen: i64) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "Counted", "message": "2 of 3", "observedGeneration": seen,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    }

    #[test]
    fn goals_are_those_of_kubectl_and_shorter() {
        assert_eq!(goal("deleted"), Goal::Deleted);
        assert_eq!(goal("Ready"), goal("condition=Ready=True"));
        assert_eq!(goal("Progressing=False").to_string(), "Progressing=False");
        assert_eq!(goal("Ready").to_string(), "Ready");
        for bad in ["", "=True", "Ready=", "jsonpath={.status}"] {
            assert!(bad.parse::<Goal>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_counts_if_it_speaks_of_the_present_spec() {
        let judged = |text: &str, conditions: Value| goal(text).judge(Some(&with(conditions)));
        assert_eq!(judged("Ready", ready("True", 2)), Ok(()));
        assert_eq!(judged("Ready=false", ready("False", 2)), Ok(()));
        assert!(judged("Ready", ready("True", 1)).unwrap_err().contains("present spec"));
        assert_eq!(judged("Ready", ready("False", 2)), Err("Ready is False: Counted: 2 of 3".to_owned()));
        assert_eq!(judged("Redy", ready("True", 2)), Err("it has no condition Redy, but Ready".to_owned()));
        assert!(judged("Ready", json!([])).unwrap_err().contains("no controller has looked"));
        assert!(goal("Ready").judge(None).is_err());
    }

    #[test]
    fn what_holds_an_object_back_is_said() {
        let there = goal("deleted").judge(Some(&with(ready("True", 2)))).unwrap_err();
        assert_eq!(there, "nobody has asked for its deletion");
        let mut going = with(ready("False", 2));
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        going.metadata.finalizers = Some(vec!["x/y".to_owned()]);
        let held = goal("deleted").judge(Some(&going)).unwrap_err();
        assert_eq!(held, "it is held by x/y; Ready says Counted: 2 of 3");
        assert_eq!(goal("deleted").judge(None), Ok(()));
    }
}

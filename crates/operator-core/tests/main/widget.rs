//! A kind of the tests' own, and a controller that behaves as each object asks.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use kube::{CustomResource, KubeSchema, ResourceExt};
use operator_core::{
    Controller, ControllerBuilder, Outcome, ReconcileError,
    rbac::{CREATE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    write::WriteError,
};
use serde::{Deserialize, Serialize};

#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "core.example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
pub(crate) struct WidgetSpec {
    pub(crate) behave: Behave,
    /// The schema has it, the type below reads it as a number only: an object that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub(crate) number: Option<i64>,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WidgetStatus {
    #[serde(default)]
    pub(crate) count: i64,
}

#[derive(schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Behave {
    Well,
    Panic,
    Hang,
    Fail,
    FailForGood,
    CountFast,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("it was asked to fail")]
    RequestInfo,
    #[error("it was asked to fail for good")]
    ForGood,
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        "RequestInfo"
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::ForGood)
    }
}

pub(crate) struct WidgetController {
    status: StatusWriter<Widget>,
}

static VISITS: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);

/// How often an object was reconciled.
pub(crate) fn visits(widget: &Widget) -> usize {
    VISITS.lock().unwrap().get(&widget.uid().unwrap()).copied().unwrap_or_default()
}

pub(crate) const FINALIZER: &str = "core.example.com/widget";
/// The name of the widget that must always be there, in the namespace `default`.
pub(crate) const ALWAYS: &str = "always";

impl Controller for WidgetController {
    const NAME: &'static str = "widget";
    const FINALIZER: Option<&'static str> = Some(FINALIZER);
    type Object = Widget;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        vec![
            rule::<Widget>(GET | LIST | WATCH | CREATE | PATCH),
            rule::<Widget>(UPDATE).subresource("status"),
        ]
    }

    fn default_objects() -> Vec<Widget> {
        let mut always = Widget::new(ALWAYS, WidgetSpec { behave: Behave::Well, number: None });
        always.metadata.namespace = Some("default".to_owned());
        vec![always]
    }

    fn build(builder: &mut ControllerBuilder<'_, Widget>) -> Self {
        Self { status: builder.status() }
    }

    async fn reconcile(&self, widget: Arc<Widget>) -> Result<Outcome, Error> {
        *VISITS.lock().unwrap().entry(widget.uid().unwrap()).or_default() += 1;
        match widget.spec.behave {
            Behave::Well => self.count(&widget, 1).await,
            Behave::Panic => panic!("it was asked to panic"),
            Behave::Hang => std::future::pending().await,
            Behave::Fail => Err(Error::RequestInfo),
            Behave::FailForGood => Err(Error::ForGood),
            Behave::CountFast => {
                let next = widget.status.as_ref().map_or(0, |status| status.count) + 1;
                let told = self.count(&widget, next.min(5)).await?;
                Ok(if next < 5 { told.and(Outcome::RequeueAfter(Duration::from_millis(1))) } else { told })
            }
        }
    }
}

impl WidgetController {
    async fn count(&self, widget: &Widget, count: i64) -> Result<Outcome, Error> {
        Ok(self.status.write(widget, |_| WidgetStatus { count }).await?)
    }
}

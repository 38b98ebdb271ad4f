//! A kind for the tests and a controller whose behavior each object selects.

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
    pub(crate) behavior: Behavior,
    /// The schema allows any value, but the type only numbers. Other values cannot be decoded.
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
pub(crate) enum Behavior {
    Well,
    Panic,
    Hang,
    Fail,
    FailTerminally,
    CountFast,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the object requests a failure")]
    Requested,
    #[error("the object requests a terminal failure")]
    Terminal,
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        "Requested"
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal)
    }
}

pub(crate) struct WidgetController {
    status: StatusWriter<Widget>,
}

static RECONCILES: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);

/// Returns the number of reconciles of an object.
pub(crate) fn reconciles(widget: &Widget) -> usize {
    RECONCILES.lock().unwrap().get(&widget.uid().unwrap()).copied().unwrap_or_default()
}

pub(crate) const FINALIZER: &str = "core.example.com/widget";
/// Name of the default object in the namespace `default`.
pub(crate) const DEFAULT: &str = "always";

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
        let mut widget = Widget::new(DEFAULT, WidgetSpec { behavior: Behavior::Well, number: None });
        widget.metadata.namespace = Some("default".to_owned());
        vec![widget]
    }

    fn build(builder: &mut ControllerBuilder<'_, Widget>) -> Self {
        Self { status: builder.status() }
    }

    async fn reconcile(&self, widget: Arc<Widget>) -> Result<Outcome, Error> {
        *RECONCILES.lock().unwrap().entry(widget.uid().unwrap()).or_default() += 1;
        match widget.spec.behavior {
            Behavior::Well => self.count(&widget, 1).await,
            Behavior::Panic => panic!("the object requests a panic"),
            Behavior::Hang => std::future::pending().await,
            Behavior::Fail => Err(Error::Requested),
            Behavior::FailTerminally => Err(Error::Terminal),
            Behavior::CountFast => {
                let next = widget.status.as_ref().map_or(0, |status| status.count) + 1;
                let outcome = self.count(&widget, next.min(5)).await?;
                let requeue = Outcome::RequeueAfter(Duration::from_millis(1));
                Ok(if next < 5 { outcome.and(requeue) } else { outcome })
            }
        }
    }
}

impl WidgetController {
    async fn count(&self, widget: &Widget, count: i64) -> Result<Outcome, Error> {
        Ok(self.status.write(widget, |_| WidgetStatus { count }).await?)
    }
}

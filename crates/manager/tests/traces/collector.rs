//! A collector that keeps what it receives.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;

type Kept = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// A collector that runs until its test ends.
pub(crate) struct Collector {
    address: SocketAddr,
    kept: Kept,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let kept = Kept::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/v1/traces", post(receive)).with_state(kept.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, kept }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn sent(&self) -> Sent {
        Sent { requests: self.kept.lock().unwrap().clone() }
    }
}

async fn receive(State(kept): State<Kept>, body: Bytes) {
    kept.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
}

/// What a collector has received.
#[derive(Debug)]
pub(crate) struct Sent {
    requests: Vec<ExportTraceServiceRequest>,
}

impl Sent {
    /// The values of an attribute of whoever sent.
    pub(crate) fn resource(&self, key: &str) -> Vec<String> {
        let resources = self.requests.iter().flat_map(|request| &request.resource_spans);
        let mut values: Vec<_> =
            resources.filter_map(|spans| value(&spans.resource.as_ref()?.attributes, key)).collect();
        values.dedup();
        values
    }

    /// The spans of a name that have these attributes.
    pub(crate) fn spans(&self, name: &str, attributes: &[(&str, &str)]) -> Vec<&Span> {
        let has =
            |span: &Span, (key, value): &(&str, &str)| Self::attribute(span, key).as_deref() == Some(value);
        self.all().filter(|span| span.name == name && attributes.iter().all(|one| has(span, one))).collect()
    }

    /// The span that a span is a part of.
    pub(crate) fn parent(&self, of: &Span) -> Option<&Span> {
        self.all().find(|span| span.span_id == of.parent_span_id)
    }

    /// The text of an attribute.
    pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
        value(&span.attributes, key)
    }

    fn all(&self) -> impl Iterator<Item = &Span> {
        let resources = self.requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans)
    }
}

fn value(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

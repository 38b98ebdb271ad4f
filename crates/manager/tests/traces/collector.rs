//! OTLP collector that records the requests it receives.

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

type Requests = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// Collector that runs until its test ends.
pub(crate) struct Collector {
    address: SocketAddr,
    requests: Requests,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let requests = Requests::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/v1/traces", post(receive)).with_state(requests.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, requests }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the traces received so far.
    pub(crate) fn traces(&self) -> Traces {
        Traces { requests: self.requests.lock().unwrap().clone() }
    }
}

async fn receive(State(requests): State<Requests>, body: Bytes) {
    requests.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
}

/// Traces that a collector has received.
#[derive(Debug)]
pub(crate) struct Traces {
    requests: Vec<ExportTraceServiceRequest>,
}

impl Traces {
    /// Returns the values of a resource attribute.
    pub(crate) fn resource(&self, key: &str) -> Vec<String> {
        let resources = self.requests.iter().flat_map(|request| &request.resource_spans);
        let mut values: Vec<_> =
            resources.filter_map(|spans| value(&spans.resource.as_ref()?.attributes, key)).collect();
        values.dedup();
        values
    }

    /// Returns the spans with this name and these attributes.
    pub(crate) fn spans(&self, name: &str, attributes: &[(&str, &str)]) -> Vec<&Span> {
        let has =
            |span: &Span, (key, value): &(&str, &str)| Self::attribute(span, key).as_deref() == Some(value);
        self.all().filter(|span| span.name == name && attributes.iter().all(|one| has(span, one))).collect()
    }

    /// Returns the parent of a span.
    pub(crate) fn parent(&self, child: &Span) -> Option<&Span> {
        self.all().find(|span| span.span_id == child.parent_span_id)
    }

    /// Returns the value of an attribute as text.
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

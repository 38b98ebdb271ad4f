//! Reviews that maximize the memory and time of a webhook server.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use cluster::real_nodes::NodeNetwork;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request,
    body::Bytes,
    client::conn::http2::{SendRequest, handshake},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Map, Value, json};
use tokio::{net::TcpStream, sync::mpsc, task::JoinSet};
use tokio_rustls::TlsConnector;

const MIB: usize = 1024 * 1024;

/// A hostile request body. It is generated on demand because it can be large.
pub struct HostileReview {
    /// What makes the body hostile.
    pub name: &'static str,
    make: Box<dyn FnOnce() -> String + Send>,
}

impl HostileReview {
    fn new(name: &'static str, make: impl FnOnce() -> String + Send + 'static) -> Self {
        Self { name, make: Box::new(make) }
    }

    /// Generates the body.
    pub fn body(self) -> String {
        (self.make)()
    }
}

/// Fields of a review that can contain a hostile value.
const FIELDS: [&str; 9] =
    ["metadata", "spec", "labels", "ownerReferences", "managedFields", "extra", "groups", "username", "name"];
/// Fields of a Tenant that can contain a hostile value.
const TENANT_FIELDS: [&str; 4] = ["owners", "additionalRoleBindings", "networkPolicies", "nodeSelector"];

/// Returns hostile admission reviews of about the given sizes: every shape in every field. They are
/// generated one by one because they are large.
pub fn admission(
    webhook: WebhookRule,
    sizes: &'static [usize],
) -> impl Iterator<Item = HostileReview> + Send + 'static {
    let all = sizes.iter().flat_map(|size| {
        FIELDS
            .iter()
            .flat_map(move |field| SHAPES.iter().map(move |(name, shape)| (*size, *field, *name, *shape)))
    });
    all.map(move |(size, field, name, shape)| {
        // Fields of the object occur in both the old and the new object.
        let size = if matches!(field, "extra" | "groups" | "username" | "name") { size } else { size / 2 };
        let webhook = webhook.clone();
        HostileReview::new(name, move || webhook.review(field, &shape(size)))
    })
}

/// Returns hostile conversion reviews of Tenants of about the given sizes.
pub fn conversion(sizes: &'static [usize]) -> impl Iterator<Item = HostileReview> + Send + 'static {
    let lists = sizes.iter().flat_map(|size| {
        SHAPES.iter().map(move |(name, shape)| HostileReview::new(name, move || converted(&shape(*size))))
    });
    let tenants = sizes.iter().flat_map(|size| {
        TENANTS.iter().map(move |(name, tenant)| {
            HostileReview::new(name, move || {
                let tenant = tenant();
                let count = (size / tenant.len()).max(1);
                converted(&format!("[{}]", vec![tenant.as_str(); count].join(",")))
            })
        })
    });
    let fields = sizes.iter().flat_map(|size| {
        SHAPES.iter().flat_map(move |(name, shape)| {
            TENANT_FIELDS.iter().map(move |field| {
                HostileReview::new(name, move || {
                    let owners = if *field == "owners" { "" } else { r#""owners":[],"# };
                    let value = shape((*size).min(2 * MIB - 8 * 1024));
                    let spec = format!(r#"{{{owners}"{field}":{value}}}"#);
                    converted(&format!("[{}]", tenant("v1beta1", "{}", &spec)))
                })
            })
        })
    });
    let envelopes = sizes.iter().flat_map(|size| {
        SHAPES.iter().flat_map(move |(name, shape)| {
            ENVELOPES.iter().map(move |envelope| {
                HostileReview::new(name, move || {
                    envelope.replace(&format!("\"{PLACEHOLDER}\""), &shape(*size))
                })
            })
        })
    });
    lists.chain(tenants).chain(fields).chain(envelopes)
}

/// Conversion reviews with a hostile value outside their objects.
const ENVELOPES: [&str; 4] = [
    r#""(hostile value)""#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"(hostile value)"}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":"(hostile value)"}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"(hostile value)","desiredAPIVersion":"capsule.clastix.io/v1beta2","objects":[]}}"#,
];

/// Path of a webhook and a rule that it is registered with.
#[derive(Clone, Debug)]
pub struct WebhookRule {
    /// Path of the webhook.
    pub path: String,
    group: String,
    version: String,
    resource: String,
    subresource: Option<String>,
    kind: String,
}

impl WebhookRule {
    /// Returns the path and rule of each webhook in a configuration. Uses the first rule of a
    /// webhook that matches a supported kind.
    pub fn from_configuration(configuration: &Value) -> Vec<Self> {
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
        webhooks.filter_map(Self::from_webhook).collect()
    }

    fn from_webhook(webhook: &Value) -> Option<Self> {
        let client = webhook.get("clientConfig")?;
        let path = client.pointer("/service/path").and_then(Value::as_str).map(str::to_owned);
        let path =
            path.or_else(|| Some(format!("/{}", client.get("url")?.as_str()?.splitn(4, '/').nth(3)?)))?;
        let known = |rule: &&Value| rule.pointer("/resources/0").and_then(resource).is_some();
        let rule = webhook.get("rules")?.as_array()?.iter().find(known)?;
        let text = |pointer: &str| Some(rule.pointer(pointer)?.as_str()?.to_owned());
        let (plural, subresource, kind) = resource(rule.pointer("/resources/0")?)?;
        let (group, version) = (text("/apiGroups/0")?, text("/apiVersions/0")?);
        let any = |value: &str| value == "*";
        Some(Self {
            path,
            group: if any(&group) { String::new() } else { group },
            version: if any(&version) { "v1".to_owned() } else { version },
            resource: plural.to_owned(),
            subresource: subresource.map(str::to_owned),
            kind: kind.to_owned(),
        })
    }

    /// Returns an ordinary review with `text` as the value of the field `field`.
    pub fn review(&self, field: &str, text: &str) -> String {
        let Self { group, version, resource, subresource, kind, .. } = self;
        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        let (mut metadata, mut object) = (Map::new(), Map::new());
        let (mut user, mut request) = (Map::new(), Map::new());
        metadata.insert("name".to_owned(), json!("oil"));
        object.extend(fields([("apiVersion", json!(api_version)), ("kind", json!(kind))]));
        user.extend(fields([("username", json!("mallory")), ("groups", json!(["capsule.clastix.io"]))]));
        request.extend(fields([
            ("uid", json!("1")),
            ("operation", json!("UPDATE")),
            ("name", json!("oil")),
            ("namespace", json!("oil")),
            ("kind", json!({ "group": group, "version": version, "kind": kind })),
            ("resource", json!({ "group": group, "version": version, "resource": resource })),
        ]));
        if let Some(subresource) = subresource {
            request.insert("subResource".to_owned(), json!(subresource));
        }
        let hostile = fields([(field, json!(PLACEHOLDER))]);
        match field {
            "labels" | "ownerReferences" | "managedFields" => metadata.extend(hostile),
            "metadata" | "spec" => object.extend(hostile),
            "name" => request.extend(hostile),
            _ => user.extend(hostile),
        }
        object.entry("metadata").or_insert_with(|| metadata.into());
        request.extend(fields([
            ("userInfo", user.into()),
            ("object", object.clone().into()),
            ("oldObject", object.into()),
        ]));
        let review =
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        review.to_string().replace(&format!("\"{PLACEHOLDER}\""), text)
    }
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

const PLACEHOLDER: &str = "(hostile value)";

/// Splits a rule's resource into plural, subresource, and kind. Returns `None` if the kind is not
/// supported.
fn resource(resource: &Value) -> Option<(&str, Option<&str>, &'static str)> {
    let resource = resource.as_str()?;
    let (plural, subresource) = resource
        .split_once('/')
        .map_or((resource, None), |(plural, subresource)| (plural, Some(subresource)));
    let kind = match plural {
        "tenants" => "Tenant",
        "namespaces" => "Namespace",
        "services" => "Service",
        "endpointslices" => "EndpointSlice",
        "ingresses" => "Ingress",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "resourcequotas" => "ResourceQuota",
        "pods" => "Pod",
        "rolebindings" => "RoleBinding",
        "serviceaccounts" => "ServiceAccount",
        "gateways" => "Gateway",
        "resourceclaims" => "ResourceClaim",
        "resourceclaimtemplates" => "ResourceClaimTemplate",
        "tenantresources" => "TenantResource",
        "globaltenantresources" => "GlobalTenantResource",
        // Any kind.
        "*" if subresource.is_none() => return Some(("configmaps", None, "ConfigMap")),
        _ => return None,
    };
    Some((plural, subresource, kind))
}

type Shape = fn(usize) -> String;
type Named<T> = (&'static str, T);

/// HostileReview JSON values of about a given size.
const SHAPES: [Named<Shape>; 22] = [
    ("objects with a member each", |size| list(size, r#"{"a":0}"#)),
    ("many keys with objects with a member", |size| keys(size, r#"{"":0}"#)),
    ("empty objects", |size| list(size, "{}")),
    ("zeros", |size| list(size, "0")),
    ("empty lists", |size| list(size, "[]")),
    ("empty strings", |size| list(size, "\"\"")),
    ("objects with a member", |size| list(size, r#"{"a":{}}"#)),
    ("objects with names", |size| list(size, r#"{"name":"a","kind":"b"}"#)),
    ("many keys with strings", |size| keys(size, "\"\"")),
    ("many keys with empty lists", |size| keys(size, "[]")),
    ("a long string", |size| format!("\"{}\"", "x".repeat(size))),
    ("a long key", |size| format!("{{\"{}\":\"\"}}", "x".repeat(size))),
    ("escapes", |size| format!("\"{}\"", "\\u0001".repeat(size / 6))),
    ("characters that are escaped when quoted", |size| format!("\"{}\"", "\u{7f}".repeat(size))),
    ("many escaped strings", |size| list(size, "\"\\u0001\\\"\"")),
    ("a long number", |size| format!("1{}", "0".repeat(size))),
    ("a long fraction", |size| format!("0.{}", "1".repeat(size))),
    ("a repeated key", |size| format!("{{{}\"a\":{{}}}}", "\"a\":{},".repeat(size / 7))),
    ("deep lists", |size| deep(size / 2)),
    ("lists of the maximal accepted depth", |size| list(size, &deep(90))),
    ("unterminated deep objects", |size| "{\"a\":".repeat(size / 5)),
    ("spaces", |size| format!("[{}]", " ".repeat(size))),
];

fn list(size: usize, item: &str) -> String {
    format!("[{}{item}]", format!("{item},").repeat((size / (item.len() + 1)).saturating_sub(2)))
}

fn keys(size: usize, value: &str) -> String {
    let fields: Vec<_> = (0..size / 12).map(|number| format!("\"{number:x}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn deep(depth: usize) -> String {
    format!("{}1{}", "[".repeat(depth), "]".repeat(depth))
}

/// Tenants with the most expensive conversions.
const TENANTS: [Named<fn() -> String>; 7] = [
    ("Tenants with JSON in an annotation", || {
        let preserved = r#"{\"a\":0},"#.repeat(100_000);
        let preserved = format!(r#"{{\"Items\":{{\"more\":[{preserved}0]}}}}"#);
        let metadata = format!(r#"{{"annotations":{{"conversion.ensemble/v1beta2":"{preserved}"}}}}"#);
        tenant("v1beta1", &metadata, r#"{"owners":[]}"#)
    }),
    ("small Tenants", || tenant("v1beta1", "{}", r#"{"owners":[]}"#)),
    ("Tenants of the desired version", || tenant("v1beta2", "{}", "{}")),
    ("Tenants with 1,000 owners", || tenant("v1beta1", "{}", &owners(1000))),
    ("Tenants with 60,000 owners", || tenant("v1beta1", "{}", &owners(60_000))),
    ("Tenants with 1,000 owners in annotations", || tenant("v1alpha1", &annotations(1000), OWNED)),
    ("Tenants with 100,000 owners in annotations", || tenant("v1alpha1", &annotations(100_000), OWNED)),
];

const OWNED: &str = r#"{"owner":{"kind":"User","name":"a"}}"#;

fn owners(count: usize) -> String {
    let owners: Vec<_> = (0..count).map(|number| format!(r#"{{"kind":"User","name":"{number}"}}"#)).collect();
    format!(r#"{{"owners":[{}]}}"#, owners.join(","))
}

fn annotations(count: usize) -> String {
    let names: Vec<_> = (0..count).map(|number| number.to_string()).collect();
    let names = names.join(",");
    let lists = ["capsule.clastix.io/enable-node-listing", "owners.capsule.clastix.io/user"];
    let lists = lists.map(|key| format!(r#""{key}":"{names}""#));
    format!(r#"{{"annotations":{{{}}}}}"#, lists.join(","))
}

fn tenant(version: &str, metadata: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"capsule.clastix.io/{version}","kind":"Tenant","metadata":{metadata},"spec":{spec}}}"#
    )
}

fn converted(objects: &str) -> String {
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"1","desiredAPIVersion":"capsule.clastix.io/v1beta2","objects":{objects}}}}}"#
    )
}

/// Address and certificate authority of a webhook server.
#[derive(Clone)]
pub struct WebhookServer {
    address: SocketAddr,
    /// Name or address in the certificate of the server.
    host: ServerName<'static>,
    authority: Vec<u8>,
    /// Network from which the server is reached, that of this process by default.
    network: Option<NodeNetwork>,
}

/// Sends requests over one HTTP/2 connection.
pub type Sender = SendRequest<Full<Bytes>>;

/// Result of an attack.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of responses by status. Closed connections count as 0.
    pub answers: BTreeMap<u16, usize>,
    /// Number of bytes sent.
    pub bytes: usize,
    /// Number of legitimate reviews that were answered during the attack.
    pub real: usize,
    /// Duration of the slowest legitimate review.
    pub slowest: Duration,
}

/// A path and a body to send to it.
pub type Body = (String, HostileReview);

/// Sends bodies over concurrent connections. Meanwhile, sends a legitimate review repeatedly.
///
/// # Errors
/// Returns an error if the server cannot be reached or does not answer a legitimate review.
pub async fn attack(
    target: &WebhookServer,
    connections: usize,
    bodies: impl Iterator<Item = Body> + Send + 'static,
    real: (&str, &str),
) -> Result<Outcome> {
    // Bodies are generated on a separate thread, so that the time does not count as the
    // server's.
    let (generated, ready) = mpsc::channel(connections);
    let generator = thread::spawn(move || {
        bodies.map(|(path, one)| generated.blocking_send((path, one.body()))).all(|sent| sent.is_ok())
    });
    let (outcome, bodies) = (Arc::<Mutex<Outcome>>::default(), Arc::new(tokio::sync::Mutex::new(ready)));
    let senders: JoinSet<_> =
        (0..connections).map(|_| send_all(target.clone(), bodies.clone(), outcome.clone())).collect();
    let probe = async {
        let sender = target.connect().await?;
        loop {
            let began = Instant::now();
            let status = send(&sender, real.0, real.1.to_owned().into()).await;
            let status = status.context("send a legitimate review during the attack")?;
            ensure!(
                status == 200,
                "a legitimate review returned status {status} after {:?}",
                began.elapsed()
            );
            if let Ok(mut outcome) = outcome.lock() {
                outcome.real += 1;
                outcome.slowest = outcome.slowest.max(began.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended: Result<()> = tokio::select! {
        sent = senders.join_all() => sent.into_iter().collect(),
        failed = probe => failed,
    };
    ended?;
    drop(bodies);
    ensure!(generator.join().is_ok(), "the thread that generates bodies panicked");
    let mut outcome = outcome.lock().ok().context("a sender panicked")?;
    Ok(std::mem::take(&mut *outcome))
}

/// Sends bodies over one connection. Reconnects when the connection is closed.
async fn send_all(
    target: WebhookServer,
    bodies: Arc<tokio::sync::Mutex<mpsc::Receiver<(String, String)>>>,
    outcome: Arc<Mutex<Outcome>>,
) -> Result<()> {
    let mut sender = None;
    loop {
        let next = bodies.lock().await.recv().await;
        let Some((path, body)) = next else { return Ok(()) };
        let open = match sender.take() {
            Some(open) => open,
            None => target.connect().await?,
        };
        let length = body.len();
        let status = send(&open, &path, body.into()).await.unwrap_or_default();
        sender = (status != 0).then_some(open);
        if let Ok(mut outcome) = outcome.lock() {
            outcome.bytes += length;
            *outcome.answers.entry(status).or_default() += 1;
        }
    }
}

impl WebhookServer {
    /// Returns a server on this machine. `authority` is the certificate authority of its certificate,
    /// in PEM.
    pub fn local(address: SocketAddr, authority: Vec<u8>) -> Self {
        Self { address, host: ServerName::IpAddress(address.ip().into()), authority, network: None }
    }

    /// Returns a server in Pods, which is reached from a real node. `host` is the name of its Service
    /// in its certificate.
    ///
    /// # Errors
    /// Returns an error if the name is not valid.
    pub fn in_pods(
        network: NodeNetwork,
        address: SocketAddr,
        host: &str,
        authority: Vec<u8>,
    ) -> Result<Self> {
        let host = ServerName::try_from(host.to_owned()).context("the name of the server is not valid")?;
        Ok(Self { address, host, authority, network: Some(network) })
    }

    /// Sends one body without a client certificate. Returns the status of the response.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub async fn post(&self, path: &str, body: &str) -> Result<u16> {
        send(&self.connect().await?, path, body.to_owned().into()).await
    }

    /// Connects with HTTP/2 over TLS, as the API server does for webhooks with a URL.
    ///
    /// # Errors
    /// Returns an error if the server does not answer or has another certificate.
    pub async fn connect(&self) -> Result<Sender> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.authority) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = match self.network {
            None => TcpStream::connect(self.address).await?,
            Some(network) => network.connect(self.address).await?,
        };
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(self.host.clone(), stream).await?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

async fn send(sender: &Sender, path: &str, body: Bytes) -> Result<u16> {
    let mut sender = sender.clone();
    sender.ready().await?;
    let request = Request::post(format!("https://127.0.0.1{path}"))
        .header("content-type", "application/json")
        .header("content-length", body.len())
        .body(Full::new(body))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    response.into_body().collect().await?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: [usize; 1] = [64 * 1024];

    #[test]
    fn bodies_have_requested_size_and_most_are_valid_json() {
        let webhook = json!({ "webhooks": [{
            "clientConfig": { "service": { "path": "/a" } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"] }],
        }]});
        let reviewed = WebhookRule::from_configuration(&webhook);
        assert_eq!((reviewed.len(), reviewed[0].path.as_str()), (1, "/a"));
        let [size] = SIZE;
        let bodies = admission(reviewed[0].clone(), &SIZE).chain(conversion(&SIZE));
        let (mut count, mut are_json) = (0, 0);
        for hostile in bodies {
            let (name, body) = (hostile.name, hostile.body());
            assert!(!body.contains(PLACEHOLDER) && body.len() > size / 3, "{name}: {}", body.len());
            count += 1;
            are_json += usize::from(serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok());
        }
        assert!(count > 250 && are_json * 3 > count * 2, "{are_json} of {count}");
    }
}

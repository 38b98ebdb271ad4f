//! Reviews that take as much memory and time as their bytes can be made to.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
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

/// A body, and what is bad about it. It is made when it is asked for, since it may be large.
pub struct Hostile {
    /// What is bad about it.
    pub name: &'static str,
    make: Box<dyn FnOnce() -> String + Send>,
}

impl Hostile {
    fn new(name: &'static str, make: impl FnOnce() -> String + Send + 'static) -> Self {
        Self { name, make: Box::new(make) }
    }

    /// Makes the body.
    pub fn body(self) -> String {
        (self.make)()
    }
}

/// The places of a review in which something bad may stand.
const PLACES: [&str; 9] =
    ["metadata", "spec", "labels", "ownerReferences", "managedFields", "extra", "groups", "username", "name"];
/// Fields of a Tenant in which something bad may stand.
const FIELDS: [&str; 4] = ["owners", "additionalRoleBindings", "networkPolicies", "nodeSelector"];

/// Returns the worst bodies of about these sizes for a path of a webhook: of every shape, in every place. They are
/// made one by one, for they are large.
pub fn admission(
    webhook: Reviewed,
    sizes: &'static [usize],
) -> impl Iterator<Item = Hostile> + Send + 'static {
    let all = sizes.iter().flat_map(|size| {
        PLACES
            .iter()
            .flat_map(move |place| SHAPES.iter().map(move |(name, shape)| (*size, *place, *name, *shape)))
    });
    all.map(move |(size, place, name, shape)| {
        // What belongs to the object stands in the old and the new one.
        let size = if matches!(place, "extra" | "groups" | "username" | "name") { size } else { size / 2 };
        let webhook = webhook.clone();
        Hostile::new(name, move || webhook.review(place, &shape(size)))
    })
}

/// Returns the worst bodies of about these sizes for the conversion of Tenants.
pub fn conversion(sizes: &'static [usize]) -> impl Iterator<Item = Hostile> + Send + 'static {
    let lists = sizes.iter().flat_map(|size| {
        SHAPES.iter().map(move |(name, shape)| Hostile::new(name, move || converted(&shape(*size))))
    });
    let tenants = sizes.iter().flat_map(|size| {
        TENANTS.iter().map(move |(name, tenant)| {
            Hostile::new(name, move || {
                let tenant = tenant();
                let count = (size / tenant.len()).max(1);
                converted(&format!("[{}]", vec![tenant.as_str(); count].join(",")))
            })
        })
    });
    let fields = sizes.iter().flat_map(|size| {
        SHAPES.iter().flat_map(move |(name, shape)| {
            FIELDS.iter().map(move |field| {
                Hostile::new(name, move || {
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
                Hostile::new(name, move || envelope.replace(&format!("\"{PLACE}\""), &shape(*size)))
            })
        })
    });
    lists.chain(tenants).chain(fields).chain(envelopes)
}

/// Places of a conversion review outside its objects.
const ENVELOPES: [&str; 4] = [
    r#""(what is bad)""#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"(what is bad)"}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":"(what is bad)"}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"(what is bad)","desiredAPIVersion":"capsule.clastix.io/v1beta2","objects":[]}}"#,
];

/// What a webhook is asked about: of the rule that it is registered with.
#[derive(Clone, Debug)]
pub struct Reviewed {
    /// The path of the webhook.
    pub path: String,
    group: String,
    version: String,
    resource: String,
    subresource: Option<String>,
    kind: String,
}

impl Reviewed {
    /// What each webhook of a configuration, as JSON, is asked about; the first rule of each that is about a kind
    /// that is known here.
    pub fn of(configuration: &Value) -> Vec<Self> {
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
        webhooks.filter_map(Self::of_webhook).collect()
    }

    fn of_webhook(webhook: &Value) -> Option<Self> {
        let client = webhook.get("clientConfig")?;
        let path = client.pointer("/service/path").and_then(Value::as_str).map(str::to_owned);
        let path =
            path.or_else(|| Some(format!("/{}", client.get("url")?.as_str()?.splitn(4, '/').nth(3)?)))?;
        let known = |rule: &&Value| rule.pointer("/resources/0").and_then(resource).is_some();
        let rule = webhook.get("rules")?.as_array()?.iter().find(known)?;
        let text = |pointer: &str| Some(rule.pointer(pointer)?.as_str()?.to_owned());
        let (plural, subresource, kind) = resource(rule.pointer("/resources/0")?)?;
        Some(Self {
            path,
            group: text("/apiGroups/0")?,
            version: text("/apiVersions/0")?,
            resource: plural.to_owned(),
            subresource: subresource.map(str::to_owned),
            kind: kind.to_owned(),
        })
    }

    /// A review that is usual but for what stands in one place.
    pub fn review(&self, place: &str, text: &str) -> String {
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
        let bad = fields([(place, json!(PLACE))]);
        match place {
            "labels" | "ownerReferences" | "managedFields" => metadata.extend(bad),
            "metadata" | "spec" => object.extend(bad),
            "name" => request.extend(bad),
            _ => user.extend(bad),
        }
        object.entry("metadata").or_insert_with(|| metadata.into());
        request.extend(fields([
            ("userInfo", user.into()),
            ("object", object.clone().into()),
            ("oldObject", object.into()),
        ]));
        let review =
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        review.to_string().replace(&format!("\"{PLACE}\""), text)
    }
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

const PLACE: &str = "(what is bad)";

/// Splits a resource of a rule into its plural, its subresource, and the kind of its objects, if the kind is known here.
fn resource(resource: &Value) -> Option<(&str, Option<&str>, &'static str)> {
    let resource = resource.as_str()?;
    let (plural, subresource) = resource
        .split_once('/')
        .map_or((resource, None), |(plural, subresource)| (plural, Some(subresource)));
    let kind = match plural {
        "tenants" => "Tenant",
        "namespaces" => "Namespace",
        "services" => "Service",
        "ingresses" => "Ingress",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "resourcequotas" => "ResourceQuota",
        "pods" => "Pod",
        "rolebindings" => "RoleBinding",
        _ => return None,
    };
    Some((plural, subresource, kind))
}

type Shape = fn(usize) -> String;
type Named<T> = (&'static str, T);

/// JSON of about this size, of every bad shape.
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
    ("what is escaped when it is quoted", |size| format!("\"{}\"", "\u{7f}".repeat(size))),
    ("many escaped strings", |size| list(size, "\"\\u0001\\\"\"")),
    ("a long number", |size| format!("1{}", "0".repeat(size))),
    ("a long fraction", |size| format!("0.{}", "1".repeat(size))),
    ("a key again and again", |size| format!("{{{}\"a\":{{}}}}", "\"a\":{},".repeat(size / 7))),
    ("deep lists", |size| deep(size / 2)),
    ("deep lists that are just read", |size| list(size, &deep(90))),
    ("deep objects that do not end", |size| "{\"a\":".repeat(size / 5)),
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

/// Tenants whose conversion takes the most.
const TENANTS: [Named<fn() -> String>; 7] = [
    ("Tenants with JSON in an annotation", || {
        let kept = r#"{\"a\":0},"#.repeat(100_000);
        let kept = format!(r#"{{\"Items\":{{\"more\":[{kept}0]}}}}"#);
        let metadata = format!(r#"{{"annotations":{{"conversion.ensemble/v1beta2":"{kept}"}}}}"#);
        tenant("v1beta1", &metadata, r#"{"owners":[]}"#)
    }),
    ("small Tenants", || tenant("v1beta1", "{}", r#"{"owners":[]}"#)),
    ("Tenants of the version that is asked for", || tenant("v1beta2", "{}", "{}")),
    ("Tenants of many owners", || tenant("v1beta1", "{}", &owners(1000))),
    ("Tenants of a great many owners", || tenant("v1beta1", "{}", &owners(60_000))),
    ("Tenants that list owners in annotations", || tenant("v1alpha1", &annotations(1000), OWNED)),
    ("Tenants that list a great many owners in annotations", || {
        tenant("v1alpha1", &annotations(100_000), OWNED)
    }),
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

/// Where a manager serves its webhooks, and how it is known.
#[derive(Clone)]
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// The authority of its certificate, in PEM.
    pub authority: Vec<u8>,
}

/// What became of an attack.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How often each status was answered; 0 where the connection was closed instead.
    pub answers: BTreeMap<u16, usize>,
    /// How many bytes were sent.
    pub bytes: usize,
    /// How many real reviews were answered meanwhile.
    pub real: usize,
    /// How long the slowest of them took.
    pub slowest: Duration,
}

/// A path and a body.
pub type Body = (String, Hostile);

/// Sends bodies from so many connections at once, each on the next free one, and asks a real question meanwhile, again
/// and again.
///
/// # Errors
/// Returns an error if the manager cannot be reached, or does not answer a real review.
pub async fn attack(
    target: &Target,
    connections: usize,
    bodies: impl Iterator<Item = Body> + Send + 'static,
    real: (&str, &str),
) -> Result<Outcome> {
    // Made on a thread of its own: that takes time, which is not the manager's.
    let (made, ready) = mpsc::channel(connections);
    let maker = thread::spawn(move || {
        bodies.map(|(path, one)| made.blocking_send((path, one.body()))).all(|sent| sent.is_ok())
    });
    let (outcome, bodies) = (Arc::<Mutex<Outcome>>::default(), Arc::new(tokio::sync::Mutex::new(ready)));
    let senders: JoinSet<_> =
        (0..connections).map(|_| send_all(target.clone(), bodies.clone(), outcome.clone())).collect();
    let asked = async {
        let sender = target.connect().await?;
        loop {
            let began = Instant::now();
            let status = send(&sender, real.0, real.1.to_owned().into()).await;
            let status = status.context("a real review was not answered")?;
            ensure!(status == 200, "a real review was answered {status} after {:?}", began.elapsed());
            if let Ok(mut outcome) = outcome.lock() {
                outcome.real += 1;
                outcome.slowest = outcome.slowest.max(began.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended: Result<()> = tokio::select! {
        sent = senders.join_all() => sent.into_iter().collect(),
        failed = asked => failed,
    };
    ended?;
    drop(bodies);
    ensure!(maker.join().is_ok(), "the bodies could not be made");
    let mut outcome = outcome.lock().ok().context("a sender panicked")?;
    Ok(std::mem::take(&mut *outcome))
}

/// Sends bodies from one connection, and from a new one when it is closed.
async fn send_all(
    target: Target,
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

impl Target {
    /// Sends one body without a client certificate. Returns the status of the answer.
    ///
    /// # Errors
    /// Returns an error if there is no answer.
    pub async fn ask(&self, path: &str, body: &str) -> Result<u16> {
        send(&self.connect().await?, path, body.to_owned().into()).await
    }

    /// A connection as the API server makes it: HTTP/2 over TLS.
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.authority) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

async fn send(sender: &SendRequest<Full<Bytes>>, path: &str, body: Bytes) -> Result<u16> {
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
    fn bodies_are_as_large_as_they_should_be_and_most_are_json() {
        let webhook = json!({ "webhooks": [{
            "clientConfig": { "service": { "path": "/a" } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"] }],
        }]});
        let reviewed = Reviewed::of(&webhook);
        assert_eq!((reviewed.len(), reviewed[0].path.as_str()), (1, "/a"));
        let [size] = SIZE;
        let bodies = admission(reviewed[0].clone(), &SIZE).chain(conversion(&SIZE));
        let (mut count, mut are_json) = (0, 0);
        for hostile in bodies {
            let (name, body) = (hostile.name, hostile.body());
            assert!(!body.contains(PLACE) && body.len() > size / 3, "{name}: {}", body.len());
            count += 1;
            are_json += usize::from(serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok());
        }
        assert!(count > 250 && are_json * 3 > count * 2, "{are_json} of {count}");
    }
}

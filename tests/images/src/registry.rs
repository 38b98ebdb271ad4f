//! Read-only registry, as the OCI distribution specification defines it.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderValue, Response, StatusCode, Uri, header},
    routing::get,
};
use serde::Deserialize;
use serde_json::json;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use crate::{
    Digest, Store,
    name::{Repository, is_tag},
    oci,
};

const DIGEST_HEADER: &str = "docker-content-digest";
const OCTETS: &str = "application/octet-stream";

/// Returns the routes of a registry that serves a store.
///
/// A mirror of container runtimes gets the host in the query parameter `ns`. Without it, images of
/// `docker.io` are served.
pub fn registry(store: Arc<Store>) -> Router {
    Router::new().route("/v2/", get(version)).route("/v2/{*path}", get(serve)).with_state(store)
}

async fn version() -> Response<Body> {
    respond(StatusCode::OK, "application/json", Body::from("{}"))
}

async fn serve(State(store): State<Arc<Store>>, uri: Uri) -> Response<Body> {
    let answer = match Request::parse(uri.path(), uri.query()) {
        Ok(request) => answer(&store, &request).await,
        Err(failure) => Err(failure),
    };
    answer.unwrap_or_else(Failure::into_response)
}

/// Content that a client asks for.
#[derive(Debug, PartialEq)]
enum Request {
    Tag(Repository, String),
    Manifest(Digest),
    Blob(Digest),
}

impl Request {
    fn parse(path: &str, query: Option<&str>) -> Result<Self, Failure> {
        let unknown = || Failure::new(StatusCode::NOT_FOUND, "NAME_UNKNOWN", path);
        let path = path.strip_prefix("/v2/").unwrap_or(path);
        let (rest, reference) = path.rsplit_once('/').ok_or_else(unknown)?;
        let (name, kind) = rest.rsplit_once('/').ok_or_else(unknown)?;
        let repository = Repository::requested(host(query).as_deref(), name)
            .map_err(|_| Failure::new(StatusCode::NOT_FOUND, "NAME_INVALID", name))?;
        let digest = reference.parse();
        match (kind, digest) {
            ("manifests", Ok(digest)) => Ok(Self::Manifest(digest)),
            ("manifests", Err(_)) if is_tag(reference) => Ok(Self::Tag(repository, reference.to_owned())),
            ("blobs", Ok(digest)) => Ok(Self::Blob(digest)),
            ("manifests" | "blobs", Err(_)) => {
                Err(Failure::new(StatusCode::BAD_REQUEST, "DIGEST_INVALID", reference))
            }
            _ => Err(unknown()),
        }
    }
}

/// Returns the registry host that a mirror is asked for.
fn host(query: Option<&str>) -> Option<String> {
    let host = query?.split('&').find_map(|pair| pair.strip_prefix("ns="))?;
    // Hosts contain no other character that queries encode.
    Some(host.replace("%3A", ":").replace("%3a", ":"))
}

async fn answer(store: &Store, request: &Request) -> Result<Response<Body>, Failure> {
    let missing =
        |code, subject: &dyn ToString| Failure::new(StatusCode::NOT_FOUND, code, subject.to_string());
    let (digest, is_manifest) = match request {
        Request::Tag(repository, tag) => {
            let name = format!("{repository}:{tag}");
            let digest = store.resolve(repository, tag).map_err(|error| {
                Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", format!("{name}: {error:#}"))
            })?;
            (digest.ok_or_else(|| missing("MANIFEST_UNKNOWN", &name))?, true)
        }
        Request::Manifest(digest) => (digest.clone(), true),
        Request::Blob(digest) => (digest.clone(), false),
    };
    let code = if is_manifest { "MANIFEST_UNKNOWN" } else { "BLOB_UNKNOWN" };
    let path = store.blob(&digest).ok_or_else(|| missing(code, &digest))?;
    let response = if is_manifest { manifest(&path).await } else { blob(&path).await };
    let mut response = response.map_err(|error| {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", format!("{digest}: {error:#}"))
    })?;
    if let Ok(digest) = HeaderValue::from_str(&digest.to_string()) {
        response.headers_mut().insert(DIGEST_HEADER, digest);
    }
    Ok(response)
}

async fn manifest(path: &Path) -> Result<Response<Body>> {
    /// Fields that determine the type.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        media_type: Option<String>,
        manifests: Option<serde::de::IgnoredAny>,
    }
    let content = tokio::fs::read(path).await.context("read the manifest")?;
    let kind: Kind = serde_json::from_slice(&content).context("parse the manifest")?;
    let default = if kind.manifests.is_some() { oci::INDEX } else { oci::MANIFEST };
    Ok(respond(StatusCode::OK, kind.media_type.as_deref().unwrap_or(default), Body::from(content)))
}

async fn blob(path: &Path) -> Result<Response<Body>> {
    let file = File::open(path).await.context("open the blob")?;
    let size = file.metadata().await.context("read the size of the blob")?.len();
    let mut response = respond(StatusCode::OK, OCTETS, Body::from_stream(ReaderStream::new(file)));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    Ok(response)
}

fn respond(status: StatusCode, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let content_type = HeaderValue::from_str(content_type).unwrap_or(HeaderValue::from_static(OCTETS));
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// Error in the format of registries.
#[derive(Debug)]
struct Failure {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Failure {
    fn new(status: StatusCode, code: &'static str, subject: impl Into<String>) -> Self {
        Self { status, code, message: subject.into() }
    }

    fn into_response(self) -> Response<Body> {
        let error = json!({ "errors": [{ "code": self.code, "message": self.message }] });
        respond(self.status, "application/json", Body::from(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::fixture;

    /// Response: status and headers in lower case, and the body.
    struct Answer(String, String);

    struct Server {
        address: std::net::SocketAddr,
        store: Arc<Store>,
        directory: tempfile::TempDir,
    }

    impl Server {
        async fn start() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store = Arc::new(Store::new(directory.path().join("store")));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(axum::serve(listener, registry(Arc::clone(&store))).into_future());
            Self { address, store, directory }
        }

        fn add(&self, name: &str) {
            let image = fixture::image("some", name);
            let layout = image.build(self.directory.path(), &|_| ()).unwrap();
            self.store.add(&image, &layout).unwrap();
        }

        async fn request(&self, method: &str, path: &str) -> Answer {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = Vec::new();
            stream.read_to_end(&mut response).await.unwrap();
            let response = String::from_utf8_lossy(&response).into_owned();
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            Answer(head.to_lowercase(), body.to_owned())
        }
    }

    #[tokio::test]
    async fn serves_manifests_and_blobs() {
        let server = Server::start().await;
        assert!(server.request("GET", "/v2/").await.0.starts_with("http/1.1 200"));
        let path = "/v2/library/some/manifests/1";
        assert!(server.request("GET", path).await.1.contains("MANIFEST_UNKNOWN"));
        server.add("some:*");
        let Answer(head, body) = server.request("GET", path).await;
        let digest = Digest::of(body.as_bytes());
        for line in [
            "http/1.1 200",
            &format!("content-type: {}", oci::MANIFEST),
            &format!("content-length: {}", body.len()),
            &format!("docker-content-digest: {digest}"),
        ] {
            assert!(head.contains(line), "{line}: {head}");
        }
        let by_digest = server.request("GET", &format!("/v2/library/some/manifests/{digest}")).await;
        assert_eq!(by_digest.1, body);
        let manifest: serde_json::Value = serde_json::from_str(&body).unwrap();
        let layer = &manifest["layers"][0];
        let path = format!("/v2/library/some/blobs/{}", layer["digest"].as_str().unwrap());
        let blob = server.request("GET", &path).await;
        assert_eq!(Digest::of(blob.1.as_bytes()).to_string(), layer["digest"].as_str().unwrap());
        let Answer(head, body) = server.request("HEAD", &path).await;
        assert!(body.is_empty() && head.contains(&format!("content-length: {}", layer["size"])), "{head}");
    }

    #[tokio::test]
    async fn distinguishes_hosts() {
        let server = Server::start().await;
        server.add("quay.io/a/b:1");
        let path = "/v2/a/b/manifests/1";
        assert!(server.request("HEAD", &format!("{path}?ns=quay.io")).await.0.starts_with("http/1.1 200"));
        for other in ["", "?ns=docker.io", "?ns=ghcr.io"] {
            let answer = server.request("GET", &format!("{path}{other}")).await;
            assert!(answer.0.starts_with("http/1.1 404") && answer.1.contains("MANIFEST_UNKNOWN"));
        }
    }

    #[tokio::test]
    async fn rejects_other_paths_and_methods() {
        let server = Server::start().await;
        let digest = Digest::of(b"");
        for (path, status, code) in [
            ("/v2/a/blobs/../../../../etc/passwd".to_owned(), 404, "NAME_INVALID"),
            ("/v2/a/blobs/..%2f..%2fetc%2fpasswd".to_owned(), 400, "DIGEST_INVALID"),
            ("/v2/a/manifests/sha256:../../etc/passwd".to_owned(), 404, ""),
            (format!("/v2/a/blobs/{digest}"), 404, "BLOB_UNKNOWN"),
            (format!("/v2/../a/blobs/{digest}"), 404, "NAME_INVALID"),
            ("/v2/a/tags/list".to_owned(), 404, "NAME_UNKNOWN"),
            ("/etc/passwd".to_owned(), 404, ""),
        ] {
            let answer = server.request("GET", &path).await;
            assert!(answer.0.starts_with(&format!("http/1.1 {status}")), "{path}: {}", answer.0);
            assert!(answer.1.contains(code), "{path}: {}", answer.1);
        }
        let answer = server.request("PUT", "/v2/a/manifests/1").await;
        assert!(answer.0.starts_with("http/1.1 405"), "{}", answer.0);
    }

    #[test]
    fn decodes_port_of_host() {
        assert_eq!(host(Some("x=1&ns=localhost%3A5000")).as_deref(), Some("localhost:5000"));
        assert_eq!(host(Some("x=1")), None);
    }
}

//! The content types that a view can have, out of those that a user accepts.
//!
//! The header of a view's request is written from these values. Parameters that change nothing about the
//! contents, such as weights, are dropped: the order of the user stays.

use std::fmt;

use http::{HeaderMap, HeaderValue, header::ACCEPT};

/// Most content types of one request.
const MAX_TYPES: usize = 16;

/// A content type of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType {
    /// Encoding.
    pub encoding: Encoding,
    /// Representation of the objects, if it is not the kind's own.
    pub representation: Option<Representation>,
    /// Whether the type names the frames of a watch.
    is_stream: bool,
}

/// Encoding of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Protocol buffers.
    Protobuf,
    /// Concise binary objects.
    Cbor,
}

/// Representation of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// Rows that kubectl prints.
    Table {
        /// Whether the version is `v1beta1`.
        is_beta: bool,
    },
    /// Metadata of an object.
    Metadata,
    /// Metadata of a list of objects.
    MetadataList,
}

/// What the proxy does with the response of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewMode {
    /// It passes a list on unchanged.
    List,
    /// It can write an error into a watch.
    Watch,
    /// It filters a list or a watch.
    Filtered,
}

impl ViewMode {
    fn allows(self, encoding: Encoding) -> bool {
        match self {
            Self::List => true,
            Self::Watch => matches!(encoding, Encoding::Json | Encoding::Protobuf),
            Self::Filtered => encoding == Encoding::Json,
        }
    }
}

/// Returns the header `Accept` of the request of a view. JSON, if the user accepts nothing that the
/// response can have.
pub fn accept(headers: &HeaderMap, mode: ViewMode) -> HeaderValue {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let types = values.flat_map(|value| value.split(',')).filter_map(MediaType::parse);
    let types: Vec<_> =
        types.filter(|one| mode.allows(one.encoding)).take(MAX_TYPES).map(|one| one.to_string()).collect();
    // What is written here is always a valid value.
    HeaderValue::from_str(&types.join(","))
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| HeaderValue::from_static("application/json"))
}

/// Returns whether a user accepts objects in JSON.
pub fn accepts_json(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = values.flat_map(|value| value.split(',')).filter_map(MediaType::parse);
    !headers.contains_key(ACCEPT)
        || types.any(|one| one.encoding == Encoding::Json && one.representation.is_none())
}

impl MediaType {
    /// Parses one content type. Returns `None` if the API server has no such type, or another one than its
    /// text says.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let encoding = match parts.next()? {
            "application/json" | "application/*" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            "application/vnd.kubernetes.protobuf" => Encoding::Protobuf,
            "application/cbor" | "application/cbor-seq" => Encoding::Cbor,
            _ => return None,
        };
        let (mut kind, mut group, mut version, mut is_stream) = (None, None, None, false);
        for parameter in parts.filter(|part| !part.is_empty()) {
            let (name, value) = parameter.split_once('=')?;
            match name.trim() {
                "as" => kind = Some(value.trim()),
                "g" => group = Some(value.trim()),
                "v" => version = Some(value.trim()),
                "stream" => is_stream = value.trim() == "watch",
                // Weights and character sets.
                _ => {}
            }
        }
        let is_beta = version == Some("v1beta1");
        let representation = match (kind, group, version) {
            (None, _, _) => None,
            (Some(kind), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(match kind {
                "Table" => Representation::Table { is_beta },
                "PartialObjectMetadata" if !is_beta => Representation::Metadata,
                "PartialObjectMetadataList" if !is_beta => Representation::MetadataList,
                _ => return None,
            }),
            _ => return None,
        };
        Some(Self { encoding, representation, is_stream })
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
            Encoding::Cbor => "application/cbor",
        })?;
        if let Some(representation) = self.representation {
            let (kind, version) = match representation {
                Representation::Table { is_beta: true } => ("Table", "v1beta1"),
                Representation::Table { is_beta: false } => ("Table", "v1"),
                Representation::Metadata => ("PartialObjectMetadata", "v1"),
                Representation::MetadataList => ("PartialObjectMetadataList", "v1"),
            };
            write!(f, ";as={kind};v={version};g=meta.k8s.io")?;
        }
        if self.is_stream { f.write_str(";stream=watch") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::testing::headers;

    fn of(value: &str, mode: ViewMode) -> String {
        accept(&headers(&[&format!("Accept: {value}")]), mode).to_str().unwrap().to_owned()
    }

    #[test]
    fn types_of_kubernetes_clients_stay() {
        for value in [
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
            "application/cbor,application/json",
            "application/yaml",
        ] {
            assert_eq!(of(value, ViewMode::List), value);
        }
        let watch = "application/vnd.kubernetes.protobuf;stream=watch,application/json";
        assert_eq!(of(watch, ViewMode::Watch), watch);
        assert_eq!(of("application/cbor-seq, application/json;q=0.5", ViewMode::Watch), "application/json");
        assert_eq!(
            of("application/vnd.kubernetes.protobuf, application/json", ViewMode::Filtered),
            "application/json"
        );
    }

    #[test]
    fn json_is_accepted_if_it_is_one_of_the_types() {
        for (value, expected) in [
            ("application/vnd.kubernetes.protobuf, application/json", true),
            ("*/*", true),
            ("application/json;q=0.5", true),
            ("application/vnd.kubernetes.protobuf", false),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", false),
            ("", false),
        ] {
            assert_eq!(accepts_json(&headers(&[&format!("Accept: {value}")])), expected, "{value}");
        }
        assert!(accepts_json(&HeaderMap::new()));
    }

    #[test]
    fn other_types_become_json() {
        for value in [
            "",
            "*/*",
            "text/html",
            "text/html, application/json;q=0.9",
            "application/json;as=Secret;v=v1;g=x",
            "\u{e4}",
        ] {
            assert_eq!(of(value, ViewMode::List), "application/json", "{value}");
        }
        assert_eq!(accept(&HeaderMap::new(), ViewMode::List), "application/json");
        let many = vec!["application/yaml"; 100].join(",");
        assert_eq!(of(&many, ViewMode::List).matches("yaml").count(), MAX_TYPES);
    }
}

//! Secrets of a cluster: its certificates, and the passwords of its application and of its roles.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use k8s_openapi::{
    ByteString,
    api::core::v1::{KeyToPath, Secret, SecretVolumeSource, Volume},
};
use kube::{ResourceExt, core::ObjectMeta};

use super::{object_labels, service::Access};
use crate::{
    api::PostgresCluster,
    membership::{Membership, Serial, name_of_member},
};

/// Data of a Secret.
pub(crate) type Content = BTreeMap<String, ByteString>;

/// Certificates of authorities.
pub(crate) const AUTHORITY: &str = "ca.crt";
/// Private key of the authority.
pub(crate) const AUTHORITY_KEY: &str = "ca.key";
/// Chain of a certificate.
pub(crate) const CHAIN: &str = "tls.crt";
/// Private key of a certificate.
pub(crate) const KEY: &str = "tls.key";
/// Password of the application's role.
pub(crate) const PASSWORD: &str = "password";
/// Mode of the files: PostgreSQL refuses keys that all users can read.
const MODE: i32 = 0o640;
/// Serial numbers whose members get one certificate: those up to the next multiple of this number.
const NEXT_MEMBERS: Serial = 8;

/// What a Secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose<'a> {
    /// The authority of the cluster, with its private key. No Pod has it.
    Authority,
    /// The certificate of the servers.
    Server,
    /// The certificate with which members log in to each other.
    Replication,
    /// How the application connects. Pods of members have the password only.
    Application,
    /// How a role of the spec connects. No Pod has it.
    Role(&'a str),
    /// The passwords of all roles of the spec, by the names of the roles.
    Passwords,
}

impl<'a> Purpose<'a> {
    /// Returns the name of the Secret.
    pub(crate) fn name(self, cluster: &PostgresCluster) -> String {
        format!("{}-{}", cluster.name_any(), self.suffix())
    }

    /// Returns the end of the name, and the name of the folder in the Pod.
    pub(crate) fn suffix(self) -> Cow<'a, str> {
        match self {
            Self::Authority => "ca".into(),
            Self::Server => "server".into(),
            Self::Replication => "replication".into(),
            Self::Application => "app".into(),
            // The names of roles contain no hyphen.
            Self::Role(role) => format!("role-{}", role.replace('_', "-")).into(),
            Self::Passwords => "roles".into(),
        }
    }

    /// Returns a Secret without an owner.
    pub(crate) fn secret(self, cluster: &PostgresCluster, content: Content) -> Secret {
        let type_ = match self {
            Self::Authority | Self::Passwords => "Opaque",
            Self::Server | Self::Replication => "kubernetes.io/tls",
            Self::Application | Self::Role(_) => "kubernetes.io/basic-auth",
        };
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name(cluster)),
                namespace: cluster.namespace(),
                labels: Some(object_labels(cluster)),
                ..ObjectMeta::default()
            },
            type_: Some(type_.to_owned()),
            data: Some(content),
            ..Secret::default()
        }
    }

    /// Returns a volume of a Pod with the files.
    pub(crate) fn volume(self, cluster: &PostgresCluster) -> Volume {
        let item = |name: &str| KeyToPath { key: name.to_owned(), path: name.to_owned(), mode: None };
        let files: &[&str] = match self {
            Self::Application => &[PASSWORD],
            // The names of the roles are not known in advance, nor whether there are any.
            Self::Passwords => &[],
            _ => &[AUTHORITY, CHAIN, KEY],
        };
        let source = SecretVolumeSource {
            secret_name: Some(self.name(cluster)),
            items: (!files.is_empty()).then(|| files.iter().copied().map(item).collect()),
            default_mode: Some(MODE),
            optional: (self == Self::Passwords).then_some(true),
        };
        Volume { name: self.suffix().into_owned(), secret: Some(source), ..Volume::default() }
    }
}

/// Returns the content of the Secret of an authority.
pub(crate) fn authority(certificates: &[u8], key: &[u8]) -> Content {
    content([(AUTHORITY, certificates), (AUTHORITY_KEY, key)])
}

/// Returns the content of the Secret of a server or of a client.
pub(crate) fn identity(authorities: &[u8], chain: &[u8], key: &[u8]) -> Content {
    content([(AUTHORITY, authorities), (CHAIN, chain), (KEY, key)])
}

pub(super) fn content<const N: usize>(values: [(&str, &[u8]); N]) -> Content {
    values.map(|(name, value)| (name.to_owned(), ByteString(value.to_vec()))).into()
}

/// Returns a value. Empty if it is missing.
pub(crate) fn value<'c>(content: &'c Content, name: &str) -> &'c [u8] {
    content.get(name).map_or(&[], |value| value.0.as_slice())
}

/// Returns the names of the servers of a cluster: the Services, and the Pods of all members and of
/// the next ones, so that not every new member needs a new certificate.
pub(crate) fn server_names(cluster: &PostgresCluster, membership: &Membership) -> Vec<String> {
    let namespace = cluster.namespace().unwrap_or_default();
    let services = [Access::ReadWrite, Access::ReadOnly, Access::Read].map(|access| access.name(cluster));
    let suffixes = ["", &format!(".{namespace}"), &format!(".{namespace}.svc")].map(str::to_owned);
    let mut names: Vec<_> = services
        .iter()
        .flat_map(|name| suffixes.iter().map(move |suffix| format!("{name}{suffix}")))
        .collect();
    let next = membership.next_serial..=membership.next_serial.next_multiple_of(NEXT_MEMBERS);
    let serials: BTreeSet<_> = membership.members.iter().map(|member| member.serial).chain(next).collect();
    let host = |serial| member_host(cluster, &name_of_member(&membership.cluster, serial));
    names.extend(serials.into_iter().map(host));
    names
}

/// Returns the name of a member's Pod in the cluster's domain.
pub(crate) fn member_host(cluster: &PostgresCluster, member: &str) -> String {
    format!("{member}.{}.{}.svc", Access::Pods.name(cluster), cluster.namespace().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        api::fixture::cluster,
        membership::{Member, tests::empty},
    };

    #[test]
    fn names_change_only_with_every_eighth_member() {
        let cluster = cluster(&json!({}));
        let mut membership = empty();
        let names = |membership: &Membership| server_names(&cluster, membership);
        let first = names(&membership);
        assert!(first.contains(&"db-rw.shop.svc".to_owned()) && first.contains(&"db-ro".to_owned()));
        assert!(first.contains(&"db-8.db-pods.shop.svc".to_owned()));
        membership.members = (1..=3).map(Member::new).collect();
        membership.next_serial = 4;
        assert_eq!(names(&membership), first);
        membership.next_serial = 9;
        assert!(names(&membership).contains(&"db-3.db-pods.shop.svc".to_owned()));
        assert!(names(&membership).contains(&"db-16.db-pods.shop.svc".to_owned()));
    }
}

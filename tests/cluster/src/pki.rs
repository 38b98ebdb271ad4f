//! Keys and certificates of one cluster. They are created for each cluster.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, SigningKey,
};
use tempfile::NamedTempFile;

use crate::addresses::SWITCH;

/// Address of the API server's Service: the first address of the Service range.
const SERVICE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

/// A certificate and its key in PEM.
pub(crate) struct IssuedCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Certificate authority of the API server and its clients.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .with_context(|| format!("create the certificate authority {name}"))?;
        Ok(Self(issuer))
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// Issues a client certificate for `user` in `groups`.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<IssuedCertificate> {
        sign(&self.0, params(user, groups), ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn server(&self) -> Result<IssuedCertificate> {
        let mut params = params("kube-apiserver", &[]);
        for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), SERVICE_ADDRESS, IpAddr::V4(SWITCH)] {
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        sign(&self.0, params, ExtendedKeyUsagePurpose::ServerAuth)
    }
}

/// Issues a client certificate with the authority in the directory of a cluster.
pub(crate) fn issue_client(dir: &Path, user: &str, groups: &[&str]) -> Result<IssuedCertificate> {
    let read = |name: &str| {
        let path = dir.join(name);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let key = KeyPair::from_pem(&read("ca.key")?).context("read the key of the certificate authority")?;
    let issuer = Issuer::from_ca_cert_pem(&read("ca.crt")?, key).context("read the certificate authority")?;
    sign(&issuer, params(user, groups), ExtendedKeyUsagePurpose::ClientAuth)
}

fn sign(
    issuer: &Issuer<'_, impl SigningKey>,
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
) -> Result<IssuedCertificate> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer).context("sign a certificate")?;
    Ok(IssuedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn params(common_name: &str, organizations: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    for organization in organizations {
        params.distinguished_name.push(DnType::OrganizationName, *organization);
    }
    params
}

/// Writes the servers' keys and certificates to `dir` and returns the authority for clients.
pub(crate) fn write(dir: &Path) -> Result<Authority> {
    let authority = Authority::new("ensemble")?;
    let serving = authority.server()?;
    let front_proxy = Authority::new("ensemble-front-proxy")?;
    let aggregator = front_proxy.client("front-proxy-client", &[])?;
    let service_accounts = KeyPair::generate()?;
    for (name, pem) in [
        ("ca.crt", authority.certificate()),
        ("ca.key", authority.key()),
        ("apiserver.crt", serving.certificate),
        ("apiserver.key", serving.key),
        ("front-proxy-ca.crt", front_proxy.certificate()),
        ("front-proxy-client.crt", aggregator.certificate),
        ("front-proxy-client.key", aggregator.key),
        ("service-account.key", service_accounts.serialize_pem()),
        // The API server verifies tokens with the public key. It cannot derive it from a PKCS#8
        // private key.
        ("service-account.pub", service_accounts.public_key_pem()),
    ] {
        write_private(&dir.join(name), &pem)?;
    }
    Ok(authority)
}

/// Writes a file that only its owner can read. Replaces an existing file atomically, also while other threads
/// write the same file.
pub(crate) fn write_private(path: &Path, contents: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut partial = NamedTempFile::new_in(path.parent().unwrap_or_else(|| Path::new(".")))?;
        partial.write_all(contents.as_bytes())?;
        partial.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::thread;

    use super::*;

    #[test]
    fn only_owner_can_read_keys() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(
                entry.metadata().unwrap().permissions().mode() & 0o777,
                0o600,
                "{}",
                entry.path().display()
            );
        }
    }

    #[test]
    fn threads_write_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..200).try_for_each(|_| write_private(&path, "contents"))))
                .collect();
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "contents");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn writes_public_key_for_service_accounts() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let public = fs::read_to_string(dir.path().join("service-account.pub")).unwrap();
        assert!(public.starts_with("-----BEGIN PUBLIC KEY-----"), "{public}");
    }

    #[test]
    fn authorities_have_different_keys() {
        assert_ne!(Authority::new("a").unwrap().certificate(), Authority::new("a").unwrap().certificate());
    }
}

//! HTTPS with an authority of its own.

use std::fs;

use certificates::{Lifetimes, bundle, issue_serving, new_authority};
use jiff::Timestamp;
use postgres_archive::StoreError;
use rustls::pki_types::ServerName;

use crate::{
    server::Server,
    support::{archive_with, settings, unique_prefix},
};

#[tokio::test]
async fn server_is_trusted_by_the_bundle_only() {
    let folder = tempfile::tempdir().unwrap();
    let (now, lifetimes) = (Timestamp::now(), Lifetimes::default());
    let (authority, key) = new_authority(now, lifetimes).unwrap();
    let names = [ServerName::try_from("127.0.0.1").unwrap()];
    let serving = issue_serving(now, lifetimes, &names, &authority, &key).unwrap();
    let [certificate, private_key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
    fs::write(&certificate, serving.chain_pem()).unwrap();
    fs::write(&private_key, serving.key_pem()).unwrap();
    let files = [certificate, private_key].map(|path| path.into_os_string().into_string().unwrap());
    let server = Server::start(&["--cert", &files[0], "--key", &files[1]]);

    let mut settings = settings(server.address(), &unique_prefix());
    settings.endpoint = Some(format!("https://{}", server.address()));
    let error = archive_with(&settings).claim("uid", "db").await.unwrap_err();
    let error = match error {
        postgres_archive::ArchiveError::Store(error @ StoreError::Certificate { .. }) => error.to_string(),
        other => panic!("{other}"),
    };
    assert!(error.contains("put its authority into the CA bundle"), "{error}");

    settings.ca_bundle = Some(String::from_utf8(bundle(&[authority])).unwrap());
    assert!(archive_with(&settings).claim("uid", "db").await.unwrap().is_created);
}

//! Errors of the start.

use std::{fs, sync::Arc};

use postgres_instance::status_api::{BindError, Config, Health, StatusApi, StatusHandle};
use tokio::net::TcpListener;

use crate::support::{ANY, Ca, config, limits, report};

async fn error(config: Config) -> String {
    let bound = StatusApi::bind(config, StatusHandle::new(report()), Arc::new(Health::new())).await;
    let error: BindError = bound.unwrap_err();
    error.to_string()
}

#[tokio::test]
async fn error_names_address_in_use() {
    let folder = tempfile::tempdir().unwrap();
    Ca::new().write(folder.path());
    let other = TcpListener::bind(ANY).await.unwrap();
    let address = other.local_addr().unwrap();
    for (purpose, config) in [
        ("status API", Config { status: address, ..config(folder.path(), limits()) }),
        ("probes", Config { probes: address, ..config(folder.path(), limits()) }),
    ] {
        let error = error(config).await;
        let expected = format!("cannot listen on {address} for the {purpose}: Address already in use");
        assert!(error.starts_with(&expected) && error.contains("check that no other process"), "{error}");
    }
}

#[tokio::test]
async fn error_names_file_that_is_missing_or_unusable() {
    for (name, content, cause) in [
        ("ca.crt", None, "cannot read {}: No such file or directory"),
        ("tls.crt", None, "cannot read {}: No such file or directory"),
        ("tls.key", None, "cannot read {}: No such file or directory"),
        ("ca.crt", Some("x"), "cannot use {}: it contains no certificate in PEM"),
        ("tls.crt", Some(""), "cannot use {}: it contains no certificate in PEM"),
        ("tls.key", Some("secret"), "cannot use {}: it contains no private key in PEM"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        Ca::new().write(folder.path());
        let path = folder.path().join(name);
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let error = error(config(folder.path(), limits())).await;
        let cause = cause.replace("{}", &path.display().to_string());
        assert!(error.starts_with("cannot serve the status API on 127.0.0.1:"), "{error}");
        assert!(error.contains(&cause) && error.contains("Secret") && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn key_of_another_certificate_is_an_error() {
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    Ca::new().write(folder.path());
    Ca::new().write(other.path());
    fs::copy(other.path().join("tls.key"), folder.path().join("tls.key")).unwrap();
    let error = error(config(folder.path(), limits())).await;
    assert!(error.contains("tls.crt") && error.contains("(with tls.key)"), "{error}");
}

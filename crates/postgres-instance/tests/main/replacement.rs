//! Certificates that are replaced while the server runs.

use std::{fs, os::unix::fs::symlink, path::Path};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Ca, TestServer, limits};

#[tokio::test]
async fn next_connection_uses_replaced_certificates() {
    let server = TestServer::start(limits()).await;
    let mut open = server.connect(&server.operator).await.unwrap();
    let new = Ca::new();
    let operator = new.client_config(Some(&new.client("ensemble-operator")), rustls::ALL_VERSIONS);
    assert!(server.send(&operator, "GET", "/status").await.is_err());

    new.write(server.folder.path());
    assert_eq!(server.send(&operator, "GET", "/status").await.unwrap().status, 200);
    assert!(server.send(&server.operator, "GET", "/status").await.is_err(), "the authority was replaced");
    // Connections that are open stay open until their age ends them.
    open.write_all(b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    open.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    server.stop().await;
}

#[tokio::test]
async fn broken_files_change_nothing() {
    let server = TestServer::start(limits()).await;
    let is_served = async || {
        server.send(&server.operator, "GET", "/status").await.is_ok_and(|answer| answer.status == 200)
    };
    for (name, content) in [("ca.crt", "broken"), ("tls.crt", ""), ("tls.key", "broken")] {
        let path = server.folder.path().join(name);
        let before = fs::read(&path).unwrap();
        fs::write(&path, content).unwrap();
        assert!(is_served().await, "{name} is broken");
        fs::remove_file(&path).unwrap();
        assert!(is_served().await, "{name} is missing");
        fs::write(&path, before).unwrap();
        assert!(is_served().await);
    }
    // Half of a rotation: the key belongs to the next certificate.
    let next = tempfile::tempdir().unwrap();
    server.ca.write(next.path());
    for name in ["tls.key", "tls.crt"] {
        fs::copy(next.path().join(name), server.folder.path().join(name)).unwrap();
        assert!(is_served().await, "{name} of the next certificate");
    }
    server.stop().await;
}

/// A kubelet replaces the files of a Secret at once, by a symbolic link to their folder.
#[tokio::test]
async fn files_of_a_mounted_secret_are_read_again() {
    let server = TestServer::start(limits()).await;
    let folder = server.folder.path();
    let (first, second) = (folder.join("..first"), folder.join("..second"));
    let next = Ca::new();
    for (version, ca) in [(&first, &server.ca), (&second, &next)] {
        fs::create_dir(version).unwrap();
        ca.write(version);
    }
    let point_to = |version: &Path| {
        symlink(version, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    point_to(&first);
    for name in ["ca.crt", "tls.crt", "tls.key"] {
        fs::remove_file(folder.join(name)).unwrap();
        symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
    }
    assert_eq!(server.get("/status").await.status, 200);
    point_to(&second);
    let operator = next.client_config(Some(&next.client("ensemble-operator")), rustls::ALL_VERSIONS);
    assert_eq!(server.send(&operator, "GET", "/status").await.unwrap().status, 200);
    server.stop().await;
}

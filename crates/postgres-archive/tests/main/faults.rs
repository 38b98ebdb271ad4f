//! Broken connections, slow servers, and wrong credentials.

use std::time::{Duration, Instant};

use postgres_archive::{ArchiveError, Restore, StoreError};

use crate::{
    proxy::{Fault, Proxy},
    server::{KEY_ID, SECRET, Server},
    support::{Place, archive_with, backup, content, name, random, segment, settings, unique_prefix},
};

/// Returns an archive behind a proxy of the shared server.
async fn proxied() -> (Proxy, Place) {
    let proxy = Proxy::start(Server::shared().address()).await;
    let place = Place::on(proxy.address);
    (proxy, place)
}

#[tokio::test]
async fn put_whose_answer_is_lost_ends_as_success() {
    let (proxy, place) = proxied().await;
    for lost in [1, 3] {
        let file = segment(1, u64::from(lost)).to_string();
        std::fs::write(place.path(&file), content(1, u64::from(lost))).unwrap();
        proxy.set(Fault::Lose(lost));
        let put = place.archive.archive_wal(name(&file), &place.path(&file)).await.unwrap();
        assert_eq!(proxy.fault(), Fault::Lose(0));
        assert!(!put.is_created, "the first attempt created the object");
        let restored = place.archive.restore_wal(name(&file), &place.path("restored")).await.unwrap();
        assert_eq!(restored, Restore::Restored);
        assert_eq!(std::fs::read(place.path("restored")).unwrap(), content(1, u64::from(lost)));
    }
}

#[tokio::test]
async fn everything_survives_lost_answers() {
    let (proxy, place) = proxied().await;
    proxy.set(Fault::Lose(1));
    assert!(!place.archive.claim("uid", "db").await.unwrap().is_created || proxy.fault() == Fault::Lose(0));
    place.archive_segments(1, [1]).await;
    proxy.set(Fault::Lose(2));
    let tar = random(50_000, 1);
    let manifest = place.back_up(backup(1, 1, 0), &tar).await;
    assert_eq!(proxy.fault(), Fault::Lose(0));
    proxy.set(Fault::Lose(2));
    assert_eq!(place.archive.backups().await.unwrap().complete, [manifest.backup]);
    assert_eq!(proxy.fault(), Fault::Lose(0));
}

#[tokio::test]
async fn download_that_breaks_is_repeated() {
    let (proxy, place) = proxied().await;
    place.archive_segments(1, [1]).await;
    let file = name(&segment(1, 1).to_string());
    proxy.set(Fault::Cut(2, 100_000));
    assert_eq!(place.archive.restore_wal(file, &place.path("restored")).await.unwrap(), Restore::Restored);
    assert_eq!(proxy.fault(), Fault::Cut(0, 100_000));
    assert_eq!(std::fs::read(place.path("restored")).unwrap(), content(1, 1));
}

#[tokio::test]
async fn server_that_does_not_answer_ends_at_the_deadline() {
    let proxy = Proxy::start(Server::shared().address()).await;
    proxy.set(Fault::Hang);
    let mut settings = settings(proxy.address, &unique_prefix());
    (settings.request_timeout, settings.deadline) = (Duration::from_millis(200), Duration::from_secs(2));
    let began = Instant::now();
    let error = archive_with(&settings).claim("uid", "db").await.unwrap_err().to_string();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(error.contains("within 2s") && error.contains("no answer within 200ms"), "{error}");
}

#[tokio::test]
async fn unreachable_server_is_told() {
    let proxy = Proxy::start(Server::shared().address()).await;
    let mut settings = settings(proxy.address, &unique_prefix());
    drop(proxy);
    settings.deadline = Duration::from_secs(1);
    tokio::task::yield_now().await;
    let error = archive_with(&settings).claim("uid", "db").await.unwrap_err().to_string();
    assert!(error.contains("check the endpoint, the network, the NetworkPolicies"), "{error}");
}

#[tokio::test]
async fn wrong_credentials_are_told_without_the_secret() {
    for (key_id, secret) in [(KEY_ID, "wrong-secret"), ("wrong-key-id", SECRET)] {
        let mut settings = settings(Server::shared().address(), &unique_prefix());
        settings.credentials.access_key_id = key_id.to_owned();
        settings.credentials.secret_access_key = secret.to_owned();
        let error = archive_with(&settings).claim("uid", "db").await.unwrap_err();
        assert!(matches!(error, ArchiveError::Store(StoreError::Denied { .. })), "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("check the access key, the secret key"), "{text}");
        assert!(!text.contains(key_id) && !text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn missing_bucket_is_told() {
    let mut settings = settings(Server::shared().address(), "");
    settings.url = "s3://no-such-bucket/db".to_owned();
    let archive = archive_with(&settings);
    let file = name(&segment(1, 1).to_string());
    let folder = tempfile::tempdir().unwrap();
    for error in [
        archive.claim("uid", "db").await.unwrap_err(),
        archive.restore_wal(file, &folder.path().join("file")).await.unwrap_err(),
        archive.backups().await.unwrap_err(),
    ] {
        assert!(matches!(error, ArchiveError::Store(StoreError::NoBucket { .. })), "{error}");
    }
}

#[tokio::test]
async fn restore_that_is_dropped_leaves_nothing() {
    let (proxy, place) = proxied().await;
    place.archive_segments(1, [1]).await;
    std::fs::remove_file(place.path(&segment(1, 1).to_string())).unwrap();
    proxy.set(Fault::Hang);
    let file = name(&segment(1, 1).to_string());
    let path = place.path("restored");
    let restore = place.archive.restore_wal(file, &path);
    assert!(tokio::time::timeout(Duration::from_millis(200), restore).await.is_err());
    assert_eq!(crate::support::files(place.folder.path()), [""; 0]);
}

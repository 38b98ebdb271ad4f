//! Answers that no server should send are errors, and take little memory.

use std::time::Duration;

use bytes::Bytes;
use postgres_archive::{Archive, ArchiveError, StoreError};

use crate::{
    fake::{Fake, Hostile, Object},
    support::{LINEAGE, SYSTEM, archive_with, name, segment, settings},
};

/// Returns a server with a behavior, and an archive on it that soon gives up a hostile one.
async fn hostile(hostile: Option<Hostile>) -> (Fake, Archive) {
    let fake = Fake::start().await;
    fake.with(|state| state.hostile = hostile);
    let mut settings = settings(fake.address, "db");
    if hostile.is_some() {
        settings.deadline = Duration::from_millis(300);
    }
    let archive = archive_with(&settings);
    (fake, archive)
}

#[tokio::test]
async fn hostile_answers_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for answer in [Hostile::Endless, Hostile::Length(1 << 20), Hostile::Length(u64::MAX / 2), Hostile::Html] {
        let (_fake, archive) = hostile(Some(answer)).await;
        let file = name(&segment(1, 1).to_string());
        let restored = archive.restore_wal(file, &folder.path().join("file")).await;
        assert!(restored.is_err(), "{answer:?}: {restored:?}");
        assert_eq!(crate::support::files(folder.path()), [""; 0]);
        assert!(archive.claim("uid", "db").await.is_err(), "{answer:?}");
        assert!(archive.backups().await.is_err() || answer == Hostile::Html, "{answer:?}");
        assert!(archive.histories().await.is_err() || answer == Hostile::Html, "{answer:?}");
    }
}

#[tokio::test]
async fn key_that_is_no_path_is_named() {
    let (fake, archive) = hostile(None).await;
    let key = format!("db/{LINEAGE}/{SYSTEM}/wal//x");
    fake.with(|state| state.objects.insert(key, Object { content: Bytes::new(), sha256: None }));
    let error = archive.all_segments().await.unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::Malformed { .. })), "{error}");
    assert!(error.to_string().contains("wal//x"), "{error}");
}

#[tokio::test]
async fn objects_outside_of_the_folder_are_ignored() {
    let (fake, archive) = hostile(None).await;
    let other = format!("db/other-{LINEAGE}/{SYSTEM}/wal/00000001/{}.zst", segment(1, 1));
    fake.with(|state| state.objects.insert(other, Object { content: Bytes::new(), sha256: None }));
    assert!(archive.all_segments().await.unwrap().is_empty());
}

#[tokio::test]
async fn small_pages_are_one_listing() {
    let (fake, archive) = hostile(None).await;
    fake.with(|state| {
        state.page = 7;
        for number in 0..200 {
            let key = format!("db/{LINEAGE}/{SYSTEM}/wal/00000001/{}.zst", segment(1, number));
            state.objects.insert(key, Object { content: Bytes::new(), sha256: None });
        }
    });
    assert_eq!(archive.all_segments().await.unwrap().len(), 200);
}

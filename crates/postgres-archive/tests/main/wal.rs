//! WAL comes back as it was archived.

use std::fs;

use postgres_archive::{ArchiveError, Damage, HeaderError, Put, Restore, StoreError};
use postgres_model::timeline::History;

use crate::support::{Place, content, files, name, random, segment, timeline};

const SEGMENT: &str = "000000010000000000000003";
const HISTORY: &str = "1\t0/3000000\tno recovery target specified\n";

async fn restore(place: &Place, file: &str) -> Result<Restore, ArchiveError> {
    place.archive.restore_wal(name(file), &place.path("RECOVERYXLOG")).await
}

#[tokio::test]
async fn every_kind_of_file_comes_back() {
    let place = Place::new();
    let wal = content(1, 3);
    for (file, content) in [
        (SEGMENT, &wal[..]),
        ("000000010000000000000003.partial", &wal),
        ("00000002.history", HISTORY.as_bytes()),
        ("000000010000000000000003.00000028.backup", b"START WAL LOCATION: 0/300028\n"),
    ] {
        place.archive_file(file, content).await;
        assert_eq!(restore(&place, file).await.unwrap(), Restore::Restored);
        assert_eq!(fs::read(place.path("RECOVERYXLOG")).unwrap(), content, "{file}");
        fs::remove_file(place.path(file)).unwrap();
    }
    assert_eq!(files(place.folder.path()), ["RECOVERYXLOG"]);
    assert_eq!(fs::read(place.stored("history/00000002.history")).unwrap(), HISTORY.as_bytes());
    let stored = fs::metadata(place.stored(&format!("wal/00000001/{SEGMENT}.zst"))).unwrap().len();
    assert!(stored < wal.len() as u64 * 6 / 10, "{stored}");
}

#[tokio::test]
async fn file_that_is_not_archived_is_not_found() {
    let place = Place::new();
    for file in [SEGMENT, "00000009.history"] {
        assert_eq!(restore(&place, file).await.unwrap(), Restore::NotFound);
    }
    assert_eq!(files(place.folder.path()), [""; 0]);
    assert_eq!(place.archive.history(timeline(9)).await.unwrap(), None);
}

#[tokio::test]
async fn segment_is_archived_again_only_with_the_same_content() {
    let place = Place::new();
    place.archive_file(SEGMENT, &content(1, 3)).await;
    let again = place.archive.archive_wal(name(SEGMENT), &place.path(SEGMENT)).await.unwrap();
    assert_eq!(again, Put { is_created: false, is_now_unconditional: false });
    let mut other = content(1, 3);
    *other.last_mut().unwrap() ^= 1;
    fs::write(place.path(SEGMENT), &other).unwrap();
    let error = place.archive.archive_wal(name(SEGMENT), &place.path(SEGMENT)).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::Conflict { .. })), "{error}");
    assert_eq!(restore(&place, SEGMENT).await.unwrap(), Restore::Restored);
    assert_eq!(fs::read(place.path("RECOVERYXLOG")).unwrap(), content(1, 3));
}

#[tokio::test]
async fn file_that_is_not_what_its_name_says_is_not_archived() {
    let place = Place::new();
    let wal = content(1, 3);
    for (content, expected) in [
        (&wal[..1 << 19], HeaderError::Length(1 << 19)),
        (&[wal.clone(), wal.clone()].concat(), HeaderError::Size { length: 2 << 20, size: 1 << 20 }),
        (&random(1 << 20, 1), HeaderError::NotWal),
        (b"", HeaderError::Length(0)),
    ] {
        fs::write(place.path(SEGMENT), content).unwrap();
        let error = place.archive.archive_wal(name(SEGMENT), &place.path(SEGMENT)).await.unwrap_err();
        assert!(matches!(&error, ArchiveError::WalFile { error, .. } if *error == expected), "{error}");
    }
    let error = place.archive.archive_wal(name(SEGMENT), &place.path("none")).await.unwrap_err();
    assert!(matches!(error, ArchiveError::File { attempt: "read", .. }), "{error}");
    fs::write(place.path("large"), vec![0; (1 << 20) + 1]).unwrap();
    let error = place.archive.archive_wal(name("00000002.history"), &place.path("large")).await.unwrap_err();
    assert!(matches!(error, ArchiveError::WalFile { error: HeaderError::Length(_), .. }), "{error}");
    assert_eq!(place.archive.all_segments().await.unwrap().len(), 0);
}

#[tokio::test]
async fn damaged_segment_leaves_the_destination() {
    let place = Place::new();
    place.archive_file(SEGMENT, &content(1, 3)).await;
    fs::write(place.path("RECOVERYXLOG"), "old").unwrap();
    let stored = place.stored(&format!("wal/00000001/{SEGMENT}.zst"));
    let good = fs::read(&stored).unwrap();
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    for bad in [&changed[..], &good[..good.len() / 2], b"", b"no zstd"] {
        fs::write(&stored, bad).unwrap();
        let error = restore(&place, SEGMENT).await.unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
    }
    assert_eq!(fs::read(place.path("RECOVERYXLOG")).unwrap(), b"old");
    assert_eq!(files(place.folder.path()), [SEGMENT, "RECOVERYXLOG"]);
}

#[tokio::test]
async fn segment_of_another_name_is_not_restored() {
    let place = Place::new();
    place.archive_segments(1, [3]).await;
    let stored = |number| place.stored(&format!("wal/00000001/{}.zst", segment(1, number)));
    // With its metadata, as a tool that copies objects does.
    let copy = std::process::Command::new("cp").arg("--archive").args([stored(3), stored(4)]).status();
    assert!(copy.unwrap().success());
    let error = restore(&place, &segment(1, 4).to_string()).await.unwrap_err();
    let is_position = |damage: &Damage| matches!(damage, Damage::Wal(HeaderError::Position { .. }));
    assert!(matches!(&error, ArchiveError::Damaged { damage, .. } if is_position(damage)), "{error}");
}

#[tokio::test]
async fn object_without_a_checksum_is_not_restored() {
    let place = Place::new();
    place.archive_segments(1, [3]).await;
    let foreign = place.stored(&format!("wal/00000001/{}.zst", segment(1, 4)));
    fs::write(foreign, "by hand").unwrap();
    let error = restore(&place, &segment(1, 4).to_string()).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { damage: Damage::NoChecksum, .. }), "{error}");
}

#[tokio::test]
async fn histories_are_read() {
    let place = Place::new();
    place.archive_file("00000002.history", HISTORY.as_bytes()).await;
    place.archive_file("00000003.history", format!("{HISTORY}2\t0/5000000\n").as_bytes()).await;
    let histories = place.archive.histories().await.unwrap();
    let expected = History::parse(timeline(2), HISTORY).unwrap();
    assert_eq!(histories.len(), 2);
    assert_eq!(histories[&timeline(2)], expected);
    assert_eq!(place.archive.history(timeline(2)).await.unwrap(), Some(expected));
    assert_eq!(place.archive.history(timeline(1)).await.unwrap(), Some(History::first()));
}

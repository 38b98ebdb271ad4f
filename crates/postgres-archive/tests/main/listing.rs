//! Listings come in pages, in the order of the segments.

use std::fs;

use futures::TryStreamExt;
use postgres_archive::{Backups, RecoveryTarget, check_recovery};
use postgres_model::{
    archive::{ArchiveKey, ArchiveObject},
    timeline::History,
    wal_file::WalFileName,
};

use crate::support::{LINEAGE, Place, SEGMENT, SYSTEM, backup, segment};

#[tokio::test]
async fn segments_are_listed_from_any_of_them() {
    let place = Place::new();
    for segment in (1..=200).map(|number| segment(1, number)).chain([segment(2, 200), segment(2, 201)]) {
        let object = ArchiveObject::Wal(WalFileName::Segment(segment));
        let key = ArchiveKey { lineage: LINEAGE.parse().unwrap(), system: SYSTEM, object };
        place.archive.store().put_new(&key, "WAL").await.unwrap();
    }
    let listed = async |timeline, first| {
        let segments = place.archive.wal_segments(segment(timeline, first));
        segments.map_ok(|found| found.segment).try_collect::<Vec<_>>().await.unwrap()
    };
    let expected = |timeline, numbers: std::ops::RangeInclusive<u64>| {
        numbers.map(|number| segment(timeline, number)).collect::<Vec<_>>()
    };
    assert_eq!(listed(1, 0).await, expected(1, 1..=200));
    assert_eq!(listed(1, 150).await, expected(1, 150..=200));
    assert_eq!(listed(1, 201).await, []);
    assert_eq!(listed(2, 1).await, expected(2, 200..=201));
    assert_eq!(listed(3, 1).await, []);
}

#[tokio::test]
async fn many_pages_are_one_listing() {
    let place = Place::new();
    // The server takes any file for an object.
    let folder = place.stored("wal/00000001");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..2500 {
        fs::write(folder.join(format!("{}.zst", segment(1, number))), "").unwrap();
    }
    let segments = place.archive.wal_segments(segment(1, 0)).map_ok(|found| found.segment);
    let expected: Vec<_> = (0..2500).map(|number| segment(1, number)).collect();
    assert_eq!(segments.try_collect::<Vec<_>>().await.unwrap(), expected);
    assert_eq!(place.archive.all_segments().await.unwrap().len(), 2500);
}

#[tokio::test]
async fn objects_of_other_programs_are_ignored() {
    let place = Place::new();
    place.archive_segments(1, 1..=3).await;
    for foreign in [
        "wal/00000001/README.md",
        "wal/00000001/000000020000000000000001.zst",
        "wal/00000001/000000010000000000000004",
        "wal/x/y/z",
        "history/00000002.history.bak",
        "base/today/manifest.json",
        "base/20270115T080000Z-00000001/data.tar.zst.1",
    ] {
        let path = place.stored(foreign);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "foreign").unwrap();
    }
    place.archive_file("000000010000000000000002.00000028.backup", b"label").await;
    assert_eq!(place.archive.all_segments().await.unwrap().len(), 3);
    assert!(place.archive.histories().await.unwrap().is_empty());
    let Backups { complete, incomplete, unreadable } = place.archive.backups().await.unwrap();
    assert!(complete.is_empty() && incomplete.is_empty() && unreadable.is_empty());
}

#[tokio::test]
async fn hole_in_the_archive_is_found_before_a_recovery() {
    let place = Place::new();
    place.archive_segments(1, 1..=5).await;
    place.back_up(backup(1, 2, 0), b"tar").await;
    let check = async |target| {
        let backups = place.archive.backups().await.unwrap().complete;
        let segments = place.archive.all_segments().await.unwrap();
        check_recovery(&backups, &History::first(), &segments, target)
    };
    let plan = check(RecoveryTarget::Latest).await.unwrap();
    assert_eq!((plan.first, plan.last), (segment(1, 2), segment(1, 5)));
    fs::remove_file(place.stored(&format!("wal/00000001/{}.zst", segment(1, 4)))).unwrap();
    let error = check(RecoveryTarget::Latest).await.unwrap_err().to_string();
    assert!(error.contains(&segment(1, 4).to_string()), "{error}");
    let before = RecoveryTarget::Lsn(postgres_model::lsn::Lsn(4 * SEGMENT - 1));
    assert_eq!(check(before).await.unwrap().last, segment(1, 3));
}

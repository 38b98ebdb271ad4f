//! Base backups come back byte for byte, or with an error.

use std::{fs, io};

use postgres_archive::{ArchiveError, BackupWriter, Damage, Manifest, StoreError};
use postgres_model::archive::BackupId;
use tokio::io::AsyncReadExt;

use crate::support::{LINEAGE, Place, SYSTEM, backup, content, files, random, segment};

async fn read(place: &Place, manifest: Manifest) -> Result<Vec<u8>, ArchiveError> {
    let mut reader = place.archive.read_backup(manifest)?;
    let mut tar = Vec::new();
    while let Some(piece) = reader.next_piece().await? {
        tar.extend_from_slice(&piece);
    }
    Ok(tar)
}

fn part(id: &BackupId, number: u32) -> String {
    format!("base/{id}/data.tar.zst.{number:05}")
}

#[tokio::test]
async fn backup_comes_back_byte_for_byte() {
    let place = Place::new();
    place.archive_segments(1, [1]).await;
    for (second, tar) in
        [(0, random(1 << 20, 1)), (1, Vec::new()), (2, b"tar".to_vec()), (3, vec![0; 3 << 20])]
    {
        let written = place.back_up(backup(1, 1, second), &tar).await;
        assert_eq!(written.backup.raw_bytes, tar.len() as u64);
        let manifest = place.archive.manifest(&written.backup.id).await.unwrap();
        assert_eq!(manifest, written);
        assert_eq!(read(&place, manifest.clone()).await.unwrap(), tar);
        let mut reader = place.archive.read_backup(manifest).unwrap().into_async_read();
        let mut again = Vec::new();
        reader.read_to_end(&mut again).await.unwrap();
        assert_eq!(again, tar);
    }
    assert_eq!(place.archive.backups().await.unwrap().complete.len(), 4);
}

#[tokio::test]
async fn parts_have_the_chosen_size() {
    let place = Place::new();
    let id = backup(1, 1, 0).id;
    let writer = BackupWriter::new(place.archive.clone(), id.clone()).part_bytes(1000);
    let data = writer.write(&random(50_000, 1)[..]).await.unwrap();
    let (last, full) = data.parts.split_last().unwrap();
    // The smallest part has 1 KiB.
    assert!(full.len() > 10 && full.iter().all(|part| part.bytes == 1024));
    assert!((1..=1024).contains(&last.bytes));
    assert_eq!(data.stored_bytes, data.parts.iter().map(|part| part.bytes).sum::<u64>());
    assert_eq!(files(&place.stored(&format!("base/{id}"))).len(), data.parts.len());
}

#[tokio::test]
async fn damaged_or_missing_part_is_named() {
    let place = Place::new();
    place.archive_segments(1, [1]).await;
    let manifest = place.back_up(backup(1, 1, 0), &random(100_000, 1)).await;
    let key = part(&manifest.backup.id, 2);
    let stored = place.stored(&key);
    let good = fs::read(&stored).unwrap();
    let damage = async || match read(&place, manifest.clone()).await {
        Err(ArchiveError::Damaged { key: found, damage }) => {
            assert_eq!(found, format!("{LINEAGE}/{SYSTEM}/{key}"));
            damage
        }
        other => panic!("{other:?}"),
    };
    let mut changed = good.clone();
    changed[500] ^= 1;
    fs::write(&stored, &changed).unwrap();
    assert_eq!(damage().await, Damage::Checksum);
    fs::write(&stored, &good[..1000]).unwrap();
    assert_eq!(damage().await, Damage::Truncated);
    fs::remove_file(&stored).unwrap();
    assert_eq!(damage().await, Damage::Missing);
    let mut reader = place.archive.read_backup(manifest.clone()).unwrap().into_async_read();
    let error = reader.read_to_end(&mut Vec::new()).await.unwrap_err();
    let inner = error.get_ref().and_then(|error| error.downcast_ref::<ArchiveError>());
    assert!(matches!(inner, Some(ArchiveError::Damaged { damage: Damage::Missing, .. })), "{error}");
    fs::write(&stored, [&good[..], b"x"].concat()).unwrap();
    let error = read(&place, manifest.clone()).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::TooLarge { limit: 16384, .. })), "{error}");
    fs::write(&stored, &good).unwrap();
    assert_eq!(read(&place, manifest).await.unwrap(), random(100_000, 1));
}

#[tokio::test]
async fn manifest_that_promises_less_or_more_is_found() {
    let place = Place::new();
    place.archive_segments(1, [1]).await;
    let manifest = place.back_up(backup(1, 1, 0), &random(100_000, 1)).await;
    for (bytes, expected) in [(99_999, Damage::TooLong(99_999)), (100_001, Damage::Truncated)] {
        let mut changed = manifest.clone();
        changed.backup.raw_bytes = bytes;
        let error = read(&place, changed).await.unwrap_err();
        assert!(matches!(&error, ArchiveError::Damaged { damage, .. } if *damage == expected), "{error}");
    }
    let mut fewer = manifest;
    fewer.parts.pop();
    let error = read(&place, fewer).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { damage: Damage::Truncated, .. }), "{error}");
}

#[tokio::test]
async fn backup_is_complete_only_with_its_wal_and_its_parts() {
    let place = Place::new();
    let mut backup = backup(1, 1, 0);
    backup.end_lsn = postgres_model::lsn::Lsn(3 << 20);
    backup.end_wal = segment(1, 2);
    let data = place.write(&backup.id, b"tar").await;
    let manifest = Manifest::new(backup, data);
    let id = manifest.backup.id.clone();
    for number in 1..=2 {
        let error = place.archive.complete_backup(&manifest).await.unwrap_err();
        let expected = segment(1, number);
        assert!(matches!(error, ArchiveError::MissingWal { segment, .. } if segment == expected), "{error}");
        place.archive_segments(1, [number]).await;
    }
    let error = place.archive.manifest(&id).await.unwrap_err();
    assert!(matches!(error, ArchiveError::NoBackup(_)), "{error}");
    assert_eq!(place.archive.backups().await.unwrap().incomplete, std::slice::from_ref(&id));
    let moved = place.path("part");
    fs::rename(place.stored(&part(&id, 0)), &moved).unwrap();
    let error = place.archive.complete_backup(&manifest).await.unwrap_err();
    assert!(matches!(error, ArchiveError::MissingPart { part: 0, .. }), "{error}");
    fs::rename(moved, place.stored(&part(&id, 0))).unwrap();
    assert!(place.archive.complete_backup(&manifest).await.unwrap().is_created);
    assert!(!place.archive.complete_backup(&manifest).await.unwrap().is_created);
    assert_eq!(place.archive.backups().await.unwrap().complete, [manifest.backup]);
}

#[tokio::test]
async fn backup_can_end_on_the_next_timeline() {
    let place = Place::new();
    let mut backup = backup(1, 1, 0);
    backup.end_lsn = postgres_model::lsn::Lsn(3 << 20);
    backup.end_wal = segment(2, 2);
    let data = place.write(&backup.id, b"tar").await;
    let manifest = Manifest::new(backup, data);
    place.archive_segments(1, [1]).await;
    let error = place.archive.complete_backup(&manifest).await.unwrap_err();
    assert!(matches!(error, ArchiveError::MissingWal { segment: missing, .. } if missing == segment(2, 2)));
    place.archive_file("00000002.history", b"1\t0/200050\n").await;
    assert!(place.archive.complete_backup(&manifest).await.is_err());
    place.archive_file(&segment(2, 2).to_string(), &content(1, 2)).await;
    place.archive.complete_backup(&manifest).await.unwrap();
}

#[tokio::test]
async fn second_writer_of_a_backup_is_a_conflict() {
    let place = Place::new();
    let id = backup(1, 1, 0).id;
    let first = place.write(&id, b"tar").await;
    assert_eq!(place.write(&id, b"tar").await, first);
    let second = BackupWriter::new(place.archive.clone(), id).write(&b"other"[..]).await.unwrap_err();
    assert!(matches!(second, ArchiveError::Store(StoreError::Conflict { .. })), "{second}");
}

#[tokio::test]
async fn stream_that_breaks_is_no_backup() {
    let place = Place::new();
    let id = backup(1, 1, 0).id;
    let broken = tokio_util::io::StreamReader::new(Box::pin(futures::stream::iter([
        Ok(bytes::Bytes::from(random(10_000, 1))),
        Err(io::Error::other("pg_basebackup was killed")),
    ])));
    let error = BackupWriter::new(place.archive.clone(), id.clone()).write(broken).await.unwrap_err();
    assert!(error.to_string().contains("pg_basebackup was killed"), "{error}");
    assert!(place.archive.backups().await.unwrap().complete.is_empty());
}

#[tokio::test]
async fn unreadable_manifests_do_not_hide_others() {
    let place = Place::new();
    place.archive_segments(1, [1]).await;
    let [good, later, damaged, large] = [0, 1, 2, 3].map(|second| backup(1, 1, second));
    for backup in [good.clone(), later.clone(), damaged.clone(), large.clone()] {
        place.back_up(backup, b"tar").await;
    }
    let manifest = |id| place.stored(&format!("base/{id}/manifest.json"));
    fs::write(manifest(&later.id), r#"{"version":3}"#).unwrap();
    fs::write(manifest(&damaged.id), "{}").unwrap();
    fs::write(manifest(&large.id), vec![b' '; (16 << 20) + 1]).unwrap();
    let backups = place.archive.backups().await.unwrap();
    assert_eq!(backups.complete.iter().map(|backup| &backup.id).collect::<Vec<_>>(), [&good.id]);
    let errors: Vec<_> = backups.unreadable.iter().map(|backup| backup.error.to_string()).collect();
    assert!(errors[0].contains("version 3"), "{errors:?}");
    assert!(errors[1].contains("damaged"), "{errors:?}");
    assert!(errors[2].contains("more than 16777216 bytes"), "{errors:?}");
}

//! Retention removes what is not needed, also if it is interrupted.

use jiff::Timestamp;
use postgres_archive::{ArchiveError, Pruned, RetentionPlan, RetentionPolicy, StoreError, plan_retention};
use postgres_model::timeline::History;

use crate::{
    fake::{Fake, State},
    support::{LINEAGE, Place, SYSTEM, backup, content, random, segment},
};

const KEEP_ONE: RetentionPolicy = RetentionPolicy { days: None, minimum: 1 };

fn history() -> History {
    History::parse(crate::support::timeline(2), "1\t0/600050\n").unwrap()
}

/// Fills an archive: backups in segments 2 and 4 of timeline 1 and 7 of timeline 2, and one without a
/// manifest.
async fn fill(place: &Place) {
    place.archive.claim("uid", "db").await.unwrap();
    place.archive_segments(1, 1..=8).await;
    place.archive_file("00000002.history", b"1\t0/600050\n").await;
    place.archive_file(&segment(2, 6).to_string(), &content(1, 6)).await;
    place.archive_segments(2, 7..=9).await;
    place.archive_file(&format!("{}.partial", segment(1, 6)), &content(1, 6)).await;
    place.archive_file(&format!("{}.00000028.backup", segment(1, 2)), b"label").await;
    for (timeline, number, second) in [(1, 2, 0), (1, 4, 100), (2, 7, 200)] {
        place.back_up(backup(timeline, number, second), &random(70_000, number)).await;
    }
    place.write(&backup(1, 1, 50).id, &random(70_000, 1)).await;
}

async fn plan(place: &Place, policy: RetentionPolicy) -> RetentionPlan {
    let now = Timestamp::from_second(1_800_000_300).unwrap();
    plan_retention(&place.archive.backups().await.unwrap(), &history(), policy, now)
}

#[tokio::test]
async fn old_backups_and_their_wal_go() {
    let place = Place::new();
    fill(&place).await;
    let keep_two = plan(&place, RetentionPolicy { days: None, minimum: 2 }).await;
    let pruned = place.archive.prune(&keep_two).await.unwrap();
    // Segments 1 to 3 and the backup history of segment 2.
    assert_eq!((pruned.backups, pruned.wal), (1, 4));
    let segments: Vec<_> = place.archive.all_segments().await.unwrap().into_keys().collect();
    let expected = (4..=8).map(|number| segment(1, number)).chain((6..=9).map(|number| segment(2, number)));
    assert_eq!(segments, expected.collect::<Vec<_>>());

    let pruned = place.archive.prune(&plan(&place, KEEP_ONE).await).await.unwrap();
    // Segments 4 to 6 of timeline 1, the partial segment, and segment 6 of timeline 2.
    assert_eq!((pruned.backups, pruned.wal), (1, 5));
    let backups = place.archive.backups().await.unwrap();
    assert_eq!(backups.complete.len(), 1);
    assert_eq!(backups.incomplete, []);
    assert_eq!(place.archive.histories().await.unwrap().len(), 1);
    assert!(!place.archive.claim("uid", "db").await.unwrap().is_created);
    let again = place.archive.prune(&plan(&place, KEEP_ONE).await).await.unwrap();
    assert_eq!(again, Pruned::default());
}

/// Checks that what a listing calls complete is complete.
async fn check(place: &Place) {
    for backup in place.archive.backups().await.unwrap().complete {
        let manifest = place.archive.manifest(&backup.id).await.unwrap();
        let mut reader = place.archive.read_backup(manifest).unwrap();
        while reader.next_piece().await.unwrap().is_some() {}
        assert!(place.archive.all_segments().await.unwrap().contains_key(&backup.begin_wal), "{}", backup.id);
    }
}

#[tokio::test]
async fn interruption_at_any_deletion_ends_the_same() {
    let fake = Fake::start().await;
    let place = Place::on(fake.address);
    fill(&place).await;
    let before = fake.with(|state| state.objects.clone());
    let first = plan(&place, KEEP_ONE).await;
    place.archive.prune(&first).await.unwrap();
    let after = fake.keys();
    let deletions = u32::try_from(before.len() - after.len()).unwrap();
    assert!(deletions > 15 && after.len() > 5, "{deletions} {after:?}");
    for allowed in 0..deletions {
        for is_new_plan in [false, true] {
            fake.with(|state: &mut State| (state.objects, state.deletions) = (before.clone(), allowed));
            let error = place.archive.prune(&first).await.unwrap_err();
            assert!(matches!(error, ArchiveError::Store(StoreError::Denied { .. })), "{error}");
            fake.with(|state| state.deletions = u32::MAX);
            check(&place).await;
            let second = if is_new_plan { plan(&place, KEEP_ONE).await } else { first.clone() };
            place.archive.prune(&second).await.unwrap();
            assert_eq!(fake.keys(), after, "after {allowed} deletions");
        }
    }
}

#[tokio::test]
async fn backup_that_became_complete_stays() {
    let place = Place::new();
    place.archive_segments(1, 1..=3).await;
    let data = place.write(&backup(1, 1, 0).id, b"tar").await;
    place.back_up(backup(1, 2, 100), b"tar").await;
    let plan = plan(&place, RetentionPolicy { days: Some(1), minimum: 1 }).await;
    assert_eq!(plan.incomplete.len(), 1);
    let manifest = postgres_archive::Manifest::new(backup(1, 1, 0), data);
    place.archive.complete_backup(&manifest).await.unwrap();
    assert_eq!(place.archive.prune(&plan).await.unwrap().parts, 0);
    check(&place).await;
}

#[tokio::test]
async fn objects_of_other_programs_stay() {
    let place = Place::new();
    fill(&place).await;
    let foreign =
        [format!("wal/00000001/{}.zst.bak", segment(1, 1)), format!("base/{}/notes.txt", backup(1, 2, 0).id)];
    for file in &foreign {
        std::fs::write(place.stored(file), "foreign").unwrap();
    }
    place.archive.prune(&plan(&place, KEEP_ONE).await).await.unwrap();
    assert!(foreign.iter().all(|file| place.stored(file).exists()), "{LINEAGE}/{SYSTEM}");
}

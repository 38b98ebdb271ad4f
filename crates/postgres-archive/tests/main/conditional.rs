//! Stores that do not know conditional requests.

use http::StatusCode;
use postgres_archive::{ArchiveError, Claim, Put, StoreError};

use crate::{
    fake::{Condition, Fake},
    support::{LINEAGE, Place, SYSTEM, content, name, segment},
};

const CREATED: Put = Put { is_created: true, is_now_unconditional: false };
const TOLD: Put = Put { is_created: true, is_now_unconditional: true };

async fn archive(place: &Place, number: u64, content: &[u8]) -> Result<Put, ArchiveError> {
    let file = segment(1, number).to_string();
    std::fs::write(place.path(&file), content).unwrap();
    place.archive.archive_wal(name(&file), &place.path(&file)).await
}

#[tokio::test]
async fn store_that_honors_conditions_is_told_from_others() {
    let fake = Fake::start().await;
    for (condition, is_conditional) in [
        (Condition::Honored, true),
        (Condition::Ignored, false),
        (Condition::Refused(StatusCode::NOT_IMPLEMENTED), false),
        (Condition::Refused(StatusCode::BAD_REQUEST), false),
    ] {
        fake.with(|state| state.condition = condition);
        let place = Place::on(fake.address);
        assert_eq!(
            place.archive.claim("uid", "db").await.unwrap(),
            Claim { is_created: true, is_conditional }
        );
        assert_eq!(
            place.archive.claim("uid", "db").await.unwrap(),
            Claim { is_created: false, is_conditional }
        );
        assert_eq!(place.archive.store().is_unconditional(), !is_conditional);
        let error = place.archive.claim("other", "db").await.unwrap_err();
        assert!(matches!(error, ArchiveError::Owned { .. }), "{condition:?}: {error}");
        // The marker is still that of the first cluster, with its checksum.
        assert!(!place.archive.claim("uid", "db").await.unwrap().is_created);
    }
}

#[tokio::test]
async fn objects_are_looked_up_before_they_are_written() {
    let fake = Fake::start().await;
    fake.with(|state| state.condition = Condition::Ignored);
    let place = Place::on(fake.address);
    place.archive.claim("uid", "db").await.unwrap();
    assert_eq!(archive(&place, 1, &content(1, 1)).await.unwrap(), CREATED);
    assert!(!archive(&place, 1, &content(1, 1)).await.unwrap().is_created);
    let mut other = content(1, 1);
    other[100_000] ^= 1;
    let error = archive(&place, 1, &other).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::Conflict { .. })), "{error}");
    let restored = place.archive.restore_wal(name(&segment(1, 1).to_string()), &place.path("restored")).await;
    assert!(restored.is_ok() && std::fs::read(place.path("restored")).unwrap() == content(1, 1));
}

#[tokio::test]
async fn conflict_with_a_request_in_flight_is_repeated() {
    let fake = Fake::start().await;
    fake.with(|state| state.busy = 2);
    let place = Place::on(fake.address);
    assert_eq!(archive(&place, 1, &content(1, 1)).await.unwrap(), CREATED);
    assert_eq!(fake.with(|state| state.busy), 0);
}

#[tokio::test]
async fn refused_condition_is_told_once() {
    let fake = Fake::start().await;
    for status in [StatusCode::NOT_IMPLEMENTED, StatusCode::BAD_REQUEST] {
        fake.with(|state| state.condition = Condition::Refused(status));
        let place = Place::on(fake.address);
        assert_eq!(archive(&place, 1, &content(1, 1)).await.unwrap(), TOLD);
        assert_eq!(archive(&place, 2, &content(1, 2)).await.unwrap(), CREATED);
        assert!(place.archive.store().is_unconditional());
        let objects = fake.with(|state| state.objects.clone());
        let stored = objects.keys().filter(|key| key.starts_with(&place.prefix)).count();
        assert_eq!(stored, 2, "{LINEAGE}/{SYSTEM}");
    }
}

//! Objects are written once.

use postgres_archive::{Put, StoreError};
use postgres_model::archive::{ArchiveKey, ArchiveObject};

use crate::{
    fake::{Fake, Object},
    support::{LINEAGE, Place, SYSTEM, segment},
};

const CREATED: Put = Put { is_created: true, is_now_unconditional: false };
const THERE: Put = Put { is_created: false, is_now_unconditional: false };

fn key(number: u64) -> ArchiveKey {
    let object = ArchiveObject::Wal(postgres_model::wal_file::WalFileName::Segment(segment(1, number)));
    ArchiveKey { lineage: LINEAGE.parse().unwrap(), system: SYSTEM, object }
}

#[tokio::test]
async fn same_content_is_there_and_other_content_is_a_conflict() {
    let place = Place::new();
    let store = place.archive.store();
    assert_eq!(store.put_new(&key(1), "one").await, Ok(CREATED));
    assert_eq!(store.put_new(&key(1), "one").await, Ok(THERE));
    let error = store.put_new(&key(1), "two").await.unwrap_err();
    assert_eq!(error, StoreError::Conflict { key: key(1).to_string() });
    assert!(error.to_string().contains(&key(1).to_string()), "{error}");
    assert_eq!(std::fs::read(place.stored(&key(1).object.to_string())).unwrap(), b"one");
}

#[tokio::test]
async fn two_writers_at_the_same_moment_write_one_object() {
    let place = Place::new();
    let store = place.archive.store();
    for number in 0..20 {
        let key = key(number);
        let (first, second) = tokio::join!(store.put_new(&key, "one"), store.put_new(&key, "one"));
        let created = [first, second].map(|put| put.unwrap().is_created);
        assert!(created.contains(&true) && created.contains(&false), "{created:?}");
    }
    for number in 20..40 {
        let key = key(number);
        let (first, second) = tokio::join!(store.put_new(&key, "one"), store.put_new(&key, "two"));
        let content = std::fs::read(place.stored(&key.object.to_string())).unwrap();
        let (winner, loser) = if content == b"one" { (first, second) } else { (second, first) };
        assert_eq!(winner, Ok(CREATED));
        assert_eq!(loser, Err(StoreError::Conflict { key: key.to_string() }));
    }
}

#[tokio::test]
async fn object_of_another_program_is_a_conflict() {
    let fake = Fake::start().await;
    let place = Place::on(fake.address);
    let object = Object { content: "one".into(), sha256: None };
    fake.with(|state| state.objects.insert(format!("{}/{}", place.prefix, key(1)), object.clone()));
    let error = place.archive.store().put_new(&key(1), "one").await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
    assert_eq!(fake.with(|state| state.objects.values().cloned().collect::<Vec<_>>()), [object]);
}

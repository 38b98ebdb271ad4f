//! A part of the archive belongs to one cluster.

use postgres_archive::{Archive, ArchiveError, Claim, Damage};
use postgres_model::system_identifier::SystemIdentifier;

use crate::support::{LINEAGE, Place, SYSTEM};

const UID: &str = "2c1f1c4e-0b51-4f0e-9d3c-6f1f4c1f2a3b";

fn claim(is_created: bool) -> Claim {
    Claim { is_created, is_conditional: true }
}

#[tokio::test]
async fn part_belongs_to_the_first_cluster() {
    let place = Place::new();
    assert_eq!(place.archive.claim(UID, "db").await.unwrap(), claim(true));
    assert_eq!(place.archive.claim(UID, "db").await.unwrap(), claim(false));
    let error = place.archive.claim("99999999-0b51", "db").await.unwrap_err();
    assert!(matches!(&error, ArchiveError::Owned { uid, name, .. } if uid == UID && name == "db"), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot archive to {LINEAGE}/{SYSTEM}/cluster.json: ")));
    assert!(!place.archive.store().is_unconditional());
}

#[tokio::test]
async fn members_claim_at_the_same_time() {
    let place = Place::new();
    let claims = (0..8).map(|_| place.archive.claim(UID, "db"));
    let claims = futures::future::try_join_all(claims).await.unwrap();
    assert_eq!(claims.iter().filter(|claim| claim.is_created).count(), 1);
}

#[tokio::test]
async fn clusters_have_their_own_parts_of_a_prefix() {
    let place = Place::new();
    let store = place.archive.store();
    let other_lineage = Archive::new(store.clone(), "db-99999999".parse().unwrap(), SYSTEM);
    let other_system = Archive::new(store.clone(), LINEAGE.parse().unwrap(), SystemIdentifier(1));
    place.archive.claim(UID, "db").await.unwrap();
    assert_eq!(other_lineage.claim("99999999", "db").await.unwrap(), claim(true));
    assert_eq!(other_system.claim(UID, "db").await.unwrap(), claim(true));
    place.archive_segments(1, 1..=2).await;
    assert_eq!(place.archive.all_segments().await.unwrap().len(), 2);
    assert_eq!(other_lineage.all_segments().await.unwrap().len(), 0);
    assert_eq!(other_system.all_segments().await.unwrap().len(), 0);
}

#[tokio::test]
async fn damaged_and_later_markers_are_refused() {
    let place = Place::new();
    place.archive.claim(UID, "db").await.unwrap();
    let marker = place.stored("cluster.json");
    std::fs::write(&marker, r#"{"version":2,"uid":"x","name":"y"}"#).unwrap();
    let error = place.archive.claim(UID, "db").await.unwrap_err();
    assert!(matches!(error, ArchiveError::Version { version: 2, supported: 1, .. }), "{error}");
    std::fs::write(&marker, "{").unwrap();
    let error = place.archive.claim(UID, "db").await.unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { damage: Damage::Content(_), .. }), "{error}");
}

use proptest::{prelude::*, sample::select};

use super::*;

const PREFIX: &str = "db-2c1f1c4e/7400000000000000001";

fn key(object: ArchiveObject) -> ArchiveKey {
    ArchiveKey {
        lineage: "db-2c1f1c4e".parse().unwrap(),
        system: SystemIdentifier(7_400_000_000_000_000_001),
        object,
    }
}

fn wal(name: &str) -> ArchiveObject {
    ArchiveObject::Wal(name.parse().unwrap())
}

fn backup() -> BackupId {
    "20261123T183000Z-00000002".parse().unwrap()
}

fn objects() -> Vec<(ArchiveObject, &'static str)> {
    let part = |part| ArchiveObject::BackupData { backup: backup(), part };
    vec![
        (ArchiveObject::Marker, "cluster.json"),
        (wal("000000020000000000000003"), "wal/00000002/000000020000000000000003.zst"),
        (wal("000000020000000000000003.partial"), "wal/00000002/000000020000000000000003.partial.zst"),
        (
            wal("000000020000000000000003.00000028.backup"),
            "wal/00000002/000000020000000000000003.00000028.backup.zst",
        ),
        (wal("0000000A.history"), "history/0000000A.history"),
        (part(0), "base/20261123T183000Z-00000002/data.tar.zst.00000"),
        (part(123_456), "base/20261123T183000Z-00000002/data.tar.zst.123456"),
        (ArchiveObject::BackupFileList(backup()), "base/20261123T183000Z-00000002/backup_manifest.zst"),
        (ArchiveObject::BackupManifest(backup()), "base/20261123T183000Z-00000002/manifest.json"),
    ]
}

#[test]
fn each_object_has_its_key() {
    for (object, expected) in objects() {
        let text = format!("{PREFIX}/{expected}");
        assert_eq!(key(object.clone()).to_string(), text);
        assert_eq!(text.parse(), Ok(key(object)));
    }
}

#[test]
fn other_keys_are_refused() {
    for object in [
        "",
        "cluster.json/",
        "wal/00000001/000000020000000000000003.zst",
        "wal/0/000000020000000000000003.zst",
        "wal//000000020000000000000003.zst",
        "wal/000000020/000000020000000000000003.zst",
        "wal/00000002/000000020000000000000003",
        "wal/00000002/00000002.history.zst",
        "history/000000020000000000000003",
        "history/00000002.history.zst",
        "base/20261123T183000Z-00000002",
        "base/20261123T183000Z-00000002/data.tar.zst",
        "base/20261123T183000Z-00000002/data.tar.zst.1",
        "base/20261123T183000Z-00000002/data.tar.zst.000001",
        "base/20261123T183000Z-00000002/data.tar.zst.+0001",
        "base/../manifest.json",
        "other/x",
    ] {
        let text = format!("{PREFIX}/{object}");
        assert_eq!(text.parse::<ArchiveKey>(), Err(ParseArchiveKeyError(text)));
    }
    for text in
        ["", "db", "db/7", "../7/cluster.json", "/7/cluster.json", "db/07/cluster.json", "db/x/cluster.json"]
    {
        assert_eq!(text.parse::<ArchiveKey>(), Err(ParseArchiveKeyError(text.to_owned())));
    }
}

proptest! {
    #[test]
    fn accepted_key_renders_back(
        (_, object) in select(objects()),
        at: prop::sample::Index,
        letter in select(vec!['/', '.', '0', '1', 'A', 'a', 'é']),
        other in "\\PC*",
    ) {
        let text = format!("{PREFIX}/{object}");
        let index = at.index(text.len());
        let mutated = format!("{}{letter}{}", &text[..index], &text[index + 1..]);
        for text in [text, mutated, other] {
            if let Ok(key) = text.parse::<ArchiveKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}

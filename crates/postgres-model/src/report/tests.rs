use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;

fn full() -> Value {
    json!({
        "member": "db-1",
        "podUID": "2c1f1c4e-0b51-4f0e-9d3c-6f1f4c1f2a3b",
        "sequence": 7,
        "state": "Primary",
        "isEmpty": false,
        "systemIdentifier": "7400000000000000001",
        "timeline": 4,
        "positions": { "flushed": "0/5000060" },
        "sealedEpoch": 3,
        "serverVersion": "17.6",
        "pendingRestart": false,
        "standbys": [{ "name": "db-2", "state": "streaming", "syncState": "quorum", "flushed": "0/5000000" }],
        "fencing": true,
        "managerVersion": "0.1.0",
        "lastCleanStop": { "timeline": 3, "lsn": "0/4000028" },
        "freeBytes": 1_073_741_824,
        "totalBytes": 2_147_483_648_u32,
        "diskFull": false,
    })
}

fn decode(json: &Value) -> Result<InstanceReport, ReportError> {
    InstanceReport::decode(json.to_string().as_bytes())
}

fn with(field: &str, value: Value) -> Value {
    let mut json = full();
    json[field] = value;
    json
}

#[test]
fn form_is_stable() {
    let report = decode(&full()).unwrap();
    assert_eq!(report.state, InstanceState::Primary);
    assert_eq!(report.standbys[0].sync_state, SyncState::Quorum);
    let json: Value = serde_json::from_slice(&report.encode().unwrap()).unwrap();
    assert_eq!(json, full());
}

#[test]
fn member_without_data_reports_little() {
    let json = json!({
        "member": "db-1", "podUID": "u", "sequence": 0, "state": "Hold", "pendingRestart": false, "fencing": false,
        "managerVersion": "0.1.0", "freeBytes": 0,
    });
    let report = decode(&json).unwrap();
    assert_eq!((report.timeline, report.positions), (None, WalPositions::default()));
}

#[test]
fn newer_fields_and_states_are_accepted() {
    let mut json = with("state", json!("Hibernating"));
    json["temperature"] = json!({ "celsius": 20 });
    json["standbys"][0]["state"] = json!("napping");
    let report = decode(&json).unwrap();
    assert_eq!(report.state, InstanceState::Unknown);
    assert_eq!(report.standbys[0].state, WalSenderState::Unknown);
}

#[test]
fn sizes_are_bounded() {
    let long = json!("x".repeat(129));
    for (field, most) in [("member", 63), ("podUID", 128), ("serverVersion", 128), ("managerVersion", 128)] {
        let error = decode(&with(field, long.clone())).unwrap_err().to_string();
        let expected =
            format!("{field} in the report of an instance has 129 bytes, and at most {most} are read");
        assert_eq!(error, expected);
    }
    let standby = |name: &str| json!({ "name": name, "state": "streaming", "syncState": "async" });
    let error = decode(&with("standbys", json!([standby(&"x".repeat(64))]))).unwrap_err();
    assert!(matches!(error, ReportError::Text { field: "standbys.name", bytes: 64, most: 63 }), "{error}");
    let databases = json!({ "fingerprint": u64::MAX, "problem": "x".repeat(MAX_PROBLEM + 1) });
    let error = decode(&with("databases", databases)).unwrap_err();
    assert!(matches!(error, ReportError::Text { field: "databases.problem", .. }), "{error}");
    let error = decode(&with("standbys", json!(vec![standby("x"); 65]))).unwrap_err();
    assert!(matches!(error, ReportError::Standbys(65)), "{error}");
    let error = decode(&with("slots", json!(vec!["x"; 65]))).unwrap_err();
    assert!(matches!(error, ReportError::Slots(65)), "{error}");
    let error = decode(&with("slots", json!(["x".repeat(64)]))).unwrap_err();
    assert!(matches!(error, ReportError::Text { field: "slots", bytes: 64, most: 63 }), "{error}");
    let error = decode(&with("other", json!("x".repeat(MAX_BYTES)))).unwrap_err();
    assert!(matches!(error, ReportError::Bytes(_)), "{error}");
}

#[test]
fn invalid_values_are_errors() {
    for (field, value) in [
        ("timeline", json!(0)),
        ("systemIdentifier", json!(7)),
        ("freeBytes", json!(-1)),
        ("lastCleanStop", json!({ "timeline": 1, "lsn": "x" })),
        ("member", Value::Null),
    ] {
        let error = decode(&with(field, value)).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the report of an instance"), "{field}: {error}");
    }
}

fn lsns() -> impl Strategy<Value = Option<Lsn>> {
    option::of(any::<u64>().prop_map(Lsn))
}

fn standbys() -> impl Strategy<Value = Vec<StandbyReport>> {
    let states = select(vec![WalSenderState::Startup, WalSenderState::Streaming, WalSenderState::Unknown]);
    let sync_states = select(vec![SyncState::Async, SyncState::Quorum, SyncState::Unknown]);
    let standby = ("\\PC{0,20}", states, sync_states, lsns());
    let report = |(name, state, sync_state, flushed)| StandbyReport { name, state, sync_state, flushed };
    vec(standby.prop_map(report), 0..MAX_STANDBYS + 2)
}

proptest! {
    #[test]
    fn report_is_encoded_only_if_it_decodes(
        member in "\\PC{0,70}",
        standbys in standbys(),
        (flushed, received, replayed) in (lsns(), lsns(), lsns()),
        stop in option::of((1..9_u32, any::<u64>())),
        identifier in option::of(any::<u64>()),
        (sequence, pending_restart) in (any::<u64>(), any::<bool>()),
    ) {
        let mut report = decode(&full()).unwrap();
        report.last_clean_stop = stop
            .map(|(timeline, lsn)| Position { timeline: TimelineId::new(timeline).unwrap(), lsn: Lsn(lsn) });
        report.system_identifier = identifier.map(SystemIdentifier);
        report.positions = WalPositions { flushed, received, replayed };
        report = InstanceReport { member, sequence, pending_restart, standbys, ..report };
        let is_small = report.check().is_ok();
        prop_assert_eq!(report.encode().is_ok(), is_small);
        if let Ok(json) = report.encode() {
            prop_assert_eq!(InstanceReport::decode(&json).unwrap(), report);
        }
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in vec(any::<u8>(), 0..200), cut in 0..500_usize, at: prop::sample::Index, byte: u8) {
        let _ = InstanceReport::decode(&bytes);
        let mut json = full().to_string().into_bytes();
        json.truncate(cut);
        if !json.is_empty() {
            let index = at.index(json.len());
            json[index] = byte;
        }
        let _ = InstanceReport::decode(&json);
    }
}

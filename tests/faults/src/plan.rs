//! Plans the faults to inject. Pure: the plan depends only on the baseline.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    baseline::{Baseline, points},
    class::Class,
    id::RunId,
    injection::{End, Expiry, FrameFilter, Injection, Outage, Sender, Trigger},
    proxy::{
        request_info::Key,
        rules::{Fault, FrameFault, Which},
    },
    workload::{self, Workload},
};

/// Duration for which a write is rejected.
const REFUSED: Duration = Duration::from_millis(1_500);
/// Duration for which changes are hidden.
const HIDDEN: Duration = Duration::from_millis(700);
/// Delay of requests for a Lease. Longer than the time between two attempts to renew it.
const SLOW_LEASE: Duration = Duration::from_millis(600);
/// Delay of late frames.
const LATE: Duration = Duration::from_millis(300);

/// A planned run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its name.
    pub id: RunId,
    /// The fault.
    pub injection: Injection,
    /// Description of the fault.
    pub description: String,
}

/// Returns all runs of a controller, ordered by class.
pub fn plan(
    controller: &str,
    classes: &[Class],
    latency: f64,
    baselines: &BTreeMap<&'static str, Baseline>,
) -> Vec<Planned> {
    let mut all = Vec::new();
    for class in classes {
        // Runs that do not depend on the workload.
        let mut verdict_of = BTreeSet::new();
        for workload in workload::of(controller) {
            let Some(baseline) = baselines.get(workload.name) else { continue };
            for (point, injection, description) in injections(*class, workload, baseline, latency) {
                let is_once = [7, 10, 11].contains(&class.number());
                if is_once && !verdict_of.insert(description.clone()) {
                    continue;
                }
                let (controller, name) = (controller.to_owned(), workload.name.to_owned());
                let id = RunId { controller, workload: name, class: *class, point };
                all.push(Planned { id, injection, description });
            }
        }
    }
    all
}

type PlannedInjections = Vec<(String, Injection, String)>;

fn injections(class: Class, workload: &Workload, baseline: &Baseline, latency: f64) -> PlannedInjections {
    match class.number() {
        1 => writes(baseline, |_| Fault::CrashAfter),
        2 => writes(baseline, |_| Fault::CrashBefore),
        3 => writes(baseline, |_| Fault::Lost),
        4 => writes(baseline, |_| Fault::Conflict),
        5 => writes(baseline, |_| Fault::Answer { code: 500, retry_after: None }),
        6 => writes(baseline, overload),
        7 => refusals(baseline),
        8 => hidden(baseline),
        9 => outdated_cache(baseline),
        10 => expiries(baseline),
        11 => silences(baseline),
        12 => [1.0, 5.0, 30.0].map(|seconds| slow(seconds, latency)).into(),
        13 => disorder(workload, baseline),
        14 => [("before", 0), ("during", 50), ("after", 500)].map(api_server_away).into(),
        15 => {
            let outage = Injection::Outage(Outage::Etcd(Duration::from_millis(50)));
            vec![("during".to_owned(), outage, "etcd is killed and restarted".to_owned())]
        }
        16 => [("killed", End::Killed), ("frozen", End::Frozen), ("cut-off", End::CutOff)]
            .map(leader_out)
            .into(),
        17 => [("ahead", 300), ("behind", -300)].map(clock).into(),
        19 => third_party_changes(workload),
        20 => leases(baseline),
        _ => Vec::new(),
    }
}

/// Plans one fault for each write.
fn writes(baseline: &Baseline, fault: impl Fn(usize) -> Fault) -> PlannedInjections {
    let points = points(&baseline.writes).into_iter().enumerate();
    points
        .map(|(place, (key, nth))| {
            let description = format!("{key}, time {nth}");
            let (sender, which) = (Sender::Manager, Which::Nth(key, nth));
            let injection = Injection::Requests { sender, which, fault: fault(place), heal_after: None };
            (format!("w{}", place + 1), injection, description)
        })
        .collect()
}

/// Returns responses of an overloaded API server, in turn.
fn overload(place: usize) -> Fault {
    match place % 3 {
        0 => Fault::Answer { code: 429, retry_after: Some(1) },
        1 => Fault::Answer { code: 503, retry_after: None },
        _ => Fault::Answer { code: 504, retry_after: None },
    }
}

/// Plans rejections of all writes of each resource.
fn refusals(baseline: &Baseline) -> PlannedInjections {
    let pairs: BTreeSet<_> = baseline.writes.iter().map(|(key, _)| (&key.verb, &key.resource)).collect();
    let codes = |(verb, resource): (&String, &String)| {
        [403, 422].map(|code| {
            let which = Which::Writes { verb: verb.clone(), resource: resource.clone() };
            let fault = Fault::Answer { code, retry_after: None };
            let description = format!("{verb} {resource} returns {code} for {REFUSED:?}");
            let point = format!("{verb}-{}-{code}", resource.replace('/', "-"));
            let (sender, heal_after) = (Sender::Manager, Some(REFUSED));
            (point, Injection::Requests { sender, which, fault, heal_after }, description)
        })
    };
    pairs.into_iter().flat_map(codes).collect()
}

/// Plans to hide frames: from the first and from the last frame of each type.
fn hidden(baseline: &Baseline) -> PlannedInjections {
    let mut injections = Vec::new();
    for (resource, event, count) in baseline.frame_counts.iter().filter(|record| record.1 != "BOOKMARK") {
        let places: BTreeSet<_> = [1, *count].into();
        for nth in places {
            let fault = FrameFault::Hide(HIDDEN);
            let description =
                format!("{event} {resource}, number {nth}, and all later changes are hidden until a relist");
            let (resource, event) = (resource.clone(), event.clone());
            let frames =
                vec![FrameFilter { resource: Some(resource), event: Some(event), nth: Some(nth), fault }];
            injections.push((format!("n{}", injections.len() + 1), Injection::Frames(frames), description));
        }
    }
    injections
}

fn outdated_cache(baseline: &Baseline) -> PlannedInjections {
    let points = points(&baseline.writes).into_iter().filter(|(key, _)| key.verb == "delete");
    let writes = points.map(|(key, nth)| (format!("{key}, time {nth}"), Trigger::Write(key, nth)));
    let gone = baseline.frame_counts.iter().filter(|(_, event, _)| event == "DELETED");
    let gone = gone
        .map(|(resource, ..)| (format!("the first deletion of {resource}"), Trigger::Gone(resource.clone())));
    let all = writes.chain(gone).enumerate();
    all.map(|(place, (description, trigger))| {
        (format!("t{}", place + 1), Injection::OutdatedCache(trigger), description)
    })
    .collect()
}

/// Returns the resources that the manager watches.
fn watched(baseline: &Baseline) -> BTreeSet<&String> {
    baseline.frame_counts.iter().map(|(resource, ..)| resource).collect()
}

fn expiries(baseline: &Baseline) -> PlannedInjections {
    let ways =
        [(Expiry::InStream, "in-stream"), (Expiry::AtConnect, "at-connect"), (Expiry::Continue, "continue")];
    let of_resource = |resource: &String| {
        ways.map(|(expiry, name)| {
            let description = format!("{resource}, {name}");
            (format!("{resource}-{name}"), Injection::Expire(resource.clone(), expiry), description)
        })
    };
    watched(baseline).into_iter().flat_map(of_resource).collect()
}

fn silences(baseline: &Baseline) -> PlannedInjections {
    let silence = |resource: &String| {
        (resource.clone(), Injection::Silence(resource.clone()), format!("the watch of {resource}"))
    };
    watched(baseline).into_iter().map(silence).collect()
}

fn slow(seconds: f64, latency: f64) -> (String, Injection, String) {
    let delay = Duration::from_secs_f64(seconds * latency);
    let (sender, which) = (Sender::Manager, Which::Everything);
    let injection = Injection::Requests { sender, which, fault: Fault::Delay(delay), heal_after: None };
    (format!("{seconds}s"), injection, format!("each request is delayed by {delay:?}"))
}

/// Plans faults for each write of a Lease by a member, and for all its requests for a while.
fn leases(baseline: &Baseline) -> PlannedInjections {
    let plan = |name: String, which: &Which, fault: Fault, heal_after, description: String| {
        let injection =
            Injection::Requests { sender: Sender::Members, which: which.clone(), fault, heal_after };
        (name, injection, description)
    };
    let once = |(place, (key, nth)): (usize, (Key, usize))| {
        let number = place + 1;
        let description = format!("{key}, time {nth}");
        let which = Which::Nth(key, nth);
        let faults = [
            ("lost", Fault::Lost),
            ("conflict", Fault::Conflict),
            ("error", Fault::Answer { code: 500, retry_after: None }),
            ("overload", overload(place)),
        ];
        faults.map(|(name, fault)| plan(format!("{name}-{number}"), &which, fault, None, description.clone()))
    };
    let points = points(&baseline.lease_writes);
    let all = Which::Everything;
    let refused = Fault::Answer { code: 403, retry_after: None };
    let for_a_while = [
        ("refused", refused, format!("each request returns 403 for {REFUSED:?}")),
        (
            "slow",
            Fault::Delay(SLOW_LEASE),
            format!("each request is delayed by {SLOW_LEASE:?} for {REFUSED:?}"),
        ),
    ];
    let for_a_while = for_a_while
        .map(|(name, fault, description)| plan(name.to_owned(), &all, fault, Some(REFUSED), description));
    let has_members = !points.is_empty();
    let once = points.into_iter().enumerate().flat_map(once);
    once.chain(for_a_while.into_iter().filter(|_| has_members)).collect()
}

/// Plans reordered, duplicated, and delayed frames.
fn disorder(workload: &Workload, baseline: &Baseline) -> PlannedInjections {
    let main = workload::kind(workload.controller).resource();
    let all = |fault| Injection::Frames(vec![FrameFilter { resource: None, event: None, nth: None, fault }]);
    let others = watched(baseline).into_iter().filter(|resource| **resource != main);
    let late = others.map(|resource| {
        let resource = Some(resource.clone());
        FrameFilter { resource, event: None, nth: None, fault: FrameFault::Late(LATE) }
    });
    let mut injections = vec![
        ("twice".to_owned(), all(FrameFault::Duplicate), "each notification is sent twice".to_owned()),
        (
            "again".to_owned(),
            all(FrameFault::Again(LATE)),
            "each notification is followed by the previous one".to_owned(),
        ),
    ];
    let late: Vec<_> = late.collect();
    if !late.is_empty() {
        let description = format!("notifications of all resources except {main} are delayed by {LATE:?}");
        injections.push(("late".to_owned(), Injection::Frames(late), description));
    }
    injections
}

fn api_server_away((point, after): (&str, u64)) -> (String, Injection, String) {
    let outage = Injection::Outage(Outage::ApiServer(Duration::from_millis(after)));
    (point.to_owned(), outage, format!("the API server is killed {point} the change and restarted"))
}

fn leader_out((point, end): (&str, End)) -> (String, Injection, String) {
    (
        point.to_owned(),
        Injection::Outage(Outage::Leader(end)),
        format!("the leader is {point} during the change"),
    )
}

fn clock((point, seconds): (&str, i64)) -> (String, Injection, String) {
    let description = format!(
        "the leader is killed during the change, and the clock of its successor is 5 minutes {point}"
    );
    (point.to_owned(), Injection::Outage(Outage::Clock(seconds)), description)
}

/// Plans modifications by a third party, and changes of the CRDs.
fn third_party_changes(workload: &Workload) -> PlannedInjections {
    let description = "the CRDs are changed during the change, and reverted".to_owned();
    let mut injections =
        vec![("definitions".to_owned(), Injection::Outage(Outage::Definitions), description)];
    if workload.name == "create" {
        let all = workload::third_party_changes(workload.controller).iter();
        injections.extend(
            all.map(|(name, steps)| ((*name).to_owned(), Injection::Modify(*steps), name.replace('-', " "))),
        );
    }
    injections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline() -> Baseline {
        let key = |verb: &str, resource: &str| Key {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            name: "n/RUN".to_owned(),
        };
        let writes =
            vec![(key("create", "events"), 1), (key("create", "pods"), 2), (key("delete", "pods"), 1)];
        let frame_counts =
            [("pods", "ADDED", 3), ("pods", "DELETED", 1), ("podsets.app.example.com", "ADDED", 1)];
        let frame_counts =
            frame_counts.map(|(resource, event, count)| (resource.to_owned(), event.to_owned(), count));
        Baseline { writes, frame_counts: frame_counts.into(), ..Baseline::default() }
    }

    fn points(class: &str, workloads: &[&'static str]) -> Vec<String> {
        let baselines = workloads.iter().map(|name| (*name, baseline())).collect();
        let points = || {
            let all = plan("podset", &[class.parse().unwrap()], 1.0, &baselines);
            all.into_iter().map(|planned| planned.id.point).collect::<Vec<_>>()
        };
        assert_eq!(points(), points());
        points()
    }

    #[test]
    fn plans_each_write_once_per_class_with_time_dependent_ones_last() {
        for class in ["F1", "F2", "F3", "F4", "F5", "F6"] {
            assert_eq!(points(class, &["create"]), ["w1", "w2", "w3", "w4"], "{class}");
            assert_eq!(points(class, &["create", "delete"]).len(), 8, "{class}");
        }
        let description: Vec<_> =
            injections("F1".parse().unwrap(), &workload::of("podset")[0], &baseline(), 1.0)
                .into_iter()
                .map(|(.., description)| description)
                .collect();
        assert!(
            description[0].starts_with("create pods") && description[3].starts_with("create events"),
            "{description:?}"
        );
    }

    #[test]
    fn plans_each_fault_for_each_write_of_a_lease() {
        let key = |verb: &str| Key {
            verb: verb.to_owned(),
            resource: "leases.coordination.k8s.io".to_owned(),
            name: "n/RUN".to_owned(),
        };
        let lease_writes = vec![(key("create"), 1), (key("update"), 2)];
        let planned = leases(&Baseline { lease_writes, ..Baseline::default() });
        let points: Vec<_> = planned.iter().map(|(point, ..)| point.as_str()).collect();
        assert_eq!((points.len(), &points[..2]), (14, &["lost-1", "conflict-1"][..]));
        assert!(planned.iter().all(|(_, injection, _)| {
            matches!(injection, Injection::Requests { sender: Sender::Members, .. })
        }));
        assert_eq!(leases(&baseline()).len(), 0, "without members");
    }

    #[test]
    fn plans_controller_wide_faults_once() {
        for (class, count) in [("F7", 6), ("F10", 6), ("F11", 2)] {
            assert_eq!(points(class, &["create", "delete"]).len(), count, "{class}");
        }
    }

    #[test]
    fn hides_frames_from_first_and_last_of_each_type() {
        assert_eq!(points("F8", &["create"]).len(), 4);
        assert_eq!(points("F9", &["create"]), ["t1", "t2"]);
        assert_eq!(points("F12", &["create"]), ["1s", "5s", "30s"]);
        assert_eq!(points("F13", &["create"]), ["twice", "again", "late"]);
    }

    #[test]
    fn third_party_changes_follow_creation() {
        assert!(points("F19", &["create"]).len() > 1);
        assert_eq!(points("F19", &["delete"]), ["definitions"]);
    }
}

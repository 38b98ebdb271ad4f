//! Which faults are tried. Pure: the same reference always gives the same plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    blow::{Blow, End, Expiry, Outage, Told, Trigger},
    class::Class,
    id::RunId,
    learn::Reference,
    proxy::rules::{Fault, Twist, Which},
    workload::{self, Workload},
};

/// How long a write is refused that is refused for a while.
const REFUSED: Duration = Duration::from_millis(1_500);
/// How long changes are hidden.
const HIDDEN: Duration = Duration::from_millis(700);
/// How much later notifications come.
const LATE: Duration = Duration::from_millis(300);

/// One run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its name.
    pub id: RunId,
    /// What goes wrong.
    pub blow: Blow,
    /// What goes wrong, in words.
    pub words: String,
}

/// All runs of a controller, in the order of classes.
pub fn plan(
    controller: &str,
    classes: &[Class],
    latency: f64,
    references: &BTreeMap<&'static str, Reference>,
) -> Vec<Planned> {
    let mut all = Vec::new();
    for class in classes {
        // What is tried once for a controller, whatever is done to its objects.
        let mut tried = BTreeSet::new();
        for workload in workload::of(controller) {
            let Some(reference) = references.get(workload.name) else { continue };
            for (point, blow, words) in blows(*class, workload, reference, latency) {
                let is_once = [7, 10, 11].contains(&class.number());
                if is_once && !tried.insert(words.clone()) {
                    continue;
                }
                let (controller, name) = (controller.to_owned(), workload.name.to_owned());
                let id = RunId { controller, workload: name, class: *class, point };
                all.push(Planned { id, blow, words });
            }
        }
    }
    all
}

type Blows = Vec<(String, Blow, String)>;

fn blows(class: Class, workload: &Workload, reference: &Reference, latency: f64) -> Blows {
    match class.number() {
        1 => writes(reference, |_| Fault::CrashAfter),
        2 => writes(reference, |_| Fault::CrashBefore),
        3 => writes(reference, |_| Fault::Lost),
        4 => writes(reference, |_| Fault::Conflict),
        5 => writes(reference, |_| Fault::Answer { code: 500, retry_after: None }),
        6 => writes(reference, overload),
        7 => refusals(reference),
        8 => hidden(reference),
        9 => travels(reference),
        10 => expiries(reference),
        11 => silences(reference),
        12 => [1.0, 5.0, 30.0].map(|seconds| slow(seconds, latency)).into(),
        13 => disorder(workload, reference),
        14 => [("before", 0), ("during", 50), ("after", 500)].map(api_server_away).into(),
        15 => {
            let outage = Blow::Outage(Outage::Etcd(Duration::from_millis(50)));
            vec![("during".to_owned(), outage, "etcd is killed and comes back".to_owned())]
        }
        16 => [("killed", End::Killed), ("frozen", End::Frozen), ("cut-off", End::CutOff)]
            .map(leader_out)
            .into(),
        17 => [("ahead", 300), ("behind", -300)].map(clock).into(),
        19 => disturbances(workload),
        _ => Vec::new(),
    }
}

/// A fault at each write.
fn writes(reference: &Reference, fault: impl Fn(usize) -> Fault) -> Blows {
    let points = reference.points().into_iter().enumerate();
    points
        .map(|(place, (key, nth))| {
            let words = format!("{key}, time {nth}");
            let blow = Blow::Requests { which: Which::Nth(key, nth), fault: fault(place), heals: None };
            (format!("w{}", place + 1), blow, words)
        })
        .collect()
}

/// The answers of an API server that has too much to do, in turn.
fn overload(place: usize) -> Fault {
    match place % 3 {
        0 => Fault::Answer { code: 429, retry_after: Some(1) },
        1 => Fault::Answer { code: 503, retry_after: None },
        _ => Fault::Answer { code: 504, retry_after: None },
    }
}

/// Each write of each resource refused for a while.
fn refusals(reference: &Reference) -> Blows {
    let pairs: BTreeSet<_> = reference.writes.iter().map(|(key, _)| (&key.verb, &key.resource)).collect();
    let codes = |(verb, resource): (&String, &String)| {
        [403, 422].map(|code| {
            let which = Which::Writes { verb: verb.clone(), resource: resource.clone() };
            let fault = Fault::Answer { code, retry_after: None };
            let words = format!("{verb} {resource} gets {code} for {REFUSED:?}");
            let point = format!("{verb}-{}-{code}", resource.replace('/', "-"));
            (point, Blow::Requests { which, fault, heals: Some(REFUSED) }, words)
        })
    };
    pairs.into_iter().flat_map(codes).collect()
}

/// The first and the last notification of each sort, with all that follow it, seen only by their outcome.
fn hidden(reference: &Reference) -> Blows {
    let mut blows = Vec::new();
    for (resource, event, count) in reference.notices.iter().filter(|told| told.1 != "BOOKMARK") {
        let places: BTreeSet<_> = [1, *count].into();
        for nth in places {
            let twist = Twist::Hide(HIDDEN);
            let words =
                format!("{event} {resource}, number {nth}, and what follows it is seen by its outcome");
            let (resource, event) = (resource.clone(), event.clone());
            let frames = vec![Told { resource: Some(resource), event: Some(event), nth: Some(nth), twist }];
            blows.push((format!("n{}", blows.len() + 1), Blow::Frames(frames), words));
        }
    }
    blows
}

fn travels(reference: &Reference) -> Blows {
    let points = reference.points().into_iter().filter(|(key, _)| key.verb == "delete");
    let writes = points.map(|(key, nth)| (format!("{key}, time {nth}"), Trigger::Write(key, nth)));
    let gone = reference.notices.iter().filter(|(_, event, _)| event == "DELETED");
    let gone = gone
        .map(|(resource, ..)| (format!("the first {resource} to be gone"), Trigger::Gone(resource.clone())));
    let all = writes.chain(gone).enumerate();
    all.map(|(place, (words, trigger))| (format!("t{}", place + 1), Blow::Travel(trigger), words)).collect()
}

/// The resources of which the manager is told something.
fn watched(reference: &Reference) -> BTreeSet<&String> {
    reference.notices.iter().map(|(resource, ..)| resource).collect()
}

fn expiries(reference: &Reference) -> Blows {
    let ways =
        [(Expiry::InStream, "in-stream"), (Expiry::AtConnect, "at-connect"), (Expiry::Continue, "continue")];
    let of_resource = |resource: &String| {
        ways.map(|(expiry, name)| {
            let words = format!("{resource}, {name}");
            (format!("{resource}-{name}"), Blow::Expire(resource.clone(), expiry), words)
        })
    };
    watched(reference).into_iter().flat_map(of_resource).collect()
}

fn silences(reference: &Reference) -> Blows {
    let silence = |resource: &String| {
        (resource.clone(), Blow::Silence(resource.clone()), format!("the watch of {resource}"))
    };
    watched(reference).into_iter().map(silence).collect()
}

fn slow(seconds: f64, latency: f64) -> (String, Blow, String) {
    let delay = Duration::from_secs_f64(seconds * latency);
    let blow = Blow::Requests { which: Which::Everything, fault: Fault::Delay(delay), heals: None };
    (format!("{seconds}s"), blow, format!("each request takes {delay:?} longer"))
}

/// Notifications in another order than that of what they tell.
fn disorder(workload: &Workload, reference: &Reference) -> Blows {
    let main = workload::kind(workload.controller).resource();
    let all = |twist| Blow::Frames(vec![Told { resource: None, event: None, nth: None, twist }]);
    let others = watched(reference).into_iter().filter(|resource| **resource != main);
    let late = others.map(|resource| {
        let resource = Some(resource.clone());
        Told { resource, event: None, nth: None, twist: Twist::Late(LATE) }
    });
    let mut blows = vec![
        ("twice".to_owned(), all(Twist::Twice), "each notification comes twice".to_owned()),
        (
            "again".to_owned(),
            all(Twist::Again(LATE)),
            "each notification is followed by the one before".to_owned(),
        ),
    ];
    let late: Vec<_> = late.collect();
    if !late.is_empty() {
        let words = format!("notifications of all but {main} come {LATE:?} late");
        blows.push(("late".to_owned(), Blow::Frames(late), words));
    }
    blows
}

fn api_server_away((point, after): (&str, u64)) -> (String, Blow, String) {
    let outage = Blow::Outage(Outage::ApiServer(Duration::from_millis(after)));
    (point.to_owned(), outage, format!("the API server is killed {point} the change and comes back"))
}

fn leader_out((point, end): (&str, End)) -> (String, Blow, String) {
    (point.to_owned(), Blow::Outage(Outage::Leader(end)), format!("the leader is {point} during the change"))
}

fn clock((point, seconds): (&str, i64)) -> (String, Blow, String) {
    let words = format!("the leader is killed during the change, the next one's clock is 5 minutes {point}");
    (point.to_owned(), Blow::Outage(Outage::Clock(seconds)), words)
}

/// What a third hand does to the objects of one workload, and to the definitions during each.
fn disturbances(workload: &Workload) -> Blows {
    let words = "the definitions are changed during the change, and changed back".to_owned();
    let mut blows = vec![("definitions".to_owned(), Blow::Outage(Outage::Definitions), words)];
    if workload.name == "create" {
        let all = workload::disturbances(workload.controller).iter();
        blows.extend(
            all.map(|(name, steps)| ((*name).to_owned(), Blow::Disturb(*steps), name.replace('-', " "))),
        );
    }
    blows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::asked::Key;

    fn reference() -> Reference {
        let key = |verb: &str, resource: &str| Key {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            name: "n/RUN".to_owned(),
        };
        let writes =
            vec![(key("create", "events"), 1), (key("create", "pods"), 2), (key("delete", "pods"), 1)];
        let notices = [("pods", "ADDED", 3), ("pods", "DELETED", 1), ("podsets.app.example.com", "ADDED", 1)];
        let notices = notices.map(|(resource, event, count)| (resource.to_owned(), event.to_owned(), count));
        Reference { writes, notices: notices.into(), ..Reference::default() }
    }

    fn points(class: &str, workloads: &[&'static str]) -> Vec<String> {
        let references = workloads.iter().map(|name| (*name, reference())).collect();
        let points = || {
            let all = plan("podset", &[class.parse().unwrap()], 1.0, &references);
            all.into_iter().map(|planned| planned.id.point).collect::<Vec<_>>()
        };
        assert_eq!(points(), points());
        points()
    }

    #[test]
    fn each_write_is_struck_once_by_each_class_of_writes_and_what_depends_on_time_comes_last() {
        for class in ["F1", "F2", "F3", "F4", "F5", "F6"] {
            assert_eq!(points(class, &["create"]), ["w1", "w2", "w3", "w4"], "{class}");
            assert_eq!(points(class, &["create", "delete"]).len(), 8, "{class}");
        }
        let words: Vec<_> = blows("F1".parse().unwrap(), &workload::of("podset")[0], &reference(), 1.0)
            .into_iter()
            .map(|(.., words)| words)
            .collect();
        assert!(words[0].starts_with("create pods") && words[3].starts_with("create events"), "{words:?}");
    }

    #[test]
    fn what_is_about_a_controller_is_tried_once_for_all_its_workloads() {
        for (class, count) in [("F7", 6), ("F10", 6), ("F11", 2)] {
            assert_eq!(points(class, &["create", "delete"]).len(), count, "{class}");
        }
    }

    #[test]
    fn notifications_are_hidden_from_the_first_and_from_the_last_of_each_sort() {
        assert_eq!(points("F8", &["create"]).len(), 4);
        assert_eq!(points("F9", &["create"]), ["t1", "t2"]);
        assert_eq!(points("F12", &["create"]), ["1s", "5s", "30s"]);
        assert_eq!(points("F13", &["create"]), ["twice", "again", "late"]);
    }

    #[test]
    fn a_third_hand_comes_when_all_is_made() {
        assert!(points("F19", &["create"]).len() > 1);
        assert_eq!(points("F19", &["delete"]), ["definitions"]);
    }
}

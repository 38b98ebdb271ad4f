//! What is left to do for a cluster that is deleted with its volumes. Pure.
//!
//! The standbys stop first, and the primary last, so that nobody takes its place. The volumes follow
//! when no Pod uses them any more. Each step is repeated until its result is seen.

use std::collections::BTreeMap;

use super::Action;
use crate::membership::Serial;

/// What is left of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    /// The member that stops last.
    pub(crate) primary: Option<Serial>,
    /// Pods of the cluster.
    pub(crate) pods: BTreeMap<Serial, Object>,
    /// Whether Pods of the cluster lost their owner: a person keeps them, with `--cascade=orphan`.
    pub(crate) has_orphans: bool,
    /// Pods with names of members that belong to somebody else, and may use the volumes.
    pub(crate) foreign_pods: Vec<Serial>,
    /// Volumes that were created for this cluster, and for no other of its name.
    pub(crate) volumes: BTreeMap<Serial, Object>,
}

/// A Pod or a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) uid: String,
    pub(crate) is_terminating: bool,
}

/// The next step of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) actions: Vec<Action>,
    /// What has to be gone before the next step.
    pub(crate) awaited: Option<Awaited>,
}

/// Objects that a deletion waits for. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Pods(Vec<Serial>),
    Volumes(Vec<Serial>),
}

/// Returns the next step. Without awaited objects, nothing is left to do. Whoever keeps the Pods keeps
/// their volumes too.
pub(crate) fn next(remains: &Remains) -> Deletion {
    if remains.has_orphans {
        return Deletion::default();
    }
    let is_primary = |serial: &Serial| remains.primary == Some(*serial);
    let (primary, standbys): (Vec<_>, Vec<_>) =
        remains.pods.iter().partition(|(serial, _)| is_primary(serial));
    let pods = if standbys.is_empty() { primary } else { standbys };
    if !pods.is_empty() {
        return step(&pods, Action::DeletePod, Awaited::Pods);
    }
    if !remains.foreign_pods.is_empty() {
        return Deletion { actions: Vec::new(), awaited: Some(Awaited::Pods(remains.foreign_pods.clone())) };
    }
    let volumes: Vec<_> = remains.volumes.iter().collect();
    if volumes.is_empty() {
        Deletion::default()
    } else {
        step(&volumes, Action::DeleteVolume, Awaited::Volumes)
    }
}

fn step(
    objects: &[(&Serial, &Object)],
    delete: fn(Serial, String) -> Action,
    await_: fn(Vec<Serial>) -> Awaited,
) -> Deletion {
    let remaining = objects.iter().filter(|(_, object)| !object.is_terminating);
    Deletion {
        actions: remaining.map(|(serial, object)| delete(**serial, object.uid.clone())).collect(),
        awaited: Some(await_(objects.iter().map(|(serial, _)| **serial).collect())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn objects(prefix: &str, serials: &[Serial]) -> BTreeMap<Serial, Object> {
        let object = |serial: &Serial| Object { uid: format!("{prefix}-{serial}"), is_terminating: false };
        serials.iter().map(|serial| (*serial, object(serial))).collect()
    }

    fn remains() -> Remains {
        Remains {
            primary: Some(2),
            pods: objects("p", &[1, 2, 3]),
            has_orphans: false,
            foreign_pods: Vec::new(),
            volumes: objects("v", &[1, 2, 3, 4]),
        }
    }

    /// Deletes objects that are terminating, as Kubernetes does in the end.
    fn collect(remains: &mut Remains) {
        remains.pods.retain(|_, pod| !pod.is_terminating);
        remains.volumes.retain(|_, volume| !volume.is_terminating);
    }

    fn perform(remains: &mut Remains, action: &Action) {
        match action {
            Action::DeletePod(serial, uid) => {
                let is_last = remains.pods.len() == 1;
                assert!(remains.primary != Some(*serial) || is_last, "the primary stops before a standby");
                let pod = remains.pods.get_mut(serial).filter(|pod| pod.uid == *uid);
                pod.unwrap().is_terminating = true;
            }
            Action::DeleteVolume(serial, uid) => {
                assert!(remains.pods.is_empty() && remains.foreign_pods.is_empty(), "a Pod uses the volume");
                let volume = remains.volumes.get_mut(serial).filter(|volume| volume.uid == *uid);
                volume.unwrap().is_terminating = true;
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn standbys_go_before_the_primary_and_volumes_last() {
        let mut remains = remains();
        let mut deleted = Vec::new();
        while let Deletion { actions, awaited: Some(_) } = next(&remains) {
            deleted.extend(actions.clone());
            for action in &actions {
                perform(&mut remains, action);
            }
            assert_eq!(next(&remains).actions, [], "nothing is deleted twice");
            collect(&mut remains);
        }
        let pod = |serial: Serial| Action::DeletePod(serial, format!("p-{serial}"));
        let volume = |serial: Serial| Action::DeleteVolume(serial, format!("v-{serial}"));
        assert_eq!(deleted, [pod(1), pod(3), pod(2), volume(1), volume(2), volume(3), volume(4)]);
    }

    #[test]
    fn orphans_keep_everything() {
        // The cache has not seen that the other Pods are orphans, too.
        let remains = Remains { pods: objects("p", &[1, 2]), has_orphans: true, ..remains() };
        assert_eq!(next(&remains), Deletion::default());
    }

    #[test]
    fn pod_of_somebody_else_keeps_the_volumes() {
        let remains = Remains { pods: BTreeMap::new(), foreign_pods: vec![3], ..remains() };
        let expected = Deletion { actions: Vec::new(), awaited: Some(Awaited::Pods(vec![3])) };
        assert_eq!(next(&remains), expected);
    }

    proptest! {
        /// The controller is killed after some of the actions, and Kubernetes takes its time.
        #[test]
        fn interrupted_deletion_ends(events in vec((0..4usize, any::<bool>()), 0..20), primary in 0..5u32) {
            let mut remains = Remains { primary: Some(primary).filter(|it| *it > 0), ..remains() };
            for (actions, collects) in events.into_iter().chain([(9, true); 4]) {
                let deletion = next(&remains);
                for action in deletion.actions.iter().take(actions) {
                    perform(&mut remains, action);
                }
                if collects {
                    collect(&mut remains);
                }
            }
            prop_assert_eq!(next(&remains), Deletion::default());
        }
    }
}

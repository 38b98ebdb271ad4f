//! Volumes that get full in a cluster that works.

use crate::{schedule::RECOVERY, world::World};

/// Rounds in which a cluster whose volumes are all full must not change any more.
const WAIT: usize = 40;

impl World {
    /// Fills the volume of the primary, and then all of them. Each costs one epoch at most.
    pub(crate) fn fill(&mut self) {
        let (former, epoch) = (self.state.current.clone(), self.state.epoch);
        self.note(|| format!("the volume of {former:?} gets full"));
        self.set_full(|name| Some(name) == former.as_deref());
        for _ in 0..RECOVERY {
            self.round();
            if self.state.current.is_some() && self.state.current != former {
                break;
            }
        }
        assert!(self.state.current.is_some(), "nobody replaces the full primary: {:?}", self.state);
        assert_eq!(self.state.epoch, epoch + 1, "one failover");
        self.set_full(|_| false);
        self.settle("does not recover from a full volume");

        self.note(|| "all volumes get full".to_owned());
        let (promotions, epoch) = (self.promotions(), self.state.epoch);
        self.set_full(|_| true);
        (0..WAIT).for_each(|_| self.round());
        assert_eq!(self.promotions(), promotions, "a full member was promoted");
        assert!(self.state.epoch <= epoch + 1, "the members take turns: {:?}", self.state);
        self.set_full(|_| false);
        self.settle("does not recover from full volumes");
    }

    fn set_full(&mut self, is_full: impl Fn(&str) -> bool) {
        for node in &mut self.nodes {
            node.is_full = is_full(&node.name);
        }
    }
}

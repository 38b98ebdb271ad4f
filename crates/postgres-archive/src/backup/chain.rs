//! Which backups a recovery from an incremental one needs.

use std::collections::BTreeMap;

use postgres_model::archive::BackupId;

use super::manifest::Backup;

/// Complete backups, and which of them are based on which.
#[derive(Debug)]
pub struct Chains<'a>(BTreeMap<&'a BackupId, &'a Backup>);

impl<'a> Chains<'a> {
    /// Returns the chains of these backups.
    pub fn new(complete: &'a [Backup]) -> Self {
        Self(complete.iter().map(|backup| (&backup.id, backup)).collect())
    }

    /// Returns the backup that another one is based on, unless it is missing.
    pub(crate) fn base(&self, backup: &Backup) -> Option<&'a Backup> {
        self.0.get(backup.based_on.as_ref()?).copied()
    }

    /// Returns the backups that a recovery from one restores: a full one first, then each one with that it is
    /// based on the one before. `None`: one of them is missing.
    pub fn of(&self, id: &BackupId) -> Option<Vec<&'a Backup>> {
        let mut chain = vec![*self.0.get(id)?];
        while let Some(last) = chain.last().copied().filter(|last| last.based_on.is_some()) {
            // Manifests that name each other are not from this program.
            if chain.len() > self.0.len() {
                return None;
            }
            chain.push(self.base(last)?);
        }
        chain.reverse();
        Some(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::backup;

    fn backups(count: u8) -> Vec<Backup> {
        let mut backups: Vec<Backup> = Vec::new();
        for number in 1..=count {
            let begin = u64::from(number) << 24;
            let mut next = backup(1, begin, begin + 1, 1_800_000_000 + i64::from(number));
            next.based_on = backups.last().map(|last| last.id.clone());
            backups.push(next);
        }
        backups
    }

    #[test]
    fn chain_begins_with_the_full_backup() {
        let backups = backups(3);
        let chain = Chains::new(&backups).of(&backups[2].id).unwrap();
        assert_eq!(chain, backups.iter().collect::<Vec<_>>());
        assert_eq!(Chains::new(&backups).of(&backups[0].id).unwrap(), [&backups[0]]);
    }

    #[test]
    fn chain_with_a_missing_backup_is_none() {
        let mut backups = backups(3);
        let last = backups[2].id.clone();
        backups.remove(0);
        assert!(Chains::new(&backups).of(&last).is_none());
        assert!(Chains::new(&[]).of(&last).is_none());
    }

    #[test]
    fn backups_that_name_each_other_have_no_chain() {
        let mut backups = backups(2);
        backups[0].based_on = Some(backups[1].id.clone());
        assert!(Chains::new(&backups).of(&backups[1].id).is_none());
    }
}

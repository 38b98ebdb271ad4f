//! How much WAL PostgreSQL keeps on a volume.

const MIB: u64 = 1 << 20;
/// Size of a WAL segment.
const SEGMENT: u64 = 16;

/// Sizes in MiB, for `postgresql.conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalSizes {
    /// WAL after which a checkpoint is complete: PostgreSQL's default, and on small volumes an eighth.
    pub(crate) max: u64,
    /// WAL that is reused and not removed: PostgreSQL's default, and no more than `max`.
    pub(crate) min: u64,
    /// WAL that is kept for standbys that were away: a tenth of the volume, but at least 256 MiB and at
    /// most 1 GiB, and on small volumes a quarter.
    pub(crate) keep: u64,
    /// WAL that replication slots keep at most: a quarter of the volume, but at least 256 MiB, and on small
    /// volumes as much as `keep`.
    pub(crate) slots: u64,
}

impl WalSizes {
    /// Returns the sizes for a volume of this number of bytes. Zero: it is not known.
    pub(crate) fn of(volume: u64) -> Self {
        if volume == 0 {
            return Self { max: 1024, min: 80, keep: 256, slots: 1024 };
        }
        let part = |divisor: u64| volume / MIB / divisor / SEGMENT * SEGMENT;
        let max = part(8).clamp(3 * SEGMENT, 1024);
        let keep = part(10).clamp(part(4).min(256), 1024);
        Self { max, min: max.min(80), keep, slots: part(4).max(keep) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal_fits_on_small_volumes() {
        let sizes = |mib: u64| {
            let WalSizes { max, min, keep, slots } = WalSizes::of(mib * MIB);
            assert!(max + keep.max(slots) <= mib / 2, "{mib}");
            (max, min, keep, slots)
        };
        assert_eq!(sizes(256), (48, 48, 64, 64));
        assert_eq!(sizes(1 << 10), (128, 80, 256, 256));
        assert_eq!(sizes(5 << 10), (640, 80, 512, 1280));
        assert_eq!(sizes(100 << 10), (1024, 80, 1024, 25600));
        assert_eq!(WalSizes::of(0), WalSizes { max: 1024, min: 80, keep: 256, slots: 1024 });
        assert_eq!(WalSizes::of(1).keep, 0);
    }
}

//! Prints how fast WAL and backups are written and read.

use std::{fs, future::Future, io, time::Instant};

use bytes::Bytes;
use futures::stream;
use postgres_archive::{BackupWriter, Manifest, Restore};
use tokio_util::io::StreamReader;

use crate::support::{Place, backup, name, random, segment_of};

/// Size of segments that `initdb` sets by default.
const SEGMENT: u64 = 16 << 20;

fn megabytes() -> u64 {
    let variable = std::env::var("ENSEMBLE_ARCHIVE_MEGABYTES");
    variable.map_or(32, |text| text.parse().expect("ENSEMBLE_ARCHIVE_MEGABYTES should be a number"))
}

/// Runs work and prints its rate, and the rate that the CPU time of this process allows.
#[expect(clippy::cast_precision_loss, reason = "a measurement")]
async fn measure<T>(what: &str, bytes: u64, work: impl Future<Output = T>) -> T {
    let (began, cpu_before) = (Instant::now(), cpu_seconds());
    let result = work.await;
    let megabytes = bytes as f64 / 1e6;
    let (rate, cpu) = (megabytes / began.elapsed().as_secs_f64(), megabytes / (cpu_seconds() - cpu_before));
    println!("{what}: {rate:.0} MB/s of {megabytes:.0} MB, {cpu:.0} MB in a second of CPU time");
    result
}

/// Returns the CPU time of all threads of this process.
#[expect(clippy::cast_precision_loss, reason = "a measurement")]
fn cpu_seconds() -> f64 {
    let stat = procfs::process::Process::myself().unwrap().stat().unwrap();
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

#[tokio::test]
async fn wal_and_backups_pass_at_a_rate() {
    let place = Place::new();
    let segments = (megabytes() << 20).div_ceil(SEGMENT);
    let names: Vec<_> = (1..=segments).map(|number| name(&format!("00000001{number:016X}"))).collect();
    for (file, number) in names.iter().zip(1..) {
        fs::write(place.path(&file.to_string()), segment_of(SEGMENT, 1, number)).unwrap();
    }
    let bytes = segments * SEGMENT;
    measure("archive_wal", bytes, async {
        for file in &names {
            place.archive.archive_wal(*file, &place.path(&file.to_string())).await.unwrap();
        }
    })
    .await;
    measure("restore_wal", bytes, async {
        for file in &names {
            let restored = place.archive.restore_wal(*file, &place.path("RECOVERYXLOG")).await.unwrap();
            assert_eq!(restored, Restore::Restored);
        }
    })
    .await;
    // The window of the compression is shorter, so a repetition compresses no better.
    let chunk = Bytes::from(random(usize::try_from(SEGMENT).unwrap(), 1));
    let chunks = std::iter::repeat_n(chunk, usize::try_from(segments).unwrap()).map(Ok::<_, io::Error>);
    let writer = BackupWriter::new(place.archive.clone(), backup(1, 1, 0).id);
    let tar = StreamReader::new(stream::iter(chunks));
    let data = measure("BackupWriter", bytes, writer.write(tar)).await.unwrap();
    let manifest = Manifest::new(backup(1, 1, 0), data);
    let mut reader = place.archive.read_backup(manifest).unwrap();
    measure("BackupReader", bytes, async {
        let mut read = 0;
        while let Some(piece) = reader.next_piece().await.unwrap() {
            read += piece.len();
        }
        assert_eq!(u64::try_from(read).unwrap(), bytes);
    })
    .await;
    let status = procfs::process::Process::myself().unwrap().status().unwrap();
    println!("peak memory of this process: {} MiB", status.vmhwm.unwrap_or_default() / 1024);
}

//! All operations can be spawned as tasks.

use futures::Stream;
use postgres_archive::BackupWriter;

use crate::support::{Place, backup, name, segment, timeline};

fn is_send<T: Send>(_: &T) {}

fn is_stream<T: Stream + Send + Unpin>(_: &T) {}

#[tokio::test]
async fn operations_are_send() {
    let place = Place::on(([127, 0, 0, 1], 1).into());
    let (archive, id) = (&place.archive, backup(1, 1, 0).id);
    let (file, path) = (name("00000002.history"), place.path("file"));
    is_send(&archive.claim("uid", "db"));
    is_send(&archive.archive_wal(file, &path));
    is_send(&archive.restore_wal(file, &path));
    is_send(&archive.history(timeline(2)));
    is_send(&archive.histories());
    is_send(&archive.all_segments());
    is_send(&archive.backups());
    is_send(&archive.manifest(&id));
    is_send(&archive.prune(&postgres_archive::RetentionPlan::default()));
    is_send(&BackupWriter::new(archive.clone(), id.clone()).write(&b""[..]));
    is_stream(&archive.wal_segments(segment(1, 1)));
}

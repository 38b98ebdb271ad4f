//! Measures the time of each hot path.
#![allow(missing_docs, reason = "the macros of criterion make functions without any")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot be set up ends")]

use criterion::{Criterion, criterion_group, criterion_main};
use micro::HOT_PATHS;
use tokio::runtime::Runtime;

fn hot_paths(criterion: &mut Criterion) {
    let runtime = Box::leak(Box::new(Runtime::new().expect("a runtime")));
    for path in HOT_PATHS {
        let mut once = (path.prepare)(runtime);
        criterion.bench_function(path.name, |bencher| bencher.iter(&mut once));
    }
}

criterion_group!(benches, hot_paths);
criterion_main!(benches);

//! Measures the memory of Pods in a cache with an index, in a process that has nothing else.
#![allow(clippy::expect_used, reason = "a benchmark that cannot be set up ends")]

use micro::CachedPods;
use tokio::runtime::Builder;

/// Number of Pods before and in the measurement. The first ones need what does not grow with the number.
const PODS: [usize; 2] = [1_000, 10_000];

#[expect(clippy::cast_precision_loss, reason = "the value is rounded for output")]
fn main() {
    let runtime = Box::leak(Box::new(Builder::new_current_thread().enable_all().build().expect("a runtime")));
    let [few, many] = PODS;
    let pods = CachedPods::new(runtime);
    pods.add(0..few);
    let before = allocated();
    pods.add(few..many);
    let each = (allocated() - before) as f64 / (many - few) as f64;
    println!("memory of a Pod in a cache of {many}: {each:.2} KiB");
}

/// Returns the memory of this process that no file backs, in KiB.
fn allocated() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

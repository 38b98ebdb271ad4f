//! Has nothing: see the benchmarks.

//! Go programs that tests and clusters with real nodes need. Each is built from its pinned module,
//! once per machine and version.
//!
//! ```no_run
//! let helm = go_tools::HELM.locate()?;
//! # anyhow::Ok(())
//! ```

mod catalog;
mod files;
mod tool;

pub use catalog::{
    COREDNS, HELM, LOCAL_PATH_PROVISIONER, MEMCACHED_EXPORTER, METRICS_SERVER, PROMTOOL, VALE, VERSITYGW,
};
pub use files::{cache, discard, lock, with_suffix};
pub use tool::Tool;

//! Builds images of the catalog and serves them.
//!
//! `cargo run -p images --example serve -- CACHE ADDRESS [IMAGE...]`

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let cache: PathBuf = arguments.next().context("the first argument is the cache directory")?.into();
    let address = arguments.next().context("the second argument is the address to serve on")?;
    let wanted: Vec<_> = arguments.collect();
    let store = Arc::new(images::Store::new(cache.join("archives")));
    for image in images::catalog::all()? {
        if wanted.is_empty() || wanted.iter().any(|name| name == image.name()) {
            let start = Instant::now();
            let layout = image.build(&cache, &|line| eprintln!("{line}"))?;
            store.add(&image, &layout)?;
            println!("{} {} KiB {:.1?}", image.name(), size(&layout)? >> 10, start.elapsed());
        }
    }
    let listener = TcpListener::bind(&address).await.with_context(|| format!("bind {address}"))?;
    println!("serving on {}", listener.local_addr()?);
    axum::serve(listener, images::registry(store)).await.context("serve")
}

fn size(layout: &Path) -> Result<u64> {
    let sizes = fs::read_dir(layout.join("blobs/sha256"))?.map(|entry| Ok(entry?.metadata()?.len()));
    sizes.sum()
}

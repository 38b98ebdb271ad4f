//! Images that the nodes can pull. There is no other registry: the nodes cannot reach the Internet.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use images::{Config, Content, Image, Store, catalog};

use crate::progress::Progress;

/// Builds the images of the add-ons and the catalog, unless they are cached.
///
/// # Errors
/// Returns an error if an image cannot be built, for example without the lists of Debian packages.
pub(crate) fn build(progress: &Progress) -> Result<Vec<(Image, PathBuf)>> {
    let cache = go_tools::cache()
        .context("cannot choose a directory for the images of nodes; set HOME or XDG_CACHE_HOME")?;
    let mut images = add_ons()?;
    images.extend(catalog::all()?);
    images
        .into_iter()
        .map(|image| {
            let layout = image.build(&cache, &|line| progress.report(line))?;
            Ok((image, layout))
        })
        .collect()
}

/// Returns a store with these images. It unpacks archives below `directory`.
pub(crate) fn store(directory: PathBuf, images: &[(Image, PathBuf)]) -> Result<Arc<Store>> {
    let store = Store::new(directory);
    for (image, layout) in images {
        store.add(image, layout)?;
    }
    Ok(Arc::new(store))
}

fn add_ons() -> Result<Vec<Image>> {
    [&go_tools::COREDNS, &go_tools::LOCAL_PATH_PROVISIONER, &go_tools::METRICS_SERVER]
        .into_iter()
        .map(|tool| {
            let name = tool.name();
            let path = format!("/{name}");
            let config = Config { entrypoint: vec![path.clone()], ..Config::default() };
            let image = Image::new(name).file(&path, 0o755, Content::Go(tool)).config(config);
            image.served_as(&format!("localhost/{name}:*"))
        })
        .collect()
}

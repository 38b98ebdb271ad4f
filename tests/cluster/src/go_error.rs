//! Adds a remedy to the errors of the Go tool.

use std::path::Path;

/// Remedies for a missing or outdated Go.
pub(crate) const REMEDIES: &str = "install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a directory that holds etcd, kube-apiserver, \
    kube-controller-manager, kube-scheduler, kubectl and kwok, or use a cluster of your own through KUBECONFIG";

const OLDEST_GO: (u32, u32) = (1, 26);
const TAIL_LINES: usize = 12;
const NETWORK: [&str; 11] = [
    "dial tcp",
    "connection refused",
    "connection reset",
    "no such host",
    "i/o timeout",
    "TLS handshake",
    "proxyconnect",
    "network is unreachable",
    "module lookup disabled",
    "unexpected EOF",
    "verifying module",
];

/// Returns whether a version such as `go1.26.8` is supported. Accepts versions that are not
/// releases.
pub(crate) fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("go").split(['.', 'r', 'b']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST_GO,
        _ => true,
    }
}

/// Returns the error for a failed build of `name`.
pub(crate) fn explain(name: &str, output: &str, work: &Path, needed_bytes: u64) -> String {
    let lines: Vec<_> = output.lines().collect();
    let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n");
    let advice = advice(output, work, needed_bytes);
    format!(
        "could not build {name}. {advice} The partial build was removed; the next command retries. Output of go:\n{tail}"
    )
}

fn advice(output: &str, work: &Path, needed_bytes: u64) -> String {
    let contains = |needle: &str| output.to_lowercase().contains(&needle.to_lowercase());
    if contains("no space left on device") || contains("disk quota exceeded") {
        let cache = work.parent().unwrap_or(work);
        return format!(
            "The disk is full: free at least {} GiB where {} and Go's module cache are, or set XDG_CACHE_HOME (and GOMODCACHE) to a larger disk.",
            gib(needed_bytes),
            cache.display()
        );
    }
    if contains("requires go >=") {
        return format!("Go is too old: {REMEDIES}.");
    }
    if NETWORK.into_iter().any(contains) {
        return "The modules could not be downloaded: check the network, and GOPROXY and HTTPS_PROXY if you are behind a proxy.".to_owned();
    }
    format!("If this Go cannot build it, {REMEDIES}.")
}

/// Returns the error for insufficient disk space.
pub(crate) fn too_little_space(cache: &Path, free: u64, needed: u64) -> String {
    format!(
        "building the control plane needs {} GiB while it runs, but {} has {} GiB free: free some, or set XDG_CACHE_HOME to a larger disk, or \
         KUBEBUILDER_ASSETS to a directory that holds the programs",
        gib(needed),
        cache.display(),
        gib(free)
    )
}

fn gib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(output: &str) -> String {
        explain("kwok", output, Path::new("/cache/x.building"), 6 << 30)
    }

    #[test]
    fn full_disk_error_names_size_and_directory() {
        let text = explained("compile: write /x/y: no space left on device");
        assert!(text.contains("at least 6 GiB where /cache"), "{text}");
    }

    #[test]
    fn download_error_mentions_network() {
        for output in [
            "dial tcp: lookup proxy: no such host",
            "proxyconnect tcp: EOF",
            "module lookup disabled by GOPROXY=off",
        ] {
            assert!(explained(output).contains("GOPROXY"), "{output}");
        }
    }

    #[test]
    fn detects_outdated_go() {
        assert!(
            explained("go: go.mod requires go >= 1.26.0 (running go 1.24.1)").contains("install Go 1.26")
        );
        assert!(
            !is_new_enough("go1.25.9")
                && is_new_enough("go1.26rc1")
                && is_new_enough("go1.30")
                && is_new_enough("devel")
        );
    }

    #[test]
    fn truncates_long_output() {
        let output = (0..50).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let text = explained(&output);
        assert!(text.contains("line 49") && !text.contains("line 20"), "{text}");
    }
}

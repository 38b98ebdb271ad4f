//! The command line of memcached.

use crate::api::MemcachedSpec;

/// Returns the command line, one word each, in a form that memcached 1.4 and 1.6 accept.
///
/// `-m` comes before `-I`, because memcached 1.4 checks `-I` against it while parsing. `-U 0`
/// disables UDP, which 1.4 enables by default and which attackers use for amplification.
pub(super) fn command(spec: &MemcachedSpec) -> Vec<String> {
    let memory = spec.memory_megabytes.to_string();
    let port = spec.container_port.to_string();
    let connections = spec.max_connections.to_string();
    let threads = spec.threads.to_string();
    let words = [
        ["memcached"].as_slice(),
        &["-m", &memory],
        &["-o", "modern"],
        &["-v"],
        &["-p", &port],
        &["-U", "0"],
        &["-c", &connections],
        &["-t", &threads],
        &["-I", &spec.max_item_size],
    ]
    .concat();
    words.into_iter().map(str::to_owned).chain(spec.extra_args.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::fixture::cache;

    #[test]
    fn splits_words_and_puts_memory_first() {
        let line = command(&cache(&json!({})).spec).join(" ");
        assert_eq!(line, "memcached -m 64 -o modern -v -p 11211 -U 0 -c 1024 -t 4 -I 1m");
    }

    #[test]
    fn extra_arguments_come_last() {
        let line = command(&cache(&json!({"extraArgs": ["-o", "no_hashexpand"]})).spec);
        assert_eq!(line[line.len() - 2..], ["-o", "no_hashexpand"]);
    }
}

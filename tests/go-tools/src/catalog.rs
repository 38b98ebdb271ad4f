//! The programs and the Go modules that pin them.

use crate::Tool;

/// promtool, which tests alert rules.
pub static PROMTOOL: Tool = Tool {
    module: "github.com/prometheus/prometheus",
    package: "github.com/prometheus/prometheus/cmd/promtool",
    // Leaves out the service discovery of cloud providers, which is most of the program.
    tags: "remove_all_sd",
    ..Tool::new("promtool", include_str!("../modules/promtool/go.mod"))
};

/// Helm, which tests the chart.
pub static HELM: Tool = Tool {
    module: "helm.sh/helm/v4",
    package: "helm.sh/helm/v4/cmd/helm",
    ..Tool::new("helm", include_str!("../modules/helm/go.mod"))
};

/// Vale, which checks the prose of the documentation.
pub static VALE: Tool = Tool {
    module: "github.com/vale-cli/vale/v3",
    package: "github.com/vale-cli/vale/v3/cmd/vale",
    // The parsers of source code are written in C.
    cgo: true,
    ..Tool::new("vale", include_str!("../modules/vale/go.mod"))
};

/// CoreDNS, the DNS server of clusters with real nodes.
pub static COREDNS: Tool = Tool {
    module: "github.com/coredns/coredns",
    // Its own program, with fewer plugins.
    package: ".",
    ..Tool::new("coredns", include_str!("../modules/coredns/go.mod"))
};

/// The local path provisioner, which creates volumes on real nodes.
pub static LOCAL_PATH_PROVISIONER: Tool = Tool {
    module: "github.com/rancher/local-path-provisioner",
    package: "github.com/rancher/local-path-provisioner",
    ..Tool::new("local-path-provisioner", include_str!("../modules/local-path-provisioner/go.mod"))
};

/// Prometheus' exporter for memcached, which runs beside memcached on real nodes.
pub static MEMCACHED_EXPORTER: Tool = Tool {
    module: "github.com/prometheus/memcached_exporter",
    package: "github.com/prometheus/memcached_exporter/cmd/memcached_exporter",
    ..Tool::new("memcached-exporter", include_str!("../modules/memcached-exporter/go.mod"))
};

/// The metrics server, which serves the usage of real nodes and their Pods.
pub static METRICS_SERVER: Tool = Tool {
    module: "sigs.k8s.io/metrics-server",
    package: "sigs.k8s.io/metrics-server/cmd/metrics-server",
    ..Tool::new("metrics-server", include_str!("../modules/metrics-server/go.mod"))
};

/// versitygw, an S3 server with a folder as its storage, with which the archive of PostgreSQL is tested.
pub static VERSITYGW: Tool = Tool {
    module: "github.com/versity/versitygw",
    package: "github.com/versity/versitygw/cmd/versitygw",
    ..Tool::new("versitygw", include_str!("../modules/versitygw/go.mod"))
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_pins_a_version() {
        let all = [
            &PROMTOOL,
            &HELM,
            &VALE,
            &COREDNS,
            &LOCAL_PATH_PROVISIONER,
            &MEMCACHED_EXPORTER,
            &METRICS_SERVER,
            &VERSITYGW,
        ];
        for tool in all {
            let id = tool.id().unwrap();
            assert!(id.starts_with(&format!("{}-v", tool.name())), "{id}");
            assert!(!id.contains(char::is_whitespace), "{id}");
        }
    }
}

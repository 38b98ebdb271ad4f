// CoreDNS with the plugins that clusters with real nodes use: with all others, the build takes twice as long.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
)

// A request passes the plugins in this order.
var directives = []string{"ready", "health", "errors", "loadbalance", "cache", "kubernetes"}

func main() {
	dnsserver.Directives = directives
	coremain.Run()
}

# First process of the switch, the network namespace that connects the nodes.
# $1 is the directory of the switch.
set -eu
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
ip link add br0 type bridge
ip -batch "$1/network"
: > "$1/booted"
trap : TERM INT
while :; do sleep 3600 & wait $!; done

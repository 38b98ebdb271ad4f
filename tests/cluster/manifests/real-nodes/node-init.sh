# First process of a node. Its mount, PID, network, UTS, and IPC namespaces are the node's.
# $1 is the directory of the node, $2 its name.
set -eu
dir=$1

# The host's cgroups, which must stay visible below the new /sys.
mount --rbind /sys/fs/cgroup "$dir/cgroups"
mount --make-rprivate /
mount -t proc proc /proc

# A reboot empties /run: sockets, address reservations, and the state of containers.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns /run/cni/net.d
cp "$dir/cni.conflist" /run/cni/net.d/10-pods.conflist

# What a node keeps across reboots.
mount --bind "$dir/lib" /var/lib
mount --bind "$dir/log" /var/log

# The interfaces of this network namespace, with the host's cgroups.
mount -t sysfs sysfs /sys
mount --rbind "$dir/cgroups" /sys/fs/cgroup
umount -l "$dir/cgroups"

# Names are resolved by nobody on a node: a lookup fails at once instead of after ten seconds.
resolv=$(readlink -f /etc/resolv.conf)
mkdir -p "${resolv%/*}"
[ -e "$resolv" ] || : > "$resolv"
mount --bind "$dir/resolv.conf" "$resolv"

# The kubelet writes these settings of the whole machine, unless they have its values.
for setting in vm/overcommit_memory:1 kernel/panic:10 kernel/panic_on_oops:1; do
  file=$dir/$(echo "${setting%:*}" | tr / -)
  echo "${setting#*:}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%:*}"
done
echo 1 > /proc/sys/net/ipv4/ip_forward

mount --make-rshared /
hostname "$2"
: > "$dir/booted"
trap : TERM INT
while :; do sleep 3600 & wait $!; done

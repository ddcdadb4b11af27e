# Runs as the first process of an enclosure: furnishes it, then runs the program that is its arguments. When this shell
# ends, everything that was started in here is killed by the kernel.
#
# $RUNS       where testbeds keep their files: in memory here, so that nobody has to remove them
# $ADDRESS    of the bridge, $BRIDGE its name
set -eu

# Where these are not part of the kernel.
modprobe overlay 2>/dev/null || true

# What daemons write to places that cannot be chosen.
mkdir -p "$RUNS"
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=0755 tmpfs /var/log
mount -t tmpfs -o mode=0700 tmpfs "$RUNS"
mkdir /run/lib /run/lib/upper /run/lib/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/lib/upper,workdir=/run/lib/work overlay /var/lib
for place in containerd kubelet cni; do
    mkdir -p "/var/lib/$place"
    mount -t tmpfs -o mode=0755 tmpfs "/var/lib/$place"
done

# What kubelet would set for the whole machine.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes; do
    [ -e "/proc/sys/$setting" ] || continue
    fake="/run/$(basename "$setting")"
    cat "/proc/sys/$setting" >"$fake"
    mount --bind "$fake" "/proc/sys/$setting"
done
mount --make-rshared /

# No way out of here: pods, node and gateway meet on one bridge.
ip link set lo up
ip link add "$BRIDGE" type bridge
ip address add "$ADDRESS/24" dev "$BRIDGE"
ip link set "$BRIDGE" up
ip route add default dev "$BRIDGE"
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables

# Not `exec`: the first process has to stay a shell, which buries orphans.
"$@"
exit $?

#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The guest's first process, in its initramfs. It runs a command on the host's root file system, which is not changed.
#
#   modules ─► host's root (9p, read-only) ─► overlay in memory ─► BOOTED ─► command ─► ENDED
# shellcheck shell=sh disable=SC1091,SC2154
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
. /settings # paths, modules, out, command
while read -r module; do insmod "/modules/$module"; done </modules/order

ninep=trans=virtio,version=9p2000.L,msize=512000
root=/mnt/root
mount -t 9p -o ro,cache=loose,$ninep host /mnt/host
mount -t tmpfs -o size=80% memory /mnt/memory
mkdir /mnt/memory/upper /mnt/memory/work
mount -t overlay -o lowerdir=/mnt/host,upperdir=/mnt/memory/upper,workdir=/mnt/memory/work root $root

mount -t proc proc $root/proc
mount -t sysfs sys $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup || true # a kernel without: the process tree is walked
mount -t devtmpfs dev $root/dev
mkdir -p $root/dev/shm $root/dev/pts
mount -t devpts devpts $root/dev/pts
mount -t tmpfs shm $root/dev/shm
mount -t tmpfs run $root/run
mount -t tmpfs tmp $root/tmp
mkdir -p $root/run/lock $root/run/netns $root/run/results
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
mount -t bpf bpf $root/sys/fs/bpf
mount -t tracefs tracefs $root/sys/kernel/tracing
mount -t 9p -o rw,$ninep results $root/run/results
# What is below /run or /tmp is hidden by what is mounted there.
echo "$paths" | while read -r path; do
	if [ -d "/mnt/host$path" ] && ! [ -e "$root$path" ]; then
		mkdir -p "$root$path"
		mount --bind "/mnt/host$path" "$root$path"
	fi
done
if [ -n "$out" ]; then
	mkdir -p "$root$out"
	mount -t 9p -o rw,$ninep out "$root$out"
fi
if [ -n "$modules" ]; then
	mkdir -p $root/usr/lib/modules
	mount --bind "/mnt/host$modules" $root/usr/lib/modules
fi
hostname guest
ip link set lo up
cp /bin/busybox /settings $root/run/
cat >$root/run/then <<'END'
. /run/settings
echo "BOOTED $(uname -r)"
env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh -c "$command" </dev/null
status=$?
dmesg >/run/results/dmesg
sync
echo "ENDED $status"
/run/busybox reboot -f
END
exec switch_root $root /bin/sh /run/then

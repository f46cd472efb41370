#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The first process of a guest that counts instructions. Everything is in its memory: a disk would make the clock jump.
# shellcheck shell=sh disable=SC1091,SC2154
# The host's own programs come first; busybox is for what they lack.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/applets
/bin/busybox mkdir /applets
/bin/busybox --install -s /applets
[ -e /bin/sh ] || ln -s busybox /bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /run /tmp
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /run/lock /run/netns /var
ln -s /run /var/run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
. /settings # command
while read -r module; do insmod "/modules/$module"; done </modules/order
ip link set lo up
# A generator that gives way to everybody would not, were it in a group of its own.
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
echo "BOOTED $(uname -r)"
sh -c "$command" </dev/null
echo "ENDED $?"
/bin/busybox reboot -f

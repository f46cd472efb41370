#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Becomes systemd as process 1 of the namespaces in which this runs (mount, PID, cgroup, IPC, UTS): boot.sh SYSTEM FOLDER PACKAGES
#
# SYSTEM is a bare installation, which stays as it is. What changes lies in memory and ends with the machine.
set -eu
system=$1 root=$2/root

mount --make-rprivate /
mkdir -p "$root"
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir "$2/upper" "$2/work" "$root"
mount -t overlay -o "lowerdir=$system,upperdir=$2/upper,workdir=$2/work" overlay "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
[ ! -d sys/fs/bpf ] || mount -t bpf bpf sys/fs/bpf
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/net dev/pts dev/shm
for name in null zero full random urandom tty net/tun; do
	: >"dev/$name"
	mount --bind "/dev/$name" "dev/$name"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p packages old
mount --bind "$3" packages
echo uninitialized >etc/machine-id
# Network and devices are the test's.
for unit in systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-networkd.socket \
	systemd-udev-trigger.service systemd-resolved.service systemd-timesyncd.service systemd-sysctl.service \
	systemd-modules-load.service systemd-firstboot.service apt-daily.timer apt-daily-upgrade.timer NetworkManager.service; do
	ln -sf /dev/null "etc/systemd/system/$unit"
done

pivot_root . old
umount -l /old
rmdir /old
exec env -i container=diolkos-test PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --system --unit=multi-user.target \
	--log-target=journal --show-status=0 </dev/null

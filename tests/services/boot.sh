#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Becomes systemd as process 1 of the namespaces in which this runs (mount, PID, cgroup, IPC, UTS): boot.sh FOLDER
#
# The machine is made of this one's /usr, with a layer of FOLDER/usr above it, and of /etc, /var and /run of its own. It ends
# with its process 1 and leaves nothing: all of it lies in memory.
set -eu
layer=$1/usr etc=$1/etc root=$1/root

mount --make-rprivate /
mkdir -p "$root"
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir usr proc sys dev run tmp root etc var var/log var/log/journal var/lib old changes changes/work changes/upper
cp -a "$layer/." changes/upper/
mount -t overlay -o "lowerdir=/usr,upperdir=$root/changes/upper,workdir=$root/changes/work" overlay usr
for name in bin sbin lib lib32 lib64 libx32; do
	[ ! -L "/$name" ] || cp -a "/$name" "$name"
done
mount -t proc proc proc
mount -t sysfs sysfs sys
[ -d sys/fs/bpf ] && mount -t bpf bpf sys/fs/bpf
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

cp /etc/passwd /etc/group /etc/nsswitch.conf etc/
[ ! -d /etc/alternatives ] || cp -a /etc/alternatives etc/
cp -a "$etc/." etc/
echo uninitialized >etc/machine-id
echo 'ID=diolkos-test' >etc/os-release
mkdir -p etc/systemd/system
# Nothing of this machine's own services starts: the target has what a test asks for.
cat >etc/systemd/system/test.target <<-END
	[Unit]
	Requires=sysinit.target
	After=sysinit.target
	AllowIsolate=yes
END
for unit in systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-networkd.socket \
	systemd-udev-trigger.service systemd-resolved.service systemd-timesyncd.service systemd-sysctl.service \
	systemd-modules-load.service systemd-firstboot.service nftables.service dbus.socket systemd-networkd-wait-online.service \
	NetworkManager-wait-online.service; do
	ln -s /dev/null "etc/systemd/system/$unit"
done

pivot_root . old
umount -l /old
rmdir /old
exec env -i container=diolkos-test PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --system --unit=test.target \
	--log-target=journal --show-status=0 </dev/null

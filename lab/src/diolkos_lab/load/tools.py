# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that loads need, and the packages of the distributions that have them."""

# Of every load.
REQUIRED = {
    "iperf3": "apt-get install iperf3",
    "ping": "apt-get install iputils-ping",
    "nsenter": "apt-get install util-linux",
    "setpriv": "apt-get install util-linux",
    "taskset": "apt-get install util-linux",
}
OF_HTTP = {
    "curl": "apt-get install curl",
    "nginx": "apt-get install nginx-light; the lab starts its own, so the service may be off",
    "timeout": "apt-get install coreutils",
}
OF_NAMES = {
    "unbound": "apt-get install unbound; the lab starts its own, so the service may be off",
    "unshare": "apt-get install util-linux",
    "mount": "apt-get install mount",
    "chroot": "apt-get install coreutils",
}
OF_DNS = {"dnsperf": "apt-get install dnsperf", "nft": "apt-get install nftables"}
OF_PACKETS = {
    "diolkos-pktgen": "build it with `make build`",
    "nice": "apt-get install coreutils",
    "unshare": "apt-get install util-linux",
    "mount": "apt-get install mount",
    "chroot": "apt-get install coreutils",
}

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program of its own: a VPN without keys. Each packet from the TUN device NAME leaves in a datagram to ADDRESS, which the
kernel may send in fragments, as WireGuard's. Nothing comes back."""

import fcntl
import os
import socket
import struct
import sys

# Of linux/if_tun.h and linux/in.h.
TUNSETIFF, IFF_TUN_NO_PI = 0x400454CA, 0x1001
IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0

name, address = sys.argv[1:]
device = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN_NO_PI))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    out.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
    while True:
        packet = os.read(device, 1 << 16)
        try:
            out.sendto(packet, (address, 51820))
        except OSError:
            continue

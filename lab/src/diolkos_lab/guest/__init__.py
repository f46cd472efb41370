# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Studies on other kernels, each in a QEMU guest, and instructions per packet.

package ─► jool ─► image ─► machine ─► command        on the host
                            inside, counting          in the guest
"""

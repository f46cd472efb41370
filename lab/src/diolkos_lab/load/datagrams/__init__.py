# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that send and receive datagrams many at a time. They are run as files, and import nothing of the lab."""

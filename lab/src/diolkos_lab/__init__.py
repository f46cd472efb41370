# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Diolkos lab: what does translation between IPv6 and IPv4 cost on this machine, and how sure is that?

A measurement goes through the packages in this order, and a package imports only from those before it:

    faults ─► experiment ─► topology ─► sut ─► load ─► run ─► samples ─► stats ─► curve ─► verdict ─► report ─► cli

`analyze` stands beside it: it reads what others have measured, and uses `curve` and `report`.
"""

__version__ = "0.2.0"

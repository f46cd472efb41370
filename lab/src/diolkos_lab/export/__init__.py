# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run as tables and a paragraph of method, and many runs as a site of files."""

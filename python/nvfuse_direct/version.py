# SPDX-License-Identifier: BSD-3-Clause
"""The version of the API that this package offers, as text."""

_version_str = "0.2.36"

"""The version of the API that this package offers, as text."""

_version_str = "0.2.36"

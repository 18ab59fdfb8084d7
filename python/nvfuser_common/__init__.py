"""The name under which C++ builds look for the library: see nvfuser_common.utils."""

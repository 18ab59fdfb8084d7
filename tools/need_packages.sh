#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes sure that a C++ compiler and, for the tests, GoogleTest are there. Where they are missing, root on a system with apt gets
# them installed, after a line that says so (INSTALL_PACKAGES=0 forbids it); everybody else is told what to install.
# Usage: need_packages.sh compiler|gtest ...
set -u

has() {
  case "$1" in
    compiler) command -v c++ >/dev/null ;;
    gtest) echo '#include <gtest/gtest.h>' | c++ -std=c++17 -E -x c++ - >/dev/null 2>&1 ;;
  esac
}

package_of() {
  case "$1" in
    compiler) echo g++ ;;
    gtest) echo libgtest-dev ;;
  esac
}

missing=()
for thing in "$@"; do
  has "$thing" || missing+=("$(package_of "$thing")")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "${INSTALL_PACKAGES:-1}" != 0 ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Missing on this system: ${missing[*]}. Running: apt-get update && apt-get install ${missing[*]}  (not wanted: make INSTALL_PACKAGES=0)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq "${missing[@]}" && exit 0
fi
echo "Missing: ${missing[*]}. Install with your package manager, for example: sudo apt-get install ${missing[*]}" >&2
exit 1

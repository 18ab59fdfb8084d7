#!/usr/bin/env bash
# Makes sure that a C++ compiler and, for the tests, GoogleTest are there: installs them when it may, says what to do otherwise.
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

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq "${missing[@]}" && exit 0
fi
echo "Missing: ${missing[*]}. Install with your package manager, for example: sudo apt-get install ${missing[*]}" >&2
exit 1

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_ccache.sh CCACHE SOURCE_DIR COMPILER ARGUMENTS...
#
# Compiles through ccache. What is compiled with a precompiled header is told apart by that header's
# sum, which is of the files that it was made of: the header itself differs from one time to the next,
# and ccache would take one that is there already for what a new one is made of.
ccache=$1
# Relative to the source tree, so that clones in other folders share the cache.
export CCACHE_BASEDIR="$2" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
shift 2

case " $* " in
*" c++-header "*) ;;
*) exec "$ccache" "$@" ;;
esac

"$@" || exit
while [ $# -gt 1 ]; do
  case $1 in
  -o) header=$2 ;;
  -MF) files=$2 ;;
  esac
  shift
done
# The rule is "target: file file ...", over several lines.
files=$(tr -d '\\\n' <"$files" | sed 's/^[^:]*://')
rm -f "$header.sum"
if sums=$(sha256sum $files); then
  echo "$sums" | cut -d " " -f 1 >"$header.sum" # without names: those of other clones differ
fi

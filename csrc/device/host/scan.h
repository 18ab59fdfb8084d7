// SPDX-License-Identifier: BSD-3-Clause
// Scans over the threads of a block on the host: every thread shows its total, and combines those
// before it.
#pragma once

//@ piece nvf::blockScan also nvf::syncBlock
// See cuda/scan.h. The adversarial mode is told of the accesses to the workspace that the GPU would
// make.
namespace nvf {
template <class Op, int BX, int N, class T>
NVF_FN void blockScan(nvf::HostWorkspace workspace, T* values, T& carry) {
  constexpr int kWarps = BX <= 32 ? 1 : BX / 32;
  const auto t = nvf::threadPlace<BX, 0, 0>();
  const int segment = t.number() / BX;
  for (int i = 1; i < N; ++i) {
    values[i] = Op::combine(values[i - 1], values[i]);
  }
  T total = values[N - 1];
  void** totals = nvf::hostServices()->exchange(&total);
#ifdef NVF_HOST_ADVERSARIAL
  const auto access = [&](int first, int count, bool is_write) {
    nvf::hostServices()->access(
        workspace.data + (segment * kWarps + first) * static_cast<int>(sizeof(T)),
        static_cast<unsigned>(count * static_cast<int>(sizeof(T))), is_write, true, workspace.line);
  };
  if (kWarps > 1 && t.x % 32 == 31) {
    access(t.x / 32, 1, true);
  }
#endif
  if (kWarps > 1) {
    nvf::hostServices()->sync_block(workspace.line);
  } else {
    nvf::hostServices()->meet_block(workspace.line);
  }
#ifdef NVF_HOST_ADVERSARIAL
  if (kWarps > 1) {
    access(0, kWarps, false);
  }
#endif
  T before = carry;
  for (int i = 0; i < BX; ++i) {
    if (i == t.x) {
      for (int k = 0; k < N; ++k) {
        values[k] = Op::combine(before, values[k]);
      }
    }
    before = Op::combine(before, *static_cast<T*>(totals[segment * BX + i]));
  }
  carry = before;
  // The totals live on the stacks of the threads.
  nvf::hostServices()->meet_block(workspace.line);
}
} // namespace nvf

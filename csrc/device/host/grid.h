// SPDX-License-Identifier: BSD-3-Clause
// What reductions over the grid need on the host: where a block is, which one arrives last, and how
// blocks synchronize. The adversarial mode is told what blocks exchange.
#pragma once

//@ piece nvf::blockPlace
namespace nvf {
NVF_FN nvf::ThreadPlace blockPlace() {
  const NvfHostThread* t = nvf::hostServices()->thread();
  return {static_cast<int>(t->block.x),    static_cast<int>(t->block.y),
          static_cast<int>(t->block.z),    static_cast<int>(t->grid_dim.x),
          static_cast<int>(t->grid_dim.y), static_cast<int>(t->grid_dim.z)};
}
} // namespace nvf

//@ piece nvf::Workspace
namespace nvf {
using Workspace = nvf::HostWorkspace;
} // namespace nvf

//@ piece nvf::loadFresh
namespace nvf {
template <class V>
NVF_FN V loadFresh(const V* source, [[maybe_unused]] int line = __builtin_LINE()) {
#ifdef NVF_HOST_ADVERSARIAL
  nvf::hostServices()->access_global(source, sizeof(V), false, line);
#endif
  return *source;
}
} // namespace nvf

//@ piece nvf::storeFresh
namespace nvf {
template <class V>
NVF_FN void storeFresh(V* target, V value, [[maybe_unused]] int line = __builtin_LINE()) {
#ifdef NVF_HOST_ADVERSARIAL
  nvf::hostServices()->access_global(target, sizeof(V), true, line);
#endif
  *target = value;
}
} // namespace nvf

//@ piece nvf::isLastBlock
// The block's first thread counts for all of it; the other threads' writes come before its own as
// they run on the same thread of the operating system.
namespace nvf {
inline bool isLastBlock(unsigned* counter, int count, nvf::Workspace workspace) {
  bool is_last = false;
  void** answers = nvf::hostServices()->exchange(&is_last);
  nvf::hostServices()->sync_block(workspace.line);
  const nvf::ThreadPlace t = nvf::threadPlace<0, 0, 0>();
  if (t.number() == 0) {
    const auto most = static_cast<unsigned>(count - 1);
    const bool answer = __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL) == most;
    if (answer) {
      __atomic_store_n(counter, 0u, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < t.threads(); ++i) {
      *static_cast<bool*>(answers[i]) = answer;
    }
  }
  nvf::hostServices()->meet_block(workspace.line);
  return is_last;
}
} // namespace nvf

//@ piece nvf::meetBlocks also nvf::syncBlock
// The blocks of such a kernel run as one cluster.
namespace nvf {
NVF_FN void meetBlocks(unsigned*, int, nvf::Workspace workspace) {
  nvf::hostServices()->sync_cluster(workspace.line);
}
} // namespace nvf

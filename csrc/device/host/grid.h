// What reductions over the grid need on the host: where a block is, and which one arrives last.
#pragma once

//@ piece nvf::blockPlace
namespace nvf {
NVF_FN nvf::ThreadPlace blockPlace() {
  const NvfHostThread* t = nvf::hostServices->thread();
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
NVF_FN V loadFresh(const V* source) {
  return *source;
}
} // namespace nvf

//@ piece nvf::isLastBlock
// The block's first thread counts for all of it; the other threads' writes come before its own as
// they run on the same thread of the operating system.
namespace nvf {
inline bool isLastBlock(unsigned* counter, int count, nvf::Workspace workspace) {
  bool is_last = false;
  void** answers = nvf::hostServices->exchange(&is_last);
  nvf::hostServices->sync_block(workspace.line);
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
  nvf::hostServices->meet_block(workspace.line);
  return is_last;
}
} // namespace nvf

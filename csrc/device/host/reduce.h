// SPDX-License-Identifier: BSD-3-Clause
// Reductions over the threads of a block on the host: every thread shows where its terms are, one
// thread of each segment combines them in place. The adversarial mode is told of the accesses that
// the GPU would make, so that it finds a workspace that is still in use.
#pragma once

//@ piece nvf::threadPlace
namespace nvf {
template <int BX, int BY, int BZ>
NVF_FN nvf::ThreadPlace threadPlace() {
  const NvfHostThread* t = nvf::hostServices()->thread();
  return {static_cast<int>(t->thread.x),
          static_cast<int>(t->thread.y),
          static_cast<int>(t->thread.z),
          BX > 0 ? BX : static_cast<int>(t->block_dim.x),
          BY > 0 ? BY : static_cast<int>(t->block_dim.y),
          BZ > 0 ? BZ : static_cast<int>(t->block_dim.z)};
}
} // namespace nvf

//@ piece nvf::TermList nvf::makeTermList
// Terms as a list that another thread can walk.
namespace nvf {
template <class... Terms>
struct TermList {
  NVF_FN void combine(const TermList&) const {}
  NVF_FN void copy(const TermList&) const {}
};

template <class Term, class... Rest>
struct TermList<Term, Rest...> {
  Term term;
  TermList<Rest...> rest;

  // This thread's values become the reduction with the other's.
  void combine(const TermList& other) const {
    for (int i = 0; i < Term::kValues; ++i) {
      term.store(i, Term::combine(term.load(i), other.term.load(i)));
    }
    rest.combine(other.rest);
  }
  void copy(const TermList& other) const {
    for (int i = 0; i < Term::kValues; ++i) {
      term.store(i, other.term.load(i));
    }
    rest.copy(other.rest);
  }
};

NVF_FN TermList<> makeTermList() {
  return {};
}
template <class Term, class... Rest>
NVF_FN TermList<Term, Rest...> makeTermList(Term term, Rest... rest) {
  return {term, makeTermList(rest...)};
}
} // namespace nvf

//@ piece nvf::HostWorkspace
// Brings the line of the call along, where a list of terms leaves no room for a default argument.
namespace nvf {
struct HostWorkspace {
  char* data;
  int line;
  NVF_FN HostWorkspace(char* the_data, int the_line = __builtin_LINE())
      : data(the_data), line(the_line) {}
};
} // namespace nvf

//@ piece nvf::WorkspaceClaim
// The accesses to the workspace that the GPU's ways of reducing make (cuda/reduce.h): before the
// first barrier, and after the last one.
namespace nvf {
template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
struct WorkspaceClaim {
#ifndef NVF_HOST_ADVERSARIAL
  static NVF_FN void touch(bool, nvf::HostWorkspace, nvf::ThreadPlace) {}
#else
  static void touch(bool is_write, nvf::HostWorkspace workspace, nvf::ThreadPlace t) {
    using Path = nvf::ReducePath;
    constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
    Path path = nvf::reducePath(kShape, nvf::valuesOf<Terms...>);
    const auto place = nvf::segmentOf<RX, RY, RZ>(t);
    const bool is_last = !is_write;
    int most = place.threads;
    if (path == Path::RunTime) {
      path = place.threads % 32 == 0 ? Path::Warps : Path::All;
    } else if (path == Path::WarpsAtRunTime) {
      path = place.threads <= 32 ? Path::Lanes : Path::Warps;
      most = nvf::mostReduced(kShape);
    }
    const auto claim = [&](int values, int bytes) {
      const auto access = [&](int slot, int count) {
        nvf::hostServices()->access(workspace.data + slot * bytes,
                                    static_cast<unsigned>(count * bytes), is_write, true,
                                    workspace.line);
      };
      const int slots = path == Path::Warps
                            ? place.segments * nvf::powerOfTwoAbove(most / 32) * values
                            : nvf::reduceSlots(path, t.threads(), place.threads, values);
      const int row = slots / (place.segments * values); // of one result on the warps' way
      const int plane = t.threads();                     // of one value of all threads
      const auto columns = nvf::columnLayout(place.threads, place.segments * values, t.threads());
      for (int i = 0; i < values; ++i) {
        if (path == Path::Warps && is_last) {
          access((place.segment * values + i) * row, place.threads / 32);
        } else if (path == Path::Warps && place.rank % 32 == 0) {
          access((place.segment * values + i) * row + place.rank / 32, 1);
        } else if (path == Path::Columns) {
          access((is_last ? 0 : place.rank * columns.stride) + i * place.segments + place.segment,
                 1);
        } else if (path == Path::All && is_last) {
          access(i * plane + nvf::threadOf<RX, RY, RZ>(place.segment, 0, t), 1);
        } else if (path == Path::Direct && is_last) {
          for (int rank = 0; rank < place.threads; ++rank) {
            access(i * plane + nvf::threadOf<RX, RY, RZ>(place.segment, rank, t), 1);
          }
        } else if (path == Path::All || path == Path::Direct) {
          access(i * plane + t.number(), 1);
        }
      }
      workspace.data += (slots * bytes + 15) / 16 * 16;
    };
    (claim(Terms::kValues, sizeof(typename Terms::Value)), ...);
  }
#endif
};
} // namespace nvf

//@ piece nvf::slotOf
// Where a thread's list is among those of the block: threads that only load lie between those that
// compute.
namespace nvf {
NVF_FN int slotOf(int number, nvf::ThreadPlace t) {
  const NvfHostDim block = nvf::hostServices()->thread()->block_dim;
  const int x = number % t.nx, y = number / t.nx % t.ny, z = number / (t.nx * t.ny);
  return x + static_cast<int>(block.x) * (y + static_cast<int>(block.y) * z);
}
} // namespace nvf

//@ piece nvf::combineThreads
// Combines the lists of a segment's threads in a tree; all of them get the result.
namespace nvf {
template <bool RX, bool RY, bool RZ, class List>
void combineThreads(void** lists, nvf::ThreadPlace t, nvf::SegmentPlace place) {
  const auto list = [&](int rank) -> const List& {
    const int number = nvf::threadOf<RX, RY, RZ>(place.segment, rank, t);
    return *static_cast<const List*>(lists[nvf::slotOf(number, t)]);
  };
  for (int count = place.threads; count > 1; count = (count + 1) / 2) {
    for (int rank = 0; rank < count / 2; ++rank) {
      list(rank).combine(list(rank + (count + 1) / 2));
    }
  }
  for (int rank = 1; rank < place.threads; ++rank) {
    list(rank).copy(list(0));
  }
}
} // namespace nvf

//@ piece nvf::blockReduce nvf::reduceLists also nvf::syncBlock
namespace nvf {
template <bool RX, bool RY, bool RZ, class List>
void reduceLists(List list, bool is_barrier, nvf::ThreadPlace t, int line) {
  void** lists = nvf::hostServices()->exchange(&list);
  if (is_barrier) {
    nvf::syncBlock(line);
  } else {
    nvf::meetBlock(line);
  }
  const auto place = nvf::segmentOf<RX, RY, RZ>(t);
  if (place.rank == 0) {
    nvf::combineThreads<RX, RY, RZ, List>(lists, t, place);
  }
  nvf::meetBlock(line);
}

template <bool RX, bool RY, bool RZ, int BX, int BY, int BZ, class... Terms>
NVF_FN void blockReduce(nvf::HostWorkspace workspace, Terms... terms) {
  using Path = nvf::ReducePath;
  constexpr nvf::BlockShape kShape = {{RX, RY, RZ}, {BX, BY, BZ}};
  constexpr Path kPath = nvf::reducePath(kShape, nvf::valuesOf<Terms...>);
  if constexpr (kPath != Path::None) {
    const auto t = nvf::threadPlace<BX, BY, BZ>();
    if (t.threads() == 1) {
      return;
    }
    using Claim = nvf::WorkspaceClaim<RX, RY, RZ, BX, BY, BZ, Terms...>;
    Claim::touch(true, workspace, t);
    const bool is_one_warp =
        kPath == Path::WarpsAtRunTime && nvf::segmentOf<RX, RY, RZ>(t).threads <= 32;
    nvf::reduceLists<RX, RY, RZ>(nvf::makeTermList(terms...), kPath != Path::Lanes && !is_one_warp,
                                 t, workspace.line);
    Claim::touch(false, workspace, t);
  }
}
} // namespace nvf

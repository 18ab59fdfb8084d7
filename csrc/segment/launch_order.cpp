// SPDX-License-Identifier: BSD-3-Clause
// See launch_order.h.
#include <segment/launch_order.h>

#include <segment/traffic.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace nvfuser {

namespace {

bool reads(const Segment& segment, const std::unordered_set<const Val*>& made) {
  return std::any_of(segment.inputs.begin(), segment.inputs.end(),
                     [&](const Val* in) { return made.count(in) != 0; });
}

// Most of what either reads.
bool readTheSame(const Segment& a, const Segment& b) {
  std::vector<Val*> both;
  std::copy_if(a.inputs.begin(), a.inputs.end(), std::back_inserter(both), [&](const Val* in) {
    return std::find(b.inputs.begin(), b.inputs.end(), in) != b.inputs.end();
  });
  return 2 * bytesOf(both) > std::max(bytesOf(a.inputs), bytesOf(b.inputs));
}

} // namespace

std::vector<bool> needResultsOf(const std::vector<Segment>& segments, size_t first, size_t last) {
  std::unordered_set<const Val*> made(segments[first].outputs.begin(),
                                      segments[first].outputs.end());
  std::vector<bool> out(last - first + 1, false);
  for (size_t i = first + 1; i <= last; ++i) {
    if (reads(segments[i], made)) {
      out[i - first] = true;
      made.insert(segments[i].outputs.begin(), segments[i].outputs.end());
    }
  }
  return out;
}

std::vector<size_t> enclosedBy(const std::vector<Segment>& segments, size_t first, size_t second) {
  const std::vector<bool> after = needResultsOf(segments, first, second);
  std::unordered_set<const Val*> needed(segments[second].inputs.begin(),
                                        segments[second].inputs.end());
  std::vector<size_t> out;
  for (size_t i = second; i-- > first + 1;) {
    const std::vector<Val*>& outputs = segments[i].outputs;
    if (after[i - first] && std::any_of(outputs.begin(), outputs.end(),
                                        [&](const Val* v) { return needed.count(v) != 0; })) {
      needed.insert(segments[i].inputs.begin(), segments[i].inputs.end());
      out.push_back(i);
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

size_t placeJoined(std::vector<Segment>& segments, Segment joined, size_t first, size_t second,
                   const std::vector<bool>& after) {
  std::vector<Segment> between;
  size_t position = first;
  for (const bool behind : {false, true}) {
    if (behind) {
      position = first + between.size();
      between.push_back(std::move(joined));
    }
    for (size_t i = first + 1; i < second; ++i) {
      if (after[i - first] == behind) {
        between.push_back(std::move(segments[i]));
      }
    }
  }
  std::move(between.begin(), between.end(), segments.begin() + static_cast<std::ptrdiff_t>(first));
  segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(second));
  return position;
}

void readBeforeWriting(std::vector<Segment>& segments) {
  constexpr size_t kMostPlaces = 8; // that a segment moves, so that this stays linear
  for (size_t i = 1; i < segments.size(); ++i) {
    for (size_t at = i; at > 0 && i - at < kMostPlaces; --at) {
      Segment& before = segments[at - 1];
      const std::unordered_set<const Val*> made(before.outputs.begin(), before.outputs.end());
      if (before.scheduler != SchedulerType::PointWise || reads(segments[at], made) ||
          !readTheSame(before, segments[at]) ||
          2 * bytesOf(segments[at].outputs) >= bytesOf(before.outputs)) {
        break;
      }
      std::swap(before, segments[at]);
    }
  }
}

} // namespace nvfuser

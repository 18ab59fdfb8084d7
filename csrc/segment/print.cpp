// SPDX-License-Identifier: BSD-3-Clause
// A cut fusion as text and as a graph.
#include <base/string_utils.h>
#include <segment/segment.h>

#include <sstream>
#include <unordered_map>

namespace nvfuser {

namespace {

// Backslashes and quotes are special in a label, and lines end at the left.
std::string labelText(const std::string& text) {
  std::string label = replaceAll(replaceAll(text, "\\", "\\\\"), "\"", "\\\"");
  return replaceAll(label, "\n", "\\l");
}

} // namespace

std::string SegmentedFusion::toDot() const {
  std::ostringstream out;
  out << "digraph segmented_fusion {\n  node [shape=box, fontname=monospace];\n";
  std::unordered_map<const Val*, size_t> maker;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    out << "  g" << i << " [label=\"g" << i << " (" << schedulerName(s.scheduler) << ")\\l";
    for (const Expr* e : s.exprs) {
      out << labelText(e->toString());
    }
    out << "\"];\n";
    for (const Val* v : s.outputs) {
      maker.emplace(v, i);
    }
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    for (const Val* v : segments[i].inputs) {
      auto it = maker.find(v);
      if (it == maker.end()) {
        out << "  in_" << labelText(v->toInlineString()) << " [shape=ellipse];\n";
      }
      out << "  "
          << (it == maker.end() ? "in_" + v->toInlineString() : "g" + std::to_string(it->second))
          << " -> g" << i << " [label=\"" << labelText(v->toInlineString()) << "\"];\n";
    }
  }
  out << "}\n";
  return out.str();
}

std::string SegmentedFusion::toString() const {
  std::ostringstream out;
  out << "Segmented_Fusion{\n";
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    out << "  g{" << i << "} (" << schedulerName(s.scheduler) << ")";
    if (!s.note.empty()) {
      out << " // " << s.note;
    }
    out << "\n    inputs:";
    for (const Val* v : s.inputs) {
      out << " " << v->toInlineString();
    }
    out << "\n    outputs:";
    for (const Val* v : s.outputs) {
      out << " " << v->toInlineString();
    }
    out << "\n";
    for (const Expr* e : s.exprs) {
      out << "    " << e->toString();
    }
  }
  out << "} // Segmented_Fusion\n";
  return out.str();
}

} // namespace nvfuser

// SPDX-License-Identifier: BSD-3-Clause
// Picks the pieces of the device library that a kernel needs; see library.h.
#include <device/library.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <unordered_set>

#include <device/embedded.h>

namespace nvfuser {

namespace {

using Names = std::unordered_set<std::string>;

bool isWordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool isWord(char c) {
  return isWordStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// The identifiers of a text outside comments and strings, in order of first use; nvf::a::b is the
// names nvf::a and nvf::a::b.
std::vector<std::string> scanNames(const std::string& text) {
  std::vector<std::string> names;
  Names seen;
  const auto add = [&](std::string name) {
    if (seen.insert(name).second) {
      names.push_back(std::move(name));
    }
  };
  size_t i = 0;
  while (i < text.size()) {
    if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.compare(i, 2, "/*") == 0) {
      const size_t end = text.find("*/", i + 2);
      i = end == std::string::npos ? text.size() : end + 2;
    } else if (text[i] == '"') {
      ++i;
      while (i < text.size() && text[i] != '"') {
        i += text[i] == '\\' ? 2 : 1;
      }
      ++i;
    } else if (isWordStart(text[i])) {
      const size_t begin = i;
      while (i < text.size() && isWord(text[i])) {
        ++i;
      }
      if (text.compare(begin, i - begin, "nvf") != 0) {
        add(text.substr(begin, i - begin));
        continue;
      }
      while (i + 2 < text.size() && text.compare(i, 2, "::") == 0 && isWordStart(text[i + 2])) {
        i += 2;
        while (i < text.size() && isWord(text[i])) {
          ++i;
        }
        add(text.substr(begin, i - begin));
      }
    } else if (std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
      // A number with its suffix (0x7fu, 1e-3f) is not a name.
      while (i < text.size() && (isWord(text[i]) || text[i] == '.')) {
        ++i;
      }
    } else {
      ++i;
    }
  }
  return names;
}

// A piece's text without its full-line comments and without blank lines at the ends.
void appendLine(std::string& text, const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  const bool is_comment = first != std::string::npos && line.compare(first, 2, "//") == 0;
  const bool is_namespace_end = line.rfind("} // namespace", 0) == 0;
  if ((is_comment && !is_namespace_end) || (first == std::string::npos && text.empty())) {
    return;
  }
  text += line;
  text += '\n';
}

void parseMarker(const std::string& line, DevicePiece& piece) {
  std::istringstream words(line);
  std::string word;
  words >> word >> word; // "//@ piece"
  std::vector<std::string>* list = &piece.provides;
  while (words >> word) {
    if (word == "with") {
      list = &piece.with;
    } else if (word == "also") {
      list = &piece.uses;
    } else {
      list->push_back(word);
    }
  }
}

void parseFile(const EmbeddedFile& file, std::vector<DevicePiece>& pieces) {
  const size_t first_of_file = pieces.size();
  std::istringstream lines(file.text);
  std::string line;
  bool in_piece = false;
  while (std::getline(lines, line)) {
    if (line.rfind("//@ piece ", 0) == 0) {
      in_piece = true;
      pieces.emplace_back();
      pieces.back().file = file.path;
      parseMarker(line, pieces.back());
    } else if (in_piece) {
      appendLine(pieces.back().text, line);
    }
  }
  for (size_t i = first_of_file; i < pieces.size(); ++i) {
    DevicePiece& piece = pieces[i];
    while (piece.text.size() > 1 && piece.text.compare(piece.text.size() - 2, 2, "\n\n") == 0) {
      piece.text.pop_back();
    }
    for (std::string& name : scanNames(piece.text)) {
      piece.uses.push_back(std::move(name));
    }
  }
}

std::vector<DevicePiece> parseTarget(KernelTarget target) {
  const std::string other = target == KernelTarget::Cuda ? "host/" : "cuda/";
  std::vector<DevicePiece> pieces;
  for (size_t i = 0; i < kEmbeddedFileCount; ++i) {
    if (std::string(kEmbeddedFiles[i].path).rfind(other, 0) != 0) {
      parseFile(kEmbeddedFiles[i], pieces);
    }
  }
  return pieces;
}

bool isNeeded(const DevicePiece& piece, const Names& names) {
  const auto is_used = [&](const std::string& name) { return names.count(name) != 0; };
  return std::any_of(piece.provides.begin(), piece.provides.end(), is_used) &&
         std::all_of(piece.with.begin(), piece.with.end(), is_used);
}

std::vector<const DevicePiece*> selectPieces(const std::vector<DevicePiece>& pieces, Names& names) {
  std::vector<bool> selected(pieces.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = pieces.size(); i-- > 0;) { // uses point backwards: mostly one sweep
      if (!selected[i] && isNeeded(pieces[i], names)) {
        selected[i] = changed = true;
        names.insert(pieces[i].uses.begin(), pieces[i].uses.end());
      }
    }
  }
  std::vector<const DevicePiece*> result;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (selected[i]) {
      result.push_back(&pieces[i]);
    }
  }
  return result;
}

void replaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// GCC and clang spell the pragma differently; "unroll 1" keeps its number.
void translateUnrollPragmas(std::string& text) {
  replaceAll(text, "#pragma unroll\n", "#pragma GCC unroll 16\n");
  replaceAll(text, "#pragma unroll ", "#pragma GCC unroll ");
}

} // namespace

const std::vector<DevicePiece>& devicePieces(KernelTarget target) {
  static const std::vector<DevicePiece> cuda = parseTarget(KernelTarget::Cuda);
  static const std::vector<DevicePiece> host = parseTarget(KernelTarget::Host);
  return target == KernelTarget::Cuda ? cuda : host;
}

bool deviceLibraryProvides(const std::string& name) {
  const auto provides = [&](KernelTarget target) {
    const auto& pieces = devicePieces(target);
    return std::any_of(pieces.begin(), pieces.end(), [&](const DevicePiece& piece) {
      return std::count(piece.provides.begin(), piece.provides.end(), name) != 0;
    });
  };
  return provides(KernelTarget::Cuda) && provides(KernelTarget::Host);
}

std::string assembleKernel(const std::string& kernel_text, const AssembleOptions& options) {
  const bool is_host = options.target == KernelTarget::Host;
  Names names;
  for (std::string& name : scanNames(kernel_text)) {
    names.insert(std::move(name));
  }
  const auto pieces = selectPieces(devicePieces(options.target), names);

  // Lines of definitions at the beginning are settings of the library.
  size_t settings_end = 0;
  while (kernel_text.compare(settings_end, 8, "#define ") == 0) {
    settings_end = kernel_text.find('\n', settings_end) + 1;
  }
  std::string text = kernel_text.substr(0, settings_end);
  if (is_host) {
    text += "#pragma GCC visibility push(hidden)\n";
    if (options.adversarial) {
      text += "#define NVF_HOST_ADVERSARIAL\n";
    }
    // Threads that synchronize run as fibers.
    if (names.count("nvf::syncBlock") != 0) {
      text += "#define NVF_USES_BARRIERS\n";
    }
    if (names.count("nvf::MBarrier") != 0) {
      text += "#define NVF_USES_PHASES\n";
    }
  }
  text += options.index_is_64bit ? "using nvfuser_index_t = long long;\n\n"
                                 : "using nvfuser_index_t = int;\n\n";
  for (const DevicePiece* piece : pieces) {
    text += piece->text;
    text += '\n';
  }
  for (const std::string name : {"nvf", "nvf::approx"}) {
    replaceAll(text, "} // namespace " + name + "\n\nnamespace " + name + " {\n", "\n");
  }
  text += kernel_text.substr(settings_end);
  if (is_host) {
    translateUnrollPragmas(text);
  }
  return text;
}

std::string assembleKernel(const std::string& kernel_text, KernelTarget target, bool index_is_64bit,
                           bool adversarial) {
  return assembleKernel(kernel_text, AssembleOptions{target, index_is_64bit, adversarial});
}

} // namespace nvfuser

// SPDX-License-Identifier: BSD-3-Clause
// Parameters that measurements found to be better than what the heuristics choose, kept on disk.
//
// An entry holds for one segment (by its text), one choice of the heuristics, one size class and
// one kind of device. The heuristics' choice in the key is what makes an entry safe for other
// shapes: shapes with other divisibilities, alignments or row lengths lead to another choice.
//
// One file an entry, in the folder "tuned" of the kernel cache. No failure here is an error:
// without a usable folder entries last as long as the process.
#pragma once

#include <fusion.h>
#include <scheduler/params.h>
#include <target/device.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace nvfuser {

class TunedParams {
 public:
  // An empty directory: nothing is kept on disk.
  explicit TunedParams(std::string directory);
  // In the kernel cache's folder.
  static TunedParams& instance();

  // Of a definition. (Its printed text may be much longer: sizes are nested expressions.)
  static std::string nameOf(const Fusion& segment);
  // `segment`: see nameOf(). `size_class`: see sizeClass().
  static std::string key(const std::string& segment, const HeuristicParams& chosen, int size_class,
                         Device device);
  // Sizes of which the larger is less than twice the smaller are mostly in the same class.
  static int sizeClass(int64_t bytes);

  // Whether there may be any entry at all; cheap. NVFUSER_DISABLE=tuned_params: there is none.
  bool any() const;
  // Null if there is no entry; `chosen` is the heuristics' choice that the key was made with.
  std::unique_ptr<HeuristicParams> find(const std::string& key, const HeuristicParams& chosen);
  void store(const std::string& key, const HeuristicParams& params);
  void erase(const std::string& key);

  const std::string& directory() const {
    return directory_;
  }

 private:
  std::string pathOf(const std::string& key) const;

  std::string directory_;
  mutable std::mutex mutex_;
  bool any_ = false;
  // Texts that were looked for; none where there is no entry.
  std::map<std::string, std::optional<std::string>> known_;
};

} // namespace nvfuser

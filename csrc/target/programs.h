// SPDX-License-Identifier: BSD-3-Clause
// Running other programs: the host compiler, the disassembler.
#pragma once

#include <string>
#include <vector>

namespace nvfuser {

// A folder of our own below $TMPDIR, removed with what is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const {
    return path_;
  }
  std::string file(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

// Removes what processes of this user left below $TMPDIR that were killed while they had such a
// folder. Called when a process looks for its first kernel; does something once in a process.
void removeFoldersOfKilledProcesses();

// Empty if the file cannot be read.
std::string readFile(const std::string& path);
// UserError: the file cannot be written.
void writeFile(const std::string& path, const std::string& contents);

// The path of a program: searched in $PATH unless the name has a slash. Empty: there is none.
std::string findInPath(const std::string& name);

// Runs a program to its end with both outputs in a file, without a shell. Its temporary files go to
// `temporary_folder`. An interrupt from the keyboard is this process's alone: the program is run to
// its end. Returns its exit status, -1 if it was ended by a signal. UserError: it cannot be
// started.
int runProgram(const std::vector<std::string>& arguments, const std::string& output_file,
               const std::string& temporary_folder = {});

} // namespace nvfuser

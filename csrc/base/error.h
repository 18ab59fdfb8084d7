// SPDX-License-Identifier: BSD-3-Clause
// Errors. A mistake in what the user wrote or passed is a UserError; a broken invariant of the
// compiler is an InternalError, and one that reaches a user is a bug. Both are std::runtime_error,
// so that code which only reports failures needs to know neither.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace nvfuser {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InternalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

// Out of line so that a check costs its caller a compare and a call on a cold path.
[[noreturn]] void throwUserError(const char* file, int line, const char* condition,
                                 const std::string& message);
[[noreturn]] void throwInternalError(const char* file, int line, const char* condition,
                                     const std::string& message);

inline std::string streamToString() {
  return {};
}

template <class... Args>
[[gnu::cold, gnu::noinline]] std::string streamToString(const Args&... args) {
  std::ostringstream stream;
  (stream << ... << args);
  return stream.str();
}

} // namespace detail
} // namespace nvfuser

// The arguments after the condition are streamed one after the other into the message; they are not
// evaluated when the condition holds. Without arguments the message quotes the condition.

// The user did something that the contract does not allow.
#define NVF_CHECK(condition, ...)                                                        \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      ::nvfuser::detail::throwUserError(__FILE__, __LINE__, #condition,                  \
                                        ::nvfuser::detail::streamToString(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)

#define NVF_CHECK_FAIL(...)                                 \
  ::nvfuser::detail::throwUserError(__FILE__, __LINE__, "", \
                                    ::nvfuser::detail::streamToString(__VA_ARGS__))

// This cannot be false unless the compiler itself is wrong.
#define NVF_ERROR(condition, ...)                                                            \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      ::nvfuser::detail::throwInternalError(__FILE__, __LINE__, #condition,                  \
                                            ::nvfuser::detail::streamToString(__VA_ARGS__)); \
    }                                                                                        \
  } while (false)

#define NVF_THROW(...)                                          \
  ::nvfuser::detail::throwInternalError(__FILE__, __LINE__, "", \
                                        ::nvfuser::detail::streamToString(__VA_ARGS__))

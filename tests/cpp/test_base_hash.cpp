// SPDX-License-Identifier: BSD-3-Clause
// Hashes: known answers of SHA-256, and that no input bit is lost.
#include <gtest/gtest.h>

#include <base/hash.h>

namespace nvfuser {
namespace {

TEST(Hash, Sha256KnownAnswers) {
  // FIPS 180-4 examples.
  EXPECT_EQ(Sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256().update("abc").hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().update("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256().update(std::string(1000000, 'a')).hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Sha256InPieces) {
  const std::string text(1000, 'x');
  Sha256 pieces;
  for (size_t at = 0, step = 1; at < text.size(); at += step, step = step % 97 + 3) {
    pieces.update(std::string_view(text).substr(at, step));
  }
  EXPECT_EQ(pieces.hex(), Sha256().update(text).hex());
}

TEST(Hash, FieldsCannotBeConfused) {
  EXPECT_NE(Sha256().updateField("ab").updateField("c").hex(),
            Sha256().updateField("a").updateField("bc").hex());
}

TEST(Hash, BytesSeeLengthAndEveryByte) {
  EXPECT_NE(hashString("a"), hashString(std::string_view("a\0", 2)));
  std::string text(33, 'q');
  const uint64_t original = hashString(text);
  for (char& c : text) {
    c ^= 1;
    EXPECT_NE(hashString(text), original);
    c ^= 1;
  }
  EXPECT_EQ(hashString(text), original);
}

} // namespace
} // namespace nvfuser

// Decoding on the host against an oracle of single elements, bit for bit: every stored type, byte order, orientation and
// target type, at the sizes on both sides of the blocks, from unaligned addresses, with 1 to 3 threads.
#include "kernels/decode_host.h"

#include <cstddef>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/decode_oracle.h"

using namespace tallsketch;

namespace {

constexpr std::byte kUntouched{0xa5};

/// Decodes from `shift` bytes past an aligned address; what lies around the output must stay as it was.
void check_decode(const Encoding& encoding, std::int64_t rows, std::int64_t cols, ElementType out_type,
                  std::size_t shift, int threads) {
  const std::vector<std::byte> elements = stored_elements(encoding.type, rows * cols, 11);
  std::vector<std::byte> shifted(elements.size() + shift);
  std::copy(elements.begin(), elements.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
  const EncodedView from{shifted.data() + shift, rows, cols, encoding};
  const std::vector<std::byte> expected = decoded(from, out_type);
  constexpr std::size_t kMargin = 64;
  std::vector<std::byte> out(expected.size() + 2 * kMargin, kUntouched);
  host::decode(from, out.data() + kMargin, out_type, threads);
  std::vector<std::byte> framed(kMargin, kUntouched);
  framed.insert(framed.end(), expected.begin(), expected.end());
  framed.resize(out.size(), kUntouched);
  INFO("type " << static_cast<int>(encoding.type) << (encoding.swapped ? ", swapped" : "")
               << (encoding.by_columns ? ", by columns" : "") << ", " << rows << " x " << cols << " to "
               << static_cast<int>(out_type) << ", shift " << shift << ", " << threads << " threads");
  CHECK((out == framed));
}

}  // namespace

TEST_CASE("Every stored form of every shape is decoded as element by element") {
  for (const StoredType type : kStoredTypes) {
    for (const ElementType out_type : decoded_types(type)) {
      for (const bool swapped : {false, true}) {
        for (const bool by_columns : {false, true}) {
          for (const auto& [rows, cols] : kDecodeShapes) {
            check_decode({type, swapped, by_columns}, rows, cols, out_type, 0, 2);
          }
        }
      }
    }
  }
}

TEST_CASE("Addresses need no alignment, and threads change nothing") {
  for (const StoredType type : kStoredTypes) {
    for (const bool by_columns : {false, true}) {
      for (const std::size_t shift : {std::size_t{1}, std::size_t{3}, std::size_t{6}}) {
        check_decode({type, true, by_columns}, 131, 37, element_type_of(type), shift, 1);
        check_decode({type, false, by_columns}, 40001, 37, element_type_of(type), shift, 3);  // enough for 3 threads
      }
    }
  }
}

TEST_CASE("Stored sizes and the types that hold them") {
  CHECK(stored_size(StoredType::kInt8) == 1);
  CHECK(stored_size(StoredType::kBfloat16) == 2);
  CHECK(stored_size(StoredType::kUint32) == 4);
  CHECK(stored_size(StoredType::kUint64) == 8);
  CHECK(element_type_of(StoredType::kUint16) == ElementType::kFloat32);  // 65535 < 2^24
  CHECK(element_type_of(StoredType::kInt32) == ElementType::kFloat64);
  for (const ElementType type :
       {ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFloat32, ElementType::kFloat64}) {
    CHECK(element_type_of(stored_type_of(type)) == type);
    CHECK(plain_encoding(type) == Encoding{stored_type_of(type), false, false});
  }
}

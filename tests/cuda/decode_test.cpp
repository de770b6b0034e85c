// Decoding on the device gives the host's bits: every stored type, byte order, orientation and target type, at sizes on
// both sides of the tiles, into rows with and without padding, which stays as it was.
#include "kernels/decode_cuda.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/decode_host.h"
#include "tests/support/catch.h"
#include "tests/support/decode_oracle.h"
#include "tests/support/device_data.h"

using namespace tallsketch;

namespace {

constexpr std::byte kUntouched{0xa5};

void check_decode(const Encoding& encoding, std::int64_t rows, std::int64_t cols, ElementType out_type,
                  std::int64_t padding) {
  const std::vector<std::byte> elements = stored_elements(encoding.type, rows * cols, 5);
  const std::int64_t word = element_size(out_type), pitch = cols + padding;
  std::vector<std::byte> dense(static_cast<std::size_t>(rows * cols * word));
  host::decode({elements.data(), rows, cols, encoding}, dense.data(), out_type, 1);
  std::vector<std::byte> expected(static_cast<std::size_t>(rows * pitch * word), kUntouched);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(dense.data() + i * cols * word, cols * word, expected.data() + i * pitch * word);
  }
  const auto from = to_device(elements);
  const auto out = to_device(std::vector<std::byte>(expected.size(), kUntouched));
  check(cuda::decode({from.data(), rows, cols, encoding}, {out.data(), rows, cols, pitch, out_type, 0}, nullptr));
  check(cudaDeviceSynchronize());
  INFO("type " << static_cast<int>(encoding.type) << (encoding.swapped ? ", swapped" : "")
               << (encoding.by_columns ? ", by columns" : "") << ", " << rows << " x " << cols << " to "
               << static_cast<int>(out_type) << ", padding " << padding);
  CHECK((to_host(out) == expected));
}

}  // namespace

TEST_CASE("Every stored form of every shape is decoded to the host's bits") {
  for (const StoredType type : kStoredTypes) {
    for (const ElementType out_type : decoded_types(type)) {
      for (const bool swapped : {false, true}) {
        for (const bool by_columns : {false, true}) {
          for (const auto& [rows, cols] : kDecodeShapes) {
            check_decode({type, swapped, by_columns}, rows, cols, out_type, 0);
            check_decode({type, swapped, by_columns}, rows, cols, out_type, 3);
          }
        }
      }
    }
  }
}

TEST_CASE("More tiles and elements than a grid has threads at a time") {
  check_decode({StoredType::kInt16, true, true}, 70001, 33, ElementType::kFloat32, 1);
  check_decode({StoredType::kFloat64, false, false}, 70001, 33, ElementType::kFloat32, 1);
}

TEST_CASE("A type that the stored one does not become is refused") {
  const DeviceBuffer<std::byte> some(64);
  const SlabView out{some.data(), 1, 1, 1, ElementType::kFloat64, 0};
  for (const StoredType type : {StoredType::kFloat32, StoredType::kInt8, StoredType::kFloat16}) {
    CHECK(cuda::decode({some.data(), 1, 1, {type, false, false}}, out, nullptr) == cudaErrorInvalidValue);
  }
  CHECK(cuda::decode({nullptr, 0, 5, {StoredType::kInt8, false, false}}, {nullptr, 0, 5, 5, ElementType::kFloat32, 0},
                     nullptr) == cudaSuccess);
}

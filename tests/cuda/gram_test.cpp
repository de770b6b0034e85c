// DeviceGram: bit for bit the dense loop's Gram matrix on integers, for every type, odd widths, many right-hand sides and any
// pieces.
#include <vector>

#include "kernels/philox.h"
#include "src/cuda_gram.h"
#include "src/text.h"
#include "tests/support/catch.h"
#include "tests/support/device_data.h"
#include "tests/support/elements.h"
#include "tests/support/exact_data.h"

using namespace tallsketch;

namespace {

/// Column-major upper triangle of [A | b]^T [A | b], A and b row-major.
std::vector<double> dense_gram(const std::vector<double>& a, const std::vector<double>& b, std::int64_t rows,
                               std::int64_t n, std::int64_t r) {
  const std::int64_t cols = n + r;
  std::vector<double> gram(static_cast<std::size_t>(cols * cols), 0.0), row(static_cast<std::size_t>(cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(a.begin() + i * n, n, row.begin());
    std::copy_n(b.begin() + i * r, r, row.begin() + n);
    for (std::int64_t j = 0; j < cols; ++j) {
      double* const column = gram.data() + j * cols;
      const double factor = row[static_cast<std::size_t>(j)];
      for (std::int64_t k = 0; k <= j; ++k) column[k] += row[static_cast<std::size_t>(k)] * factor;
    }
  }
  return gram;
}

std::vector<double> device_gram(const std::vector<double>& a, const std::vector<double>& b, std::int64_t rows,
                                std::int64_t n, std::int64_t r, ElementType type, std::int64_t chunk_bytes,
                                std::int64_t rows_per_add) {
  const std::int64_t pitch = cuda::device_pitch(n, type), size = element_size(type);
  std::vector<std::byte> stored(static_cast<std::size_t>(rows * pitch * size));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      store_element(type, a[static_cast<std::size_t>(i * n + j)], stored.data() + (i * pitch + j) * size);
    }
  }
  const auto device_a = to_device(stored);
  const auto device_b = to_device(b);
  const SlabView slab{device_a.data(), rows, n, pitch, type, 5};
  const SlabView rhs{device_b.data(), rows, r, r, ElementType::kFloat64, 5};
  const CudaStream stream;
  const auto blas = make_blas(stream);
  DeviceGram gram(n, r, type, blas.get(), stream, chunk_bytes);
  for (std::int64_t begin = 0; begin < rows; begin += rows_per_add) {
    const std::int64_t count = std::min(rows_per_add, rows - begin);
    gram.add(rows_of(slab, begin, count), rows_of(rhs, begin, count));
  }
  const auto out = zeros<double>((n + r) * (n + r));
  gram.copy_to(out.data());
  stream.synchronize();
  return to_host(out);
}

}  // namespace

TEST_CASE("The Gram matrix of integers equals a dense loop's bit for bit for every type, odd widths and any pieces") {
  const std::int64_t rows = 777;
  for (const auto& [n, r] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                             {3, 2},
                             {31, 1},
                             {64, 1},
                             {65, 5},
                             {129, 17},
                             {200, 16},
                             {1025, 1}}) {
    std::vector<double> a, b;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < n; ++j) a.push_back(static_cast<double>((i * 7 + j * 13 + i * j % 11) % 17 - 8));
      for (std::int64_t k = 0; k < r; ++k) b.push_back(exact_entry(i, k));
    }
    const std::vector<double> expected = dense_gram(a, b, rows, n, r);
    for (const ElementType type : kElementTypes) {
      for (const auto& [chunk_bytes, rows_per_add] :
           {std::pair<std::int64_t, std::int64_t>{DeviceGram::kChunkBytes, rows}, {100 * n * 8, 333}}) {
        const std::vector<double> got = device_gram(a, b, rows, n, r, type, chunk_bytes, rows_per_add);
        std::int64_t wrong = 0;
        for (std::size_t k = 0; k < expected.size(); ++k) wrong += got[k] == expected[k] ? 0 : 1;
        INFO(to_word(type) << " n " << n << " r " << r << " rows at a time " << rows_per_add);
        CHECK(wrong == 0);
      }
    }
  }
}

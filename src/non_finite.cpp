#include "src/non_finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "kernels/half.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/host_buffer.h"
#include "src/row_pass.h"

namespace tallsketch {

namespace {

template <class T, class ToDouble>
NonFinite scan(const T* data, RowRange rows, std::int64_t cols, double limit, ToDouble to_double) {
  NonFinite found;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      if (std::fabs(to_double(data[i * cols + j])) <= limit) continue;  // false for NaN
      if (found.count++ == 0) {
        found.row = rows.begin + i;
        found.col = j;
      }
    }
  }
  return found;
}

void merge(NonFinite& total, const NonFinite& part) {
  if (total.count == 0) {
    total.row = part.row;
    total.col = part.col;
  }
  total.count += part.count;
}

/// Sum of the counts and first place over all ranks; ranks hold rows in order, so the first rank that has one decides.
NonFinite over_ranks(NonFinite mine, const Communicator& comm) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const std::int64_t row = comm.min(mine.count > 0 ? mine.row : kNone);
  const std::int64_t col = comm.min(mine.count > 0 && mine.row == row ? mine.col : kNone);
  comm.sum(&mine.count, 1);
  return {mine.count, row, col};
}

void throw_if_any(const NonFinite& found, const char* matrix, const std::string& dataset, const SourceInfo& info,
                  const char* what) {
  if (found.count == 0) return;
  throw Error(ErrorKind::kNonFinite,
              fmt::format("{} has {} {}; the first is at row {}, column {} (0-based) of dataset {} in {}", matrix,
                          found.count, what, found.row, found.col, dataset, fmt::join(info.files, ", ")));
}

}  // namespace

NonFinite find_non_finite(const void* data, ElementType type, RowRange rows, std::int64_t cols, double limit) {
  switch (type) {
    case ElementType::kFloat32:
      return scan(static_cast<const float*>(data), rows, cols, limit, [](float v) { return double{v}; });
    case ElementType::kFloat64:
      return scan(static_cast<const double*>(data), rows, cols, limit, [](double v) { return v; });
    case ElementType::kFloat16:
      return scan(static_cast<const std::uint16_t*>(data), rows, cols, limit,
                  [](std::uint16_t v) { return double{half_to_float(v)}; });
  }
  return {};
}

void throw_if_non_finite(RowSource& source, RowRange my_rows, std::int64_t chunk_rows, const Communicator& comm) {
  const ProblemShape& shape = source.shape();
  constexpr double kFinite = std::numeric_limits<double>::max();
  constexpr double kFloat = std::numeric_limits<float>::max();
  NonFinite in_a, in_b, large_a, large_b;
  comm.together([&] {
    HostBuffer a(chunk_rows * shape.n * element_size(shape.a_type));
    std::vector<double> b(static_cast<std::size_t>(chunk_rows * shape.r));
    for_each_chunk(my_rows, chunk_rows, [&](RowRange rows) {
      source.read(rows, a.data(), b.data());
      merge(in_a, find_non_finite(a.data(), shape.a_type, rows, shape.n, kFinite));
      merge(in_b, find_non_finite(b.data(), ElementType::kFloat64, rows, shape.r, kFinite));
      merge(large_a, find_non_finite(a.data(), shape.a_type, rows, shape.n, kFloat));
      merge(large_b, find_non_finite(b.data(), ElementType::kFloat64, rows, shape.r, kFloat));
    });
  });
  const SourceInfo& info = source.info();
  const NonFinite all_in_a = over_ranks(in_a, comm), all_in_b = over_ranks(in_b, comm);
  const NonFinite all_large_a = over_ranks(large_a, comm), all_large_b = over_ranks(large_b, comm);
  comm.together([&] {
    throw_if_any(all_in_a, "A", info.a_name, info, "non-finite values (NaN or Inf)");
    throw_if_any(all_in_b, "b", info.b_name, info, "non-finite values (NaN or Inf)");
    const char* const too_large = "values beyond the range of float32, in which the sketch is made";
    throw_if_any(all_large_a, "A", info.a_name, info, too_large);
    throw_if_any(all_large_b, "b", info.b_name, info, too_large);
  });
}

}  // namespace tallsketch

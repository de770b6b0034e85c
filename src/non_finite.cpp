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
NonFinite scan(const T* data, RowRange rows, std::int64_t cols, Magnitudes pass, ToDouble to_double) {
  NonFinite found;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const double magnitude = std::fabs(to_double(data[i * cols + j]));
      if (magnitude == 0 || (magnitude >= pass.least && magnitude <= pass.most)) continue;  // false for NaN
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

NonFinite find_outside(const void* data, ElementType type, RowRange rows, std::int64_t cols, Magnitudes pass) {
  switch (type) {
    case ElementType::kFloat32:
      return scan(static_cast<const float*>(data), rows, cols, pass, [](float v) { return double{v}; });
    case ElementType::kFloat64:
      return scan(static_cast<const double*>(data), rows, cols, pass, [](double v) { return v; });
    case ElementType::kFloat16:
      return scan(static_cast<const std::uint16_t*>(data), rows, cols, pass,
                  [](std::uint16_t v) { return double{half_to_float(v)}; });
    case ElementType::kBfloat16:
      return scan(static_cast<const std::uint16_t*>(data), rows, cols, pass,
                  [](std::uint16_t v) { return double{bfloat16_to_float(v)}; });
  }
  return {};
}

void throw_if_out_of_range(RowSource& source, RowRange my_rows, std::int64_t chunk_rows, const Communicator& comm) {
  const ProblemShape& shape = source.shape();
  struct Search {
    Magnitudes pass;
    const char* what;
    NonFinite in_a, in_b;
  };
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kMostFloat = std::numeric_limits<float>::max(), kLeastFloat = std::numeric_limits<float>::min();
  Search searches[] = {
      {{0, kMost}, "non-finite values (NaN or Inf)", {}, {}},
      {{0, kMostFloat}, "values beyond the range of float32, in which the sketch is made: scale them down", {}, {}},
      {{kLeastFloat, kMost}, "values below the range of float32, in which the sketch is made: scale them up", {}, {}}};
  // float32 and float16 below that range are subnormal, and as exact as they were stored.
  const bool a_is_wide = shape.a_type == ElementType::kFloat64;
  comm.together([&] {
    HostBuffer a(chunk_rows * shape.a_row_bytes());
    std::vector<double> b(static_cast<std::size_t>(chunk_rows * shape.r));
    for_each_chunk(my_rows, chunk_rows, [&](RowRange rows) {
      source.read(rows, a.data(), b.data());
      for (Search& search : searches) {
        if (search.pass.least == 0 || a_is_wide) {
          merge(search.in_a, find_outside(a.data(), shape.a_type, rows, shape.n, search.pass));
        }
        merge(search.in_b, find_outside(b.data(), ElementType::kFloat64, rows, shape.r, search.pass));
      }
    });
  });
  for (Search& search : searches) {
    search.in_a = over_ranks(search.in_a, comm);
    search.in_b = over_ranks(search.in_b, comm);
  }
  comm.together([&] {
    const SourceInfo& info = source.info();
    for (const Search& search : searches) {
      throw_if_any(search.in_a, "A", info.a_name, info, search.what);
      throw_if_any(search.in_b, "b", info.b_name, info, search.what);
    }
  });
}

}  // namespace tallsketch

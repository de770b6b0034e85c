#include "src/non_finite.h"

#include <algorithm>
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
NonFinite scan(const T* data, RowRange rows, std::int64_t cols, Magnitudes accepted, ToDouble to_double) {
  NonFinite found;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const double magnitude = std::fabs(to_double(data[i * cols + j]));
      if (magnitude == 0 || accepted.hold(magnitude)) continue;
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

void throw_if_any(const NonFinite& found, bool of_b, const RowSource& source, const char* what) {
  if (found.count == 0) return;
  const SourceInfo& info = source.info();
  const char* const matrix = of_b ? "b" : "A";
  const std::string& dataset = of_b ? info.b_name : info.a_name;
  const std::string note =
      !of_b && !info.narrowing.empty()
          ? fmt::format(" ({}: larger than 3.4e38 is infinite there; --data-precision stored keeps it)", info.narrowing)
          : "";
  const std::optional<StoredPlace> stored = source.place_of(found.row, of_b);
  std::string place = fmt::format(" of dataset {} in {}", dataset, fmt::join(info.files, ", "));
  if (stored) {
    place =
        fmt::format(" of {} in {}", stored->dataset.empty() ? "the array" : "dataset " + stored->dataset, stored->file);
    if (stored->row != found.row) place = fmt::format(", which is row {}", stored->row) + place;
  }
  throw Error(ErrorKind::kNonFinite, fmt::format("{} has {} {}; the first is at row {}, column {} (0-based){}{}",
                                                 matrix, found.count, what, found.row, found.col, place, note));
}

/// Calls f with the data in their stored type and the conversion to double.
template <class F>
void visit_elements(const void* data, ElementType type, F&& f) {
  switch (type) {
    case ElementType::kFloat32: return f(static_cast<const float*>(data), [](float v) { return double{v}; });
    case ElementType::kFloat64: return f(static_cast<const double*>(data), [](double v) { return v; });
    case ElementType::kFloat16:
      return f(static_cast<const std::uint16_t*>(data), [](std::uint16_t v) { return half_to_double(v); });
    case ElementType::kBfloat16:
      return f(static_cast<const std::uint16_t*>(data), [](std::uint16_t v) { return bfloat16_to_double(v); });
  }
}

/// Raises column_max (cols) to the largest magnitudes of (rows, cols) row-major values; NaN is passed over.
void raise_column_maxima(const void* data, ElementType type, std::int64_t rows, std::int64_t cols, double* column_max) {
  visit_elements(data, type, [&](const auto* values, auto to_double) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        column_max[j] = std::max(column_max[j], std::fabs(to_double(values[i * cols + j])));
      }
    }
  });
}

/// What to look for in A and in b, and what was found.
struct Search {
  Magnitudes accepted;
  const char* what;
  NonFinite in_a, in_b;
};

constexpr double kMost = std::numeric_limits<double>::max();
constexpr Search kNonFiniteValues = {{0, kMost}, "non-finite values (NaN or Inf)", {}, {}};

/// Reads my rows chunk by chunk, in small ones, which no plan has to count; visit(rows, a, b) for each.
template <class F>
void read_again(RowSource& source, RowRange my_rows, std::int64_t chunk_rows, F&& visit) {
  constexpr std::int64_t kMostBytes = std::int64_t{2} << 20;
  const ProblemShape& shape = source.shape();
  chunk_rows = std::min(chunk_rows, std::max<std::int64_t>(1, kMostBytes / shape.row_bytes()));
  HostBuffer a(chunk_rows * shape.a_row_bytes());
  std::vector<double> b(static_cast<std::size_t>(chunk_rows * shape.r));
  for_each_chunk(my_rows, chunk_rows, [&](RowRange rows) {
    source.read(rows, a.data(), b.data());
    visit(rows, a.data(), b.data());
  });
}

void look(Search& search, const ProblemShape& shape, RowRange rows, const void* a, const double* b) {
  // float32 and float16 below the range are subnormal, and as exact as they were stored.
  const bool a_may_be_out = search.accepted.least == 0 || shape.a_type == ElementType::kFloat64;
  if (a_may_be_out) merge(search.in_a, find_outside(a, shape.a_type, rows, shape.n, search.accepted));
  merge(search.in_b, find_outside(b, ElementType::kFloat64, rows, shape.r, search.accepted));
}

/// Collective: throws what the first search that found something found on any rank.
void throw_findings(std::vector<Search>& searches, const RowSource& source, const Communicator& comm) {
  for (Search& search : searches) {
    search.in_a = over_ranks(search.in_a, comm);
    search.in_b = over_ranks(search.in_b, comm);
  }
  comm.together([&] {
    for (const Search& search : searches) {
      throw_if_any(search.in_a, false, source, search.what);
      throw_if_any(search.in_b, true, source, search.what);
    }
  });
}

}  // namespace

NonFinite find_outside(const void* data, ElementType type, RowRange rows, std::int64_t cols, Magnitudes accepted) {
  NonFinite found;
  visit_elements(data, type,
                 [&](const auto* values, auto to_double) { found = scan(values, rows, cols, accepted, to_double); });
  return found;
}

void throw_if_out_of_range(RowSource& source, RowRange my_rows, std::int64_t chunk_rows, SketchPrecision precision,
                           const Communicator& comm) {
  std::vector<Search> searches = {kNonFiniteValues};
  if (precision != SketchPrecision::kFp64) {
    constexpr double kMostFloat = std::numeric_limits<float>::max(), kLeastFloat = std::numeric_limits<float>::min();
    searches.push_back({{0, kMostFloat},
                        "values beyond the range of float32, in which the sketch is made: scale them down, or use "
                        "--scaling auto",
                        {},
                        {}});
    searches.push_back({{kLeastFloat, kMost},
                        "values below the range of float32, in which the sketch is made: scale them up, or use "
                        "--scaling auto",
                        {},
                        {}});
  }
  comm.together([&] {
    read_again(source, my_rows, chunk_rows, [&](RowRange rows, const void* a, const double* b) {
      for (Search& search : searches) look(search, source.shape(), rows, a, b);
    });
  });
  throw_findings(searches, source, comm);
}

std::vector<double> finite_column_maxima(RowSource& source, RowRange my_rows, std::int64_t chunk_rows,
                                         const Communicator& comm) {
  const ProblemShape& shape = source.shape();
  std::vector<Search> searches = {kNonFiniteValues};
  std::vector<double> column_max(static_cast<std::size_t>(shape.n + shape.r), 0.0);
  comm.together([&] {
    read_again(source, my_rows, chunk_rows, [&](RowRange rows, const void* a, const double* b) {
      look(searches.front(), shape, rows, a, b);
      raise_column_maxima(a, shape.a_type, rows.size(), shape.n, column_max.data());
      raise_column_maxima(b, ElementType::kFloat64, rows.size(), shape.r, column_max.data() + shape.n);
    });
  });
  throw_findings(searches, source, comm);
  comm.max(column_max.data(), shape.n + shape.r);
  return column_max;
}

}  // namespace tallsketch

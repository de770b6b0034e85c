#include "src/host_half_sketch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/half.h"
#include "src/communicator.h"
#include "src/device_row_limits.h"
#include "src/half_factors.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kRowsAtATime = 1024;
constexpr std::int64_t kColumnsAtATime = 64;  // of one thread: a slice of the sketch in its first cache

float element(const SlabView& a, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * a.pitch + column;
  switch (a.type) {
    case ElementType::kFloat32: return static_cast<const float*>(a.data)[at];
    case ElementType::kFloat64: return static_cast<float>(static_cast<const double*>(a.data)[at]);
    case ElementType::kFloat16: return half_to_float(static_cast<const std::uint16_t*>(a.data)[at]);
    case ElementType::kBfloat16: return bfloat16_to_float(static_cast<const std::uint16_t*>(a.data)[at]);
  }
  return 0;
}

template <class Format>
std::uint16_t narrowed(float value);
template <>
std::uint16_t narrowed<Binary16>(float value) {
  return float_to_half(value);
}
template <>
std::uint16_t narrowed<Bfloat16>(float value) {
  return float_to_bfloat16(value);
}

template <class Format>
float widened(std::uint16_t pattern);
template <>
float widened<Binary16>(std::uint16_t pattern) {
  return half_to_float(pattern);
}
template <>
float widened<Bfloat16>(std::uint16_t pattern) {
  return bfloat16_to_float(pattern);
}

/// Contributions of the columns of a slice to one row of the sketch, without S's sign: all conversions are odd.
using Slice = std::array<std::uint16_t, kColumnsAtATime>;

/// The random words of a slice's pairs of columns, for a group of blocks.
using SliceWords = std::array<RandomWords, kColumnsAtATime / 2>;

template <class Format>
std::uint16_t rounded(float product, SketchRounding rounding, std::uint32_t random) {
  switch (rounding) {
    case SketchRounding::kNearest: return narrowed<Format>(product);
    case SketchRounding::kStochastic:
      return static_cast<std::uint16_t>(round_stochastically(bracket<Format>(product), random));
    case SketchRounding::kDither: return narrowed<Format>(dithered<Format>(product, random));
  }
  return 0;
}

/// sums[j] += +-contributions[j], rounded to nearest. FP32 has more than twice the digits: adding in it first rounds no
/// differently (Figueroa, "When is double rounding innocuous?", 1995).
template <class Format>
void add_slice(std::uint16_t* sums, const Slice& contributions, std::int64_t count, bool negative) {
  const auto sign = static_cast<std::uint16_t>(negative ? 0x8000U : 0U);
  for (std::int64_t j = 0; j < count; ++j) {
    const auto signed_one = static_cast<std::uint16_t>(contributions[static_cast<std::size_t>(j)] ^ sign);
    sums[j] = narrowed<Format>(widened<Format>(sums[j]) + widened<Format>(signed_one));
  }
}

}  // namespace

std::int64_t HostHalfSketch::bytes(const SketchSpec& spec, std::int64_t n, std::int64_t r) {
  return spec.d * (2 * n + 4 * r) + kRowsAtATime * spec.zeta * static_cast<std::int64_t>(sizeof(SketchEntry)) + 16 * n;
}

HostHalfSketch::HostHalfSketch(const SketchSpec& spec, std::int64_t n, std::int64_t r, ScalingChoice scaling,
                               int threads)
    : spec_(spec),
      n_(n),
      r_(r),
      scaling_(scaling),
      threads_(threads),
      sketch_(static_cast<std::size_t>(spec.d * n)),
      sketch_b_(static_cast<std::size_t>(spec.d * r)),
      largest_(static_cast<std::size_t>(n)),
      squares_(static_cast<std::size_t>(n)),
      factor_(static_cast<std::size_t>(n), fixed_half_factor(spec, scaling)) {}

bool HostHalfSketch::scales() const { return scales_by_data(spec_, scaling_); }

void HostHalfSketch::measure(const SlabView& a) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < n_; ++j) {
      const float value = element(a, i, j);
      const auto at = static_cast<std::size_t>(j);
      largest_[at] = std::max(largest_[at], std::fabs(value));
      squares_[at] += double{value} * value;
    }
  }
}

void HostHalfSketch::choose_factors(const Communicator& comm) {
  comm.max(largest_.data(), n_);
  comm.sum(squares_.data(), n_);
  for (std::size_t j = 0; j < factor_.size(); ++j) {
    factor_[j] = half_factor_of_column(spec_, largest_[j], squares_[j]);
  }
}

void HostHalfSketch::make_entries(const SlabView& rows) {
  entries_.resize(static_cast<std::size_t>(rows.rows * spec_.zeta));
#pragma omp parallel for schedule(static) num_threads(threads_)
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    for (std::int32_t t = 0; t < spec_.zeta; ++t) {
      entries_[static_cast<std::size_t>(i * spec_.zeta + t)] = sketch_entry(spec_, rows.first_row + i, t);
    }
  }
}

template <class Format>
void HostHalfSketch::add_rows(const SlabView& a) {
  const bool random = spec_.rounding != SketchRounding::kNearest;
  unsigned long long overflowed = 0, flushed = 0;
#pragma omp parallel for schedule(static) num_threads(threads_) reduction(+ : overflowed, flushed)
  for (std::int64_t first = 0; first < n_; first += kColumnsAtATime) {
    const std::int64_t count = std::min(kColumnsAtATime, n_ - first);
    std::array<float, kColumnsAtATime> product{};
    Slice contribution{};
    SliceWords words{};
    for (std::int64_t i = 0; i < a.rows; ++i) {
      for (std::int64_t j = 0; j < count; ++j) {
        const auto factor = static_cast<float>(factor_[static_cast<std::size_t>(first + j)]);
        product[static_cast<std::size_t>(j)] = element(a, i, first + j) * factor;
      }
      for (std::int32_t t = 0; t < spec_.zeta; ++t) {
        const std::int32_t u = t % kBlocksPerDraw;
        if (random && u == 0) {
          for (std::int64_t pair = 0; 2 * pair < count; ++pair) {
            words[static_cast<std::size_t>(pair)] =
                rounding_words(spec_.seed, a.first_row + i, static_cast<std::uint32_t>(first / 2 + pair),
                               static_cast<std::uint32_t>(t / kBlocksPerDraw));
          }
        }
        for (std::int64_t j = 0; j < count && (random || t == 0); ++j) {  // one conversion to nearest serves all blocks
          const auto at = static_cast<std::size_t>(j);
          const std::uint32_t bits = random ? rounding_bits(words[at / 2], 2 * u + static_cast<int>(j % 2)) : 0;
          contribution[at] = rounded<Format>(product[at], spec_.rounding, bits);
        }
        for (std::int64_t j = 0; j < count; ++j) {
          const auto at = static_cast<std::size_t>(j);
          overflowed += has_overflowed<Format>(product[at], contribution[at]) ? 1 : 0;
          flushed += was_flushed(product[at], contribution[at]) ? 1 : 0;
        }
        const SketchEntry& entry = entries_[static_cast<std::size_t>(i * spec_.zeta + t)];
        add_slice<Format>(sketch_.data() + entry.sketch_row * n_ + first, contribution, count, entry.negative);
      }
    }
  }
  losses_.overflowed += overflowed;
  losses_.flushed += flushed;
}

void HostHalfSketch::add_b(const SlabView& b) {
  const auto* values = static_cast<const double*>(b.data);
  for (std::int64_t i = 0; i < b.rows; ++i) {
    for (std::int32_t t = 0; t < spec_.zeta; ++t) {
      const SketchEntry& entry = entries_[static_cast<std::size_t>(i * spec_.zeta + t)];
      for (std::int64_t k = 0; k < r_; ++k) {
        const auto value = static_cast<float>(values[i * b.pitch + k]);
        sketch_b_[static_cast<std::size_t>(entry.sketch_row * r_ + k)] += entry.negative ? -value : value;
      }
    }
  }
}

void HostHalfSketch::add(const SlabView& a, const SlabView& b) {
  for (std::int64_t begin = 0; begin < a.rows; begin += kRowsAtATime) {
    const std::int64_t count = std::min(kRowsAtATime, a.rows - begin);
    const SlabView rows = rows_of(a, begin, count);
    make_entries(rows);
    if (spec_.precision == SketchPrecision::kFp16) {
      add_rows<Binary16>(rows);
    } else {
      add_rows<Bfloat16>(rows);
    }
    if (r_ > 0) add_b(rows_of(b, begin, count));
  }
}

void HostHalfSketch::finish(float* sketch) const {
  const bool is_half_format = spec_.precision == SketchPrecision::kFp16;
  for (std::int64_t i = 0; i < spec_.d; ++i) {
    for (std::int64_t j = 0; j < n_; ++j) {
      const std::uint16_t pattern = sketch_[static_cast<std::size_t>(i * n_ + j)];
      const float value = is_half_format ? half_to_float(pattern) : bfloat16_to_float(pattern);
      const double inverse = 1 / factor_[static_cast<std::size_t>(j)];
      sketch[i * (n_ + r_) + j] = static_cast<float>(value * inverse);
    }
    std::copy_n(sketch_b_.data() + i * r_, r_, sketch + i * (n_ + r_) + n_);
  }
}

}  // namespace tallsketch

#include "src/sketch_grid.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/block_row.h"
#include "kernels/rounding.h"
#include "src/error.h"
#include "src/sketch_identity.h"
#include "src/text.h"

namespace tallsketch {

namespace {

/// Every one of `sketches` with every one of `values`, which `set` puts in; no values: as they are.
template <class T, class F>
std::vector<SketchOptions> product(const std::vector<SketchOptions>& sketches, const std::vector<T>& values, F&& set) {
  if (values.empty()) return sketches;
  std::vector<SketchOptions> all;
  for (const SketchOptions& sketch : sketches) {
    for (const T& value : values) {
      all.push_back(sketch);
      set(all.back(), value);
    }
  }
  return all;
}

/// The sketches of one family and one n.
std::vector<SketchOptions> sketches_of_family(const BenchSketchOptions& options, BenchFamily family) {
  std::vector<SketchOptions> all(1);
  all.front().may_be_short = options.may_be_short;
  if (options.sketch_rows.empty()) {
    all = product(all, options.oversample, [](SketchOptions& s, double ratio) { s.oversample = ratio; });
  } else {
    all = product(all, options.sketch_rows, [](SketchOptions& s, std::int64_t d) { s.sketch_rows = d; });
  }
  if (family == BenchFamily::kSparseStack) {
    all = product(all, options.zeta, [](SketchOptions& s, int zeta) { s.zeta = zeta; });
  } else {
    all = product(all, options.kappa, [](SketchOptions& s, int kappa) { s.kappa = kappa; });
    all = product(all, options.block_nnz, [](SketchOptions& s, int nnz) { s.block_nnz = nnz; });
  }
  if (family == BenchFamily::kBlockPerm) {
    all = product(all, options.block_rows, [](SketchOptions& s, std::int64_t rows) { s.block_rows = rows; });
    all = product(all, options.input_blocks, [](SketchOptions& s, InputBlocks blocks) { s.input_blocks = blocks; });
    for (SketchOptions& sketch : all) sketch.family = SketchFamily::kBlockPerm;
  }
  if (family != BenchFamily::kFlashBlockRow) {
    all = product(all, options.hash, [](SketchOptions& s, SketchHash hash) { s.hash = hash; });
  }
  all = product(all, options.precision, [](SketchOptions& s, SketchPrecision p) { s.precision = p; });
  // fp32 and fp64 have one way of rounding; where the list lacks it, make_sketch_spec says so of the list's first.
  const bool nearest = std::count(options.rounding.begin(), options.rounding.end(), SketchRounding::kNearest) > 0;
  const std::vector<SketchRounding> only = {nearest ? SketchRounding::kNearest : options.rounding.front()};
  std::vector<SketchOptions> rounded;
  for (const SketchOptions& sketch : all) {
    for (const SketchRounding rounding : is_half(sketch.precision) ? options.rounding : only) {
      rounded.push_back(sketch);
      rounded.back().rounding = rounding;
    }
  }
  return rounded;
}

/// d, kappa and s of FlashBlockRow, in the fields that BlockPerm has for them.
SketchSpec block_row_spec(const TimedShape& shape, const SketchOptions& options) {
  constexpr int kDefaultKappa = 2;  // as for blockperm
  SketchSpec spec;
  spec.precision = options.precision;
  spec.kappa = options.kappa.value_or(kDefaultKappa);
  spec.block_nnz = options.block_nnz.value_or(1);
  spec.block_rows = kBlockRowSize;
  spec.d = options.sketch_rows;
  if (spec.d == 0) {
    spec.d = round_up(static_cast<std::int64_t>(std::ceil(options.oversample * static_cast<double>(shape.n))),
                      kBlockRowSize);
  }
  require(spec.d % kBlockRowSize == 0, ErrorKind::kUsage,
          fmt::format("flashblockrow has blocks of {} sketch rows; use --sketch-rows {}", kBlockRowSize,
                      round_up(spec.d, kBlockRowSize)));
  require(spec.d <= kMaxSketchRows, ErrorKind::kUsage,
          fmt::format("d = {} sketch rows; at most {} are possible", spec.d, kMaxSketchRows));
  require(spec.block_nnz <= kMaxBlockRowNnz, ErrorKind::kUsage,
          fmt::format("flashblockrow samples at most {} rows of a block", kMaxBlockRowNnz));
  return spec;
}

std::vector<TimedShape> shapes(const BenchSketchOptions& options) {
  std::vector<TimedShape> all;
  for (const std::int64_t n : options.cols) {
    for (const ElementType type : options.dtype) {
      const auto from_bytes = static_cast<std::int64_t>(options.bytes) / (element_size(type) * n);
      if (options.rows.empty()) all.push_back({from_bytes, n, options.rhs, type});
      for (const std::int64_t m : options.rows) all.push_back({m, n, options.rhs, type});
    }
  }
  return all;
}

/// Why no machine runs a case; empty if one may.
std::string mismatch(const SketchCase& timed) {
  const bool block_row = timed.family == BenchFamily::kFlashBlockRow && timed.kernel != BenchKernel::kGaussian;
  const bool baseline = block_row || timed.kernel == BenchKernel::kSpmm || timed.kernel == BenchKernel::kGaussian;
  constexpr std::int64_t kMost32 = std::int64_t{1} << 31;
  if (block_row && timed.kernel != BenchKernel::kAuto) return "flashblockrow has one kernel; use --kernel auto";
  if (block_row && timed.shape.m >= 2 * kMost32)
    return "flashblockrow draws rows by 32-bit numbers; use --rows below 2^32";
  if (timed.family == BenchFamily::kSparseStack && timed.kernel == BenchKernel::kFlash) {
    return "--kernel flash applies blockperm sketches only";
  }
  if (timed.kernel == BenchKernel::kSpmm && timed.shape.m * timed.spec.zeta >= kMost32) {
    return "--kernel spmm has 32-bit indices, at most 2^31 - 1 nonzeros of S; use fewer rows";
  }
  if ((baseline || timed.kernel == BenchKernel::kFlash) && timed.spec.precision != SketchPrecision::kFp32) {
    return "this baseline has --precision fp32 alone";
  }
  if ((baseline || timed.kernel == BenchKernel::kFlash) && timed.shape.type != ElementType::kFloat32) {
    return "this kernel reads FP32; use --dtype f4";
  }
  if (timed.shape.type == ElementType::kFloat64 && timed.spec.precision != SketchPrecision::kFp64) {
    return "--dtype f8 is for --precision fp64: all other sketches are of FP32 in memory";
  }
  if (baseline && timed.shape.r > 0) return "this baseline sketches A alone; use --rhs 0";
  return "";
}

/// A dense sketch of d rows is the same beside every sparse one.
bool is_repeated(const std::vector<SketchCase>& cases, const SketchCase& next) {
  return next.kernel == BenchKernel::kGaussian && std::any_of(cases.begin(), cases.end(), [&](const SketchCase& c) {
           return c.kernel == next.kernel && c.shape.m == next.shape.m && c.shape.n == next.shape.n &&
                  c.shape.type == next.shape.type && c.spec.d == next.spec.d;
         });
}

void add_case(const SketchCase& next, const std::function<void(const std::string&)>& skip,
              std::vector<SketchCase>& cases) {
  const std::string reason = mismatch(next);
  if (!reason.empty()) {
    skip(describe(next) + ": " + reason);
  } else if (!is_repeated(cases, next)) {
    cases.push_back(next);
  }
}

/// Errors: kUsage where the sketch does not exist.
SketchSpec spec_of(const BenchSketchOptions& options, const TimedShape& shape, BenchFamily family,
                   const SketchOptions& sketch) {
  require(shape.m > 0, ErrorKind::kUsage,
          fmt::format("--bytes {} with n = {} leaves no rows; raise --bytes", options.bytes, shape.n));
  if (family == BenchFamily::kFlashBlockRow) return block_row_spec(shape, sketch);
  return make_sketch_spec({shape.m, shape.n, 0, shape.type}, sketch);
}

/// What was asked for where there is no spec to describe.
std::string describe_options(const TimedShape& shape, BenchFamily family, const SketchOptions& sketch) {
  std::string text = fmt::format("m = {}, n = {}: {}", shape.m, shape.n, to_word(family));
  if (family != BenchFamily::kFlashBlockRow) text += fmt::format(", {} hash", to_word(sketch.hash));
  text += sketch.sketch_rows > 0 ? fmt::format(", d = {}", sketch.sketch_rows)
                                 : fmt::format(", d = {} n", sketch.oversample);
  if (sketch.zeta) text += fmt::format(", zeta = {}", *sketch.zeta);
  if (sketch.block_rows) text += fmt::format(", blocks of {}", *sketch.block_rows);
  if (sketch.input_blocks) text += fmt::format(", {} input blocks", to_word(*sketch.input_blocks));
  if (sketch.kappa) text += fmt::format(", kappa = {}", *sketch.kappa);
  if (sketch.block_nnz) text += fmt::format(", s = {}", *sketch.block_nnz);
  return text + fmt::format(", {}, rounded {}", to_word(sketch.precision), to_word(sketch.rounding));
}

}  // namespace

std::vector<SketchCase> make_sketch_grid(const BenchSketchOptions& options,
                                         const std::function<void(const std::string&)>& skip) {
  std::vector<SketchCase> cases;
  for (const TimedShape& shape : shapes(options)) {
    for (const BenchFamily family : options.family) {
      for (const SketchOptions& sketch : sketches_of_family(options, family)) {
        try {
          const SketchSpec spec = spec_of(options, shape, family, sketch);
          for (const BenchKernel kernel : options.kernel) add_case({shape, family, spec, kernel}, skip, cases);
        } catch (const Error& e) {
          if (e.kind() != ErrorKind::kUsage) throw;
          skip(describe_options(shape, family, sketch) + ": " + e.what());
        }
      }
    }
  }
  return cases;
}

std::string describe(const SketchCase& timed) {
  const SketchSpec& spec = timed.spec;
  const std::string sketch =
      timed.kernel == BenchKernel::kGaussian ? fmt::format("d = {}", spec.d)
      : timed.family == BenchFamily::kFlashBlockRow
          ? fmt::format("flashblockrow, d = {}, kappa = {}, s = {}", spec.d, spec.kappa, spec.block_nnz)
          : describe(spec);
  return fmt::format("m = {}, n = {}, {}: {}, {}, kernel {}", timed.shape.m, timed.shape.n, to_word(timed.shape.type),
                     sketch, to_word(spec.precision), to_word(timed.kernel));
}

}  // namespace tallsketch

#include "src/sketch_identity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"
#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

namespace {

constexpr int kDefaultZeta = 4;
constexpr int kDefaultBlockNnz = 2;
constexpr std::int64_t kDefaultBlockRows = 128;
constexpr int kDefaultKappa = 2;  // at most the number of blocks

/// d is rounded up so that every block has a multiple of this many buckets: the tile heights that kernels like.
constexpr std::int64_t kBucketGranule = 16;

/// The widest sketches that the strip engine holds in strips of 32 and 16 columns; wider ones cost half as much again.
constexpr std::int64_t kStripBounds[] = {2048, 4096};

/// The least multiple of `granule` that is `--oversample` times n, or --sketch-rows, which must be one; check rows on top.
/// By default d gives some rows up for them where the sum would exceed what a strip of the GPU's engine holds.
std::int64_t sketch_rows(const ProblemShape& shape, const SketchOptions& options, std::int64_t granule) {
  const std::int64_t check = check_row_count(options);
  if (options.sketch_rows > 0) return options.sketch_rows + check;
  constexpr double kAutoRatio = 2;  // of sketch-solve; the solver knows what refine wants
  const double ratio = options.oversample > 0 ? options.oversample : kAutoRatio;
  const double rows = std::ceil(ratio * static_cast<double>(shape.n));
  require(rows <= static_cast<double>(kMaxSketchRows), ErrorKind::kUsage,
          fmt::format("--oversample {} with n = {} asks for {} sketch rows; at most {} are possible", ratio, shape.n,
                      rows, kMaxSketchRows));
  const std::int64_t d = round_up(static_cast<std::int64_t>(rows), granule);
  for (const std::int64_t bound : kStripBounds) {
    if (options.oversample == 0 && d <= bound && d + check > bound && d - check > shape.n) return d;
  }
  return d + check;
}

void shape_sparse_stack(const ProblemShape& shape, const SketchOptions& options, SketchSpec& spec) {
  require(
      !options.kappa && !options.block_nnz && !options.block_rows && !options.input_blocks, ErrorKind::kUsage,
      "--kappa, --block-nnz, --block-rows and --input-blocks belong to --sketch blockperm; sparsestack has --zeta: add "
      "--sketch blockperm, or leave them out");
  spec.zeta = options.zeta.value_or(kDefaultZeta);
  spec.d = sketch_rows(shape, options, kBucketGranule * spec.zeta);
  require(spec.hash != SketchHash::kPermuted || spec.d % spec.zeta == 0, ErrorKind::kUsage,
          fmt::format("--sketch-rows {} is not a multiple of zeta = {}, which --hash permuted needs; use {} or "
                      "--hash independent",
                      spec.d, spec.zeta, round_up(spec.d, spec.zeta)));
  require(spec.d >= spec.zeta, ErrorKind::kUsage,
          fmt::format("--sketch-rows {} is below zeta = {}: every block needs a row", spec.d, spec.zeta));
}

void shape_block_perm(const ProblemShape& shape, const SketchOptions& options, SketchSpec& spec) {
  require(
      !options.zeta, ErrorKind::kUsage,
      "--zeta belongs to --sketch sparsestack; a column of a blockperm sketch has --kappa times --block-nnz nonzeros");
  spec.block_rows = options.block_rows.value_or(kDefaultBlockRows);
  spec.block_nnz = options.block_nnz.value_or(kDefaultBlockNnz);
  require(spec.block_rows % spec.block_nnz == 0, ErrorKind::kUsage,
          fmt::format("--block-nnz {} does not divide --block-rows {}: each nonzero has an equal part of a block; use "
                      "--block-nnz {}, or --block-rows {}",
                      spec.block_nnz, spec.block_rows, std::gcd(std::int64_t{spec.block_nnz}, spec.block_rows),
                      round_up(spec.block_rows, spec.block_nnz)));
  spec.d = sketch_rows(shape, options, spec.block_rows);
  // One block alone would leave a row --block-nnz nonzeros, too few for coordinate rows (19 of 40 seeds lost rank).
  if (options.sketch_rows == 0 && !options.kappa) spec.d = std::max(spec.d, kDefaultKappa * spec.block_rows);
  require(spec.d % spec.block_rows == 0, ErrorKind::kUsage,
          fmt::format("--sketch-rows {} is not a multiple of --block-rows {}; use {}", spec.d, spec.block_rows,
                      round_up(spec.d, spec.block_rows)));
  const std::int64_t blocks = block_count(spec);
  spec.kappa = options.kappa.value_or(static_cast<int>(std::min<std::int64_t>(kDefaultKappa, blocks)));
  require(spec.kappa <= blocks, ErrorKind::kUsage,
          fmt::format("--kappa {} exceeds the {} block{} that d = {} rows of --block-rows {} give: a block met twice "
                      "makes the sketch too long; use --kappa {} or more sketch rows",
                      spec.kappa, blocks, plural(blocks), spec.d, spec.block_rows, blocks));
  spec.zeta = spec.kappa * spec.block_nnz;
  require(spec.zeta <= kMaxZeta, ErrorKind::kUsage,
          fmt::format("--kappa {} times --block-nnz {} gives {} nonzeros a column; at most {} are possible", spec.kappa,
                      spec.block_nnz, spec.zeta, kMaxZeta));
  spec.input_blocks = options.input_blocks.value_or(InputBlocks::kInterleaved);
  if (spec.input_blocks == InputBlocks::kContiguous) spec.total_rows = shape.m;
  spec.wiring = make_block_wiring(spec.seed, blocks);
}

}  // namespace

std::int64_t check_row_count(const SketchOptions& options) {
  const std::int64_t wanted = options.check_rows.value_or(0);
  if (options.family == SketchFamily::kBlockPerm)
    return round_up(wanted, options.block_rows.value_or(kDefaultBlockRows));
  const std::int64_t zeta = options.zeta.value_or(kDefaultZeta), granule = kBucketGranule * zeta;
  return round_up(wanted, granule > 128 ? zeta : granule);
}

CheckRows held_back_rows(const SketchSpec& spec, const SketchOptions& options) {
  return make_check_rows(spec.d, check_row_count(options));
}

SketchSpec make_sketch_spec(const ProblemShape& shape, const SketchOptions& options) {
  SketchSpec spec;
  spec.family = options.family;
  spec.hash = options.hash;
  spec.precision = options.precision;
  spec.rounding = options.rounding;
  spec.seed = options.seed;
  require(
      is_half(spec.precision) || spec.rounding == SketchRounding::kNearest, ErrorKind::kUsage,
      fmt::format("--rounding {} is how a product becomes a 16-bit number, but --precision {} keeps products as they "
                  "are; add --precision fp16 or bf16, or leave --rounding out",
                  to_word(spec.rounding), to_word(spec.precision)));
  require(
      spec.precision != SketchPrecision::kFp64 || options.reduce == ReducePrecision::kFp32, ErrorKind::kUsage,
      "--reduce fp16 would round a --precision fp64 sketch to 11 bits on its way between ranks; leave --reduce out, "
      "or use --precision fp32");
  if (spec.family == SketchFamily::kSparseStack) {
    shape_sparse_stack(shape, options, spec);
  } else {
    shape_block_perm(shape, options, spec);
  }
  const std::int64_t granule = spec.family == SketchFamily::kSparseStack ? spec.zeta : spec.block_rows;
  const std::int64_t solved_by = spec.d - held_back_rows(spec, options).count;
  require(solved_by > shape.n || options.may_be_short, ErrorKind::kUsage,
          fmt::format("the sketch has d = {} rows for n = {} columns; d must exceed n (--oversample above 1, or "
                      "--sketch-rows {} and more)",
                      solved_by, shape.n, round_up(shape.n + 1, granule)));
  require(spec.d <= kMaxSketchRows, ErrorKind::kUsage,
          fmt::format("d = {} sketch rows; at most {} are possible", spec.d, kMaxSketchRows));
  spec.batch_rows = batch_rows_for(spec);
  if (spec.family == SketchFamily::kBlockPerm) {
    require(
        deal_rows(spec) <= kMaxDealRows && spec.batch_rows * spec.zeta <= kMaxBatchEntries, ErrorKind::kUsage,
        fmt::format("--kappa {} and {} parts of --block-rows {} deal {} rows of a batch of {} at a time (at most {} "
                    "are possible, and {} nonzeros a batch); use a --kappa that divides {}, or a smaller --block-rows",
                    spec.kappa, spec.block_nnz, spec.block_rows, deal_rows(spec), spec.batch_rows, kMaxDealRows,
                    kMaxBatchEntries, group_buckets(spec)));
  }
  return spec;
}

std::string describe(const SketchSpec& spec) {
  if (spec.family == SketchFamily::kSparseStack) {
    return fmt::format("sparsestack, {} hash, d = {}, zeta = {}", to_word(spec.hash), spec.d, spec.zeta);
  }
  return fmt::format("blockperm, {} hash, d = {} in {} blocks, {} input blocks, kappa = {}, s = {}", to_word(spec.hash),
                     spec.d, block_count(spec), to_word(spec.input_blocks), spec.kappa, spec.block_nnz);
}

}  // namespace tallsketch

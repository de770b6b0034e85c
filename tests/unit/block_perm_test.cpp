// BlockPerm-SJLT: what its definition promises of the wiring, of the columns of S and of the deal.
#include "kernels/block_perm.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "kernels/sketch_rule.h"
#include "tests/support/catch.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

/// Specs of all kinds: kappa that divides nothing, one block, s = B_r, blocks that are no power of two.
std::vector<SketchSpec> all_kinds(std::int64_t total_rows) {
  struct Shape {
    std::int64_t d, block_rows;
    std::int32_t kappa, block_nnz;
  };
  std::vector<SketchSpec> specs;
  for (const Shape& s : {Shape{2048, 128, 2, 2}, Shape{128, 128, 1, 2}, Shape{256, 64, 4, 8}, Shape{320, 64, 3, 1},
                         Shape{360, 60, 5, 3}, Shape{96, 8, 12, 2}, Shape{28, 4, 7, 4}, Shape{1792, 128, 2, 4}}) {
    for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
      specs.push_back(make_block_spec(hash, s.d, s.block_rows, s.kappa, s.block_nnz));
      specs.push_back(make_block_spec(hash, s.d, s.block_rows, s.kappa, s.block_nnz, total_rows));
    }
  }
  return specs;
}

}  // namespace

TEST_CASE("the wiring is one cycle through all blocks, for every number of blocks, and its inverse inverts it") {
  for (std::int64_t blocks = 1; blocks <= 300; ++blocks) {
    for (const std::uint64_t seed : {0U, 1U, 77U}) {
      const BlockWiring f = make_block_wiring(seed, blocks);
      std::int64_t x = 0, length = 0;
      bool inverse = true;
      do {
        const std::int64_t next = (f.multiplier * x + f.offset) % blocks;
        inverse = inverse && (f.inverse_multiplier * next + f.inverse_offset) % blocks == x;
        x = next;
        ++length;
      } while (x != 0 && length <= blocks);
      INFO("blocks " << blocks << " seed " << seed);
      CHECK(length == blocks);
      CHECK(inverse);
    }
  }
  std::set<std::int64_t> offsets, multipliers;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    offsets.insert(make_block_wiring(seed, 16).offset);
    multipliers.insert(make_block_wiring(seed, 16).multiplier);
  }
  CHECK(offsets.size() == 8);      // the odd ones
  CHECK(multipliers.size() == 4);  // 1, 5, 9, 13
}

TEST_CASE("neighbours are kappa different input blocks, and seen from both sides alike") {
  for (const SketchSpec& spec : all_kinds(1000)) {
    for (std::int64_t g = 0; g < block_count(spec); ++g) {
      std::set<std::int64_t> neighbours;
      for (std::int32_t l = 0; l < spec.kappa; ++l) {
        const std::int64_t h = input_block(spec, g, l);
        neighbours.insert(h);
        CHECK(output_block(spec, h, l) == g);
      }
      CHECK(neighbours.size() == static_cast<std::size_t>(spec.kappa));
    }
  }
}

TEST_CASE("a column of S has one nonzero in each sub-block of kappa output blocks") {
  constexpr std::int64_t kRows = 1000;
  for (const SketchSpec& spec : all_kinds(kRows)) {
    INFO("d " << spec.d << " B_r " << spec.block_rows << " kappa " << spec.kappa << " s " << spec.block_nnz << " T "
              << spec.batch_rows << " contiguous " << (spec.total_rows > 0));
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::map<std::int64_t, std::set<std::int64_t>> sub_blocks;  // of an output block
      for (std::int32_t t = 0; t < spec.zeta; ++t) {
        const std::int64_t sketch_row = sketch_entry(spec, row, t).sketch_row;
        wrong += sketch_row < 0 || sketch_row >= spec.d;
        sub_blocks[sketch_row / spec.block_rows].insert(sketch_row % spec.block_rows / group_buckets(spec));
      }
      wrong += sub_blocks.size() != static_cast<std::size_t>(spec.kappa);
      for (const auto& [block, parts] : sub_blocks) {
        wrong += parts.size() != static_cast<std::size_t>(spec.block_nnz);
        bool wired = false;
        for (std::int32_t l = 0; l < spec.kappa; ++l) {
          wired = wired || input_block(spec, block, l) == input_block_of_row(spec, row);
        }
        wrong += wired ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("with interleaved blocks and the permuted hash every bucket receives the same number of a batch's rows") {
  for (const SketchSpec& spec : all_kinds(0)) {
    if (spec.hash != SketchHash::kPermuted || spec.input_blocks != InputBlocks::kInterleaved) continue;
    INFO("d " << spec.d << " kappa " << spec.kappa << " s " << spec.block_nnz << " T " << spec.batch_rows);
    REQUIRE(spec.batch_rows % block_count(spec) == 0);
    REQUIRE(spec.batch_rows * spec.zeta == spec.d * deal_rows_per_bucket(spec));
    for (const std::int64_t batch : {std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 40}) {
      std::vector<std::uint32_t> count(static_cast<std::size_t>(spec.d));
      for (std::int64_t position = 0; position < spec.batch_rows; ++position) {
        for (std::int32_t t = 0; t < spec.zeta; ++t) {
          ++count[static_cast<std::size_t>(sketch_entry(spec, batch * spec.batch_rows + position, t).sketch_row)];
        }
      }
      CHECK(std::all_of(count.begin(), count.end(), [&](auto c) { return c == deal_rows_per_bucket(spec); }));
    }
  }
}

TEST_CASE("with contiguous blocks, rows of a block that are a batch apart at most share no bucket but by turns") {
  const SketchSpec spec = make_block_spec(SketchHash::kPermuted, 1024, 128, 2, 2, 80000);
  const std::uint32_t each = deal_rows_per_bucket(spec);
  for (std::int64_t batch = 0; batch < 20; ++batch) {  // all in input block 0
    std::map<std::int64_t, std::uint32_t> count;
    for (std::int64_t position = 0; position < spec.batch_rows; ++position) {
      for (std::int32_t t = 0; t < spec.zeta; ++t) {
        ++count[sketch_entry(spec, batch * spec.batch_rows + position, t).sketch_row];
      }
    }
    CHECK(count.size() == static_cast<std::size_t>(spec.kappa * spec.block_rows));
    CHECK(std::all_of(count.begin(), count.end(), [&](const auto& c) { return c.second == each; }));
  }
}

TEST_CASE("shuffled_place is where the exchanges of the shuffle bring an element") {
  const SketchSpec spec = make_block_spec(SketchHash::kPermuted, 320, 64, 3, 2);
  for (std::int64_t group = 0; group < group_count(spec); ++group) {
    std::vector<std::uint32_t> elements(deal_rows(spec));
    for (std::uint32_t k = 0; k < elements.size(); ++k) elements[k] = k;
    for (std::uint32_t j = deal_rows(spec) - 1; j >= 1; --j) {
      std::swap(elements[j], elements[shuffle_draw(shuffle_words(spec, 7, group, j / 4).word[j % 4], j)]);
    }
    for (std::uint32_t k = 0; k < elements.size(); ++k) CHECK(shuffled_place(spec, 7, group, elements[k]) == k);
  }
}

TEST_CASE("the batch of an interleaved sketch is whole for every legal shape") {
  for (const std::int64_t block_rows : {1, 2, 8, 60, 64, 128, 300}) {
    for (std::int64_t blocks = 1; blocks <= 40; ++blocks) {
      for (std::int32_t kappa = 1; kappa <= std::min<std::int64_t>(blocks, 9); ++kappa) {
        for (const std::int32_t s : {1, 2, 3, 4, 8}) {
          if (block_rows % s != 0) continue;
          const SketchSpec spec = make_block_spec(SketchHash::kPermuted, blocks * block_rows, block_rows, kappa, s);
          INFO("blocks " << blocks << " B_r " << block_rows << " kappa " << kappa << " s " << s);
          CHECK(spec.batch_rows % blocks == 0);
          CHECK(deal_rows(spec) % group_buckets(spec) == 0);
          CHECK(spec.batch_rows * spec.zeta == spec.d * deal_rows_per_bucket(spec));
        }
      }
    }
  }
}

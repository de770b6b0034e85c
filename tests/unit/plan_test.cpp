// The plan: row ranges, sketch sizes, chunks and memory, with sizes no machine here has.
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/sketch_rule.h"
#include "src/error.h"
#include "src/plan.h"
#include "src/row_pass.h"
#include "src/sketch_identity.h"
#include "src/text.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t kHugeRows = 3'218'569'051;  // C-18: beyond 2^31, odd

std::pair<int, std::string> spec_error(const ProblemShape& shape, const SketchOptions& options) {
  return error_of([&] { static_cast<void>(make_sketch_spec(shape, options)); });
}

SketchOptions with_oversample(double ratio, int zeta = 4) {
  SketchOptions options;
  options.oversample = ratio;
  options.zeta = zeta;
  return options;
}

SketchOptions with_rows(std::int64_t d, int zeta = 4, SketchHash hash = SketchHash::kPermuted) {
  SketchOptions options;
  options.sketch_rows = d;
  options.zeta = zeta;
  options.hash = hash;
  return options;
}

}  // namespace

TEST_CASE("Row ranges cover all rows once, in order, in whole batches, evenly") {
  std::vector<std::tuple<std::int64_t, std::int64_t, int>> cases = {
      {kHugeRows, 512, 8}, {kHugeRows, 1, 8}, {kHugeRows, 1024, 1},
      {3, 512, 5},         {3, 1, 5},         {0, 512, 3},
      {1, 1, 1},           {512, 512, 2},     {(std::int64_t{1} << 48), 1536, 4096}};
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{512}, std::int64_t{600}}) {
      for (const std::int64_t off : {-1, 0, 1}) cases.emplace_back(7 * batch * ranks + off, batch, ranks);
    }
  }
  for (const auto& [m, batch, ranks] : cases) {
    CAPTURE(m, batch, ranks);
    const std::vector<RowRange> ranges = split_rows(m, batch, ranks);
    REQUIRE(ranges.size() == static_cast<std::size_t>(ranks));
    std::int64_t next = 0, least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (const RowRange& range : ranges) {
      CHECK(range.begin == next);
      CHECK(range.end >= range.begin);
      CHECK((range.begin % batch == 0 || range.begin == m));
      CHECK((range.end % batch == 0 || range.end == m));
      least = std::min(least, range.size());
      most = std::max(most, range.size());
      next = range.end;
    }
    CHECK(next == m);
    CHECK(ranges.front().size() == most);  // the plan takes the first for the largest
    CHECK(most - least < 2 * batch);       // one batch of difference, and the cut of the last
  }
}

TEST_CASE("Consecutive chunks cover a range once and hold at most the chunk size") {
  for (const auto& [begin, end, chunk] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{0, 0, 5},
                                          {7, 7, 1},
                                          {3, 4, 1},
                                          {3, 13, 5},
                                          {3, 14, 5},
                                          {kHugeRows - 10, kHugeRows, std::int64_t{1} << 40}}) {
    CAPTURE(begin, end, chunk);
    std::int64_t next = begin;
    int visits = 0;
    for_each_chunk({begin, end}, chunk, [&](RowRange rows) {
      CHECK(rows.begin == next);
      CHECK(rows.size() > 0);
      CHECK(rows.size() <= chunk);
      next = rows.end;
      ++visits;
    });
    CHECK(next == end);
    CHECK(visits == (end - begin + chunk - 1) / chunk);
  }
}

TEST_CASE("d follows from the oversampling, rounded up to 16 zeta, with auto for 2") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  CHECK(make_sketch_spec(shape, {}).d == 256);
  CHECK(make_sketch_spec(shape, with_oversample(2)).d == 256);
  CHECK(make_sketch_spec(shape, with_oversample(2.56)).d == 256);
  CHECK(make_sketch_spec(shape, with_oversample(2.5601)).d == 320);
  CHECK(make_sketch_spec(shape, with_oversample(2, 1)).d == 208);
  CHECK(make_sketch_spec(shape, with_oversample(1.01, 9)).d == 144);
  const SketchSpec spec = make_sketch_spec(shape, {});
  CHECK(spec.batch_rows == 512);
  CHECK(spec.zeta == 4);
  CHECK(spec.hash == SketchHash::kPermuted);
}

TEST_CASE("A rounding is part of a 16-bit sketch, and refused for others") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  SketchOptions options;
  for (const SketchRounding rounding :
       {SketchRounding::kNearest, SketchRounding::kStochastic, SketchRounding::kDither}) {
    options.rounding = rounding;
    for (const SketchPrecision precision : {SketchPrecision::kFp16, SketchPrecision::kBf16}) {
      options.precision = precision;
      CHECK(make_sketch_spec(shape, options).rounding == rounding);
      CHECK(make_sketch_spec(shape, options).precision == precision);
    }
    options.precision = SketchPrecision::kFp32;
    CHECK(spec_error(shape, options).first == (rounding == SketchRounding::kNearest ? 0 : 2));
  }
  CHECK_THAT(spec_error(shape, options).second, Catch::Matchers::ContainsSubstring("--rounding dither"));
}

TEST_CASE("d of its own is taken exactly, and must exceed n and fit the blocks") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  CHECK(make_sketch_spec(shape, with_rows(104)).d == 104);
  CHECK(make_sketch_spec(shape, with_rows(101, 4, SketchHash::kIndependent)).d == 101);
  CHECK(spec_error(shape, with_rows(101)).first == 2);
  CHECK_THAT(spec_error(shape, with_rows(101)).second,
             ContainsSubstring("--sketch-rows 101") && ContainsSubstring("zeta = 4") && ContainsSubstring("use 104"));
  CHECK(spec_error(shape, with_rows(100)).first == 2);
  CHECK_THAT(spec_error(shape, with_rows(100)).second,
             ContainsSubstring("d = 100") && ContainsSubstring("n = 100") && ContainsSubstring("--sketch-rows 104"));
  const ProblemShape narrow{1000, 3, 1, ElementType::kFloat32};
  CHECK(make_sketch_spec(narrow, with_rows(9, 9, SketchHash::kIndependent)).d == 9);
  CHECK(spec_error(narrow, with_rows(8, 9, SketchHash::kIndependent)).first == 2);
}

TEST_CASE("The limit of sketch rows is refused on the far side only") {
  const ProblemShape shape{std::int64_t{1} << 40, 1000, 1, ElementType::kFloat32};
  CHECK(make_sketch_spec(shape, with_rows(kMaxSketchRows)).d == kMaxSketchRows);
  CHECK(spec_error(shape, with_rows(kMaxSketchRows + 4)).first == 2);
  const ProblemShape wide{std::int64_t{1} << 40, std::int64_t{1} << 24, 1, ElementType::kFloat32};
  CHECK(make_sketch_spec(wide, with_oversample(64)).d == kMaxSketchRows);
  CHECK(spec_error(wide, with_oversample(64.1)).first == 2);
  CHECK_THAT(spec_error(wide, with_oversample(64.1)).second, ContainsSubstring("--oversample 64.1"));
  CHECK(spec_error(wide, with_oversample(1000000)).first == 2);
}

TEST_CASE("An FP64 sketch and its factorisation are planned with 8 bytes an element") {
  const ProblemShape shape{100'000, 50, 2, ElementType::kFloat64};
  SketchOptions options;
  const Plan single = make_plan(shape, make_sketch_spec(shape, options), 2, {});
  options.precision = SketchPrecision::kFp64;
  const Plan wide = make_plan(shape, make_sketch_spec(shape, options), 2, {});
  CHECK(wide.sketch_bytes == 128 * 52 * 8);
  CHECK(wide.factor_bytes == single.factor_bytes + 2 * 128 * 52 * 4);
}

TEST_CASE("A plan that does not fit names every part, the limit and the remedies; one byte more is enough") {
  const ProblemShape shape{100'000, 50, 2, ElementType::kFloat64};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.scratch_bytes = [](std::int64_t rows) { return 4 * rows + 96; };
  limits.chunk_rows = 1000;
  limits.chunk_row_bytes = 2 * shape.row_bytes();
  const Plan free_plan = make_plan(shape, spec, 2, limits);  // memory 0: not known, not limited
  CHECK(free_plan.chunk_bytes == 2 * 1000 * (50 * 8 + 2 * 8));
  CHECK(free_plan.sketch_bytes == 128 * 52 * 4);
  CHECK(free_plan.scratch_bytes == 4096);
  CHECK(free_plan.slab_bytes == 0);
  const std::int64_t needed = free_plan.total_bytes();
  CHECK(needed == free_plan.chunk_bytes + free_plan.sketch_bytes + free_plan.scratch_bytes + free_plan.factor_bytes);
  limits.memory_bytes = needed;
  CHECK(error_of([&] { make_plan(shape, spec, 2, limits); }).first == 0);
  limits.memory_bytes = needed - 1;
  const auto [code, message] = error_of([&] { make_plan(shape, spec, 2, limits); });
  CHECK(code == 7);
  CHECK_THAT(message, ContainsSubstring(bytes_text(needed)) && ContainsSubstring("sketch of 128 x 52") &&
                          ContainsSubstring("scratch 4 KiB") && ContainsSubstring("of 1000 rows") &&
                          ContainsSubstring(bytes_text(needed - 1)) && ContainsSubstring("--oversample") &&
                          ContainsSubstring("--chunk-rows") && ContainsSubstring("or more memory for a rank"));
  limits.memory_bound = MemoryBound::kAsked;
  CHECK_THAT(error_of([&] { make_plan(shape, spec, 2, limits); }).second, ContainsSubstring("use more --memory or "));
}

TEST_CASE("Where rank 0 has no room to factor, neither chunks nor ranks nor residency are advised") {
  const ProblemShape shape{1'000'000, 5000, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.kept_row_bytes = shape.row_bytes();
  limits.chunk_row_bytes = 2 * shape.row_bytes();
  limits.asked = ResidencyChoice::kDevice;
  for (const Compression compression : {Compression::kSketch, Compression::kGram}) {
    const bool gram = compression == Compression::kGram;
    const auto message = [&](std::int64_t memory_bytes) {
      limits.memory_bytes = memory_bytes;
      const auto [code, text] = error_of([&] { make_plan(shape, spec, 3, limits, compression); });
      CHECK(code == 7);
      CHECK_THAT(text, ContainsSubstring(gram ? "Gram matrix of 5001 x 5001" : "sketch of 10048 x 5001"));
      return text;
    };
    limits.memory_bytes = 0;
    const Plan plan = make_plan(shape, spec, 3, limits, compression);
    const std::int64_t reduced = plan.sketch_bytes + plan.factor_bytes;
    const std::string none = message(reduced - 1), some = message(reduced);
    CHECK_THAT(none,
               ContainsSubstring("fewer columns") && ContainsSubstring("more ranks or smaller chunks do not help"));
    CHECK_THAT(none, !ContainsSubstring("--chunk-rows") && !ContainsSubstring("--residency") &&
                         !ContainsSubstring("use more ranks"));
    CHECK_THAT(some, ContainsSubstring("--residency file or more ranks") && !ContainsSubstring("columns"));
    if (gram) CHECK_THAT(none, !ContainsSubstring("--oversample"));
    if (!gram) CHECK_THAT(none, ContainsSubstring("a smaller --oversample"));
  }
}

TEST_CASE("Chunks are whole batches, shrink to the memory there is and never exceed a rank's rows") {
  const ProblemShape shape{10'000'000, 64, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.chunk_row_bytes = shape.row_bytes();
  const Plan plan = make_plan(shape, spec, 4, limits);
  CHECK(plan.chunk_rows > 20 * spec.batch_rows);
  CHECK(plan.chunk_rows % spec.batch_rows == 0);
  CHECK(plan.rank_rows.size() == 4);
  CHECK(plan.residency == Residency::kFile);
  CHECK(plan.passes == 1);

  limits.memory_bytes = plan.total_bytes() - plan.chunk_bytes + plan.chunk_bytes / 10;
  const Plan small = make_plan(shape, spec, 4, limits);
  CHECK(small.total_bytes() <= limits.memory_bytes);
  CHECK(small.chunk_rows % spec.batch_rows == 0);
  CHECK(small.chunk_rows <= plan.chunk_rows / 10);
  CHECK(small.chunk_rows > plan.chunk_rows / 21);  // halves, cut to whole batches
  limits.memory_bytes = plan.total_bytes() - plan.chunk_bytes + spec.batch_rows * shape.row_bytes();
  CHECK(make_plan(shape, spec, 4, limits).chunk_rows == spec.batch_rows);
  limits.memory_bytes -= 1;
  CHECK(error_of([&] { make_plan(shape, spec, 4, limits); }).first == 7);

  limits = {};
  limits.chunk_rows = 777;
  CHECK(make_plan(shape, spec, 4, limits).chunk_rows == 777);
  limits.chunk_rows = std::numeric_limits<std::int64_t>::max();
  CHECK(make_plan({100, 64, 1, ElementType::kFloat32}, spec, 4, limits).chunk_rows == 100);
  const ProblemShape broad{1'000'000, 20'000'000, 1, ElementType::kFloat64};  // a row exceeds a chunk's bytes
  CHECK(make_plan(broad, make_sketch_spec(broad, {}), 4, {}).chunk_rows == 1);
}

TEST_CASE("Memory is planned in 64 bits: 2^48 rows, d of 2^30") {
  const ProblemShape shape{std::int64_t{1} << 48, 1024, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, with_rows(kMaxSketchRows));
  const Plan plan = make_plan(shape, spec, 8, {});
  CHECK(plan.sketch_bytes == kMaxSketchRows * 1025 * 4);
  CHECK(plan.factor_bytes > 2 * plan.sketch_bytes);
  CHECK(plan.rank_rows.back().end == shape.m);
}

TEST_CASE("Sketches on both sides of 2^31 elements are planned alike, and refused where memory is short (C-20)") {
  constexpr std::int64_t kRows = 58'720'256;  // times 36 below 2^31, times 37 above
  const auto plan_of = [&](std::int64_t n, std::int64_t memory) {
    const ProblemShape shape{std::int64_t{1} << 33, n, 1, ElementType::kFloat32};
    PlanLimits limits;
    limits.memory_bytes = memory;
    return make_plan(shape, make_sketch_spec(shape, with_rows(kRows)), 1, limits);
  };
  const Plan below = plan_of(35, 0), above = plan_of(36, 0);
  CHECK(below.sketch_bytes == kRows * 36 * 4);
  CHECK(above.sketch_bytes == kRows * 37 * 4);
  CHECK(above.factor_bytes > below.factor_bytes);
  CHECK(above.factor_bytes < below.factor_bytes / 36 * 38);  // no exabytes
  const auto [code, message] = error_of([&] { plan_of(36, std::int64_t{8} << 30); });
  CHECK(code == 7);
  CHECK_THAT(message, ContainsSubstring("sketch of 58720256 x 37") && ContainsSubstring("--oversample"));
}

TEST_CASE("Where the backend can keep rows they stay exactly when the slab fits beside the rest") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.kept_row_bytes = 104 * 4;
  limits.kept_chunk_row_bytes = shape.row_bytes();
  limits.chunk_row_bytes = 2 * shape.row_bytes();
  limits.memory_bytes = std::int64_t{1} << 40;
  const Plan resident = make_plan(shape, spec, 2, limits);
  CHECK(resident.residency == Residency::kDevice);
  CHECK(resident.slab_bytes == resident.rank_rows.front().size() * 104 * 4);
  limits.memory_bytes = resident.total_bytes();
  CHECK(make_plan(shape, spec, 2, limits).residency == Residency::kDevice);
  limits.memory_bytes -= 1;
  const Plan tighter = make_plan(shape, spec, 2, limits);  // smaller chunks, before rows are read again for every pass
  CHECK(tighter.residency == Residency::kDevice);
  CHECK(tighter.chunk_rows < resident.chunk_rows);
  CHECK(tighter.chunk_rows % spec.batch_rows == 0);
  limits.chunk_rows = resident.chunk_rows;  // unless somebody asked for their size
  CHECK(make_plan(shape, spec, 2, limits).residency == Residency::kFile);
  limits.chunk_rows = 0;
  limits.memory_bytes = resident.slab_bytes;
  const Plan streamed = make_plan(shape, spec, 2, limits);
  CHECK(streamed.residency == Residency::kFile);
  CHECK(streamed.slab_bytes == 0);
  CHECK(streamed.total_bytes() <= limits.memory_bytes);
}

TEST_CASE("Rows that do not fit on the device stay in page-locked host memory, or in the file, as there is room") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.chunk_rows = 2048;
  limits.kept_row_bytes = 104 * 4;
  limits.chunk_row_bytes = 2 * 104 * 4;
  limits.pinned_row_bytes = shape.row_bytes();
  limits.pinned_chunk_row_bytes = 4 * shape.row_bytes();
  const Plan device = make_plan(shape, spec, 2, limits);
  CHECK(device.residency == Residency::kDevice);
  CHECK(device.host_bytes == 2048 * limits.pinned_chunk_row_bytes);
  limits.memory_bytes = device.total_bytes() - 1;
  const Plan host = make_plan(shape, spec, 2, limits);
  CHECK(host.residency == Residency::kHost);
  CHECK(host.slab_bytes == 0);
  CHECK(host.chunk_bytes == 2048 * limits.chunk_row_bytes);
  CHECK(host.host_bytes == 2048 * limits.pinned_chunk_row_bytes + host.rank_rows.front().size() * shape.row_bytes());
  CHECK_THAT(describe(host), ContainsSubstring("page-locked host memory") && ContainsSubstring("of host memory"));
  limits.host_memory_bytes = host.host_bytes;
  CHECK(make_plan(shape, spec, 2, limits).residency == Residency::kHost);
  limits.host_memory_bytes -= 1;
  const Plan file = make_plan(shape, spec, 2, limits);
  CHECK(file.residency == Residency::kFile);
  CHECK(file.host_bytes == 2048 * limits.pinned_chunk_row_bytes);
  limits.host_memory_bytes = file.host_bytes - 1;  // not even chunks
  const auto [code, message] = error_of([&] { make_plan(shape, spec, 2, limits); });
  CHECK(code == 7);
  CHECK_THAT(message, ContainsSubstring("page-locked host memory") && ContainsSubstring("--chunk-rows"));
}

TEST_CASE("A residency that was asked for is taken, or refused with what is missing") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.kept_row_bytes = limits.pinned_row_bytes = shape.row_bytes();
  limits.chunk_row_bytes = limits.pinned_chunk_row_bytes = 2 * shape.row_bytes();
  for (const auto& [asked, residency] : {std::pair{ResidencyChoice::kAuto, Residency::kDevice},
                                         {ResidencyChoice::kDevice, Residency::kDevice},
                                         {ResidencyChoice::kHost, Residency::kHost},
                                         {ResidencyChoice::kFile, Residency::kFile}}) {
    limits.asked = asked;
    CHECK(make_plan(shape, spec, 1, limits).residency == residency);
  }
  limits.asked = ResidencyChoice::kDevice;
  limits.memory_bytes = 300 << 20;
  const auto [memory, too_large] = error_of([&] { make_plan(shape, spec, 1, limits); });
  CHECK(memory == 7);
  CHECK_THAT(too_large, ContainsSubstring("--residency file") && ContainsSubstring("rows of A"));
  limits.kept_residency = Residency::kHost;  // the host backend
  const auto [usage, no_device] = error_of([&] { make_plan(shape, spec, 1, limits); });
  CHECK(usage == 2);
  CHECK_THAT(no_device, ContainsSubstring("--residency device") && ContainsSubstring("--residency host"));
}

TEST_CASE("Memory that reading takes is the backend's on the host, and host memory beside a GPU") {
  const ProblemShape shape{100'000, 50, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.chunk_row_bytes = 2 * shape.row_bytes();
  const Plan device_without = make_plan(shape, spec, 1, limits);
  limits.source_bytes = 1 << 30;
  CHECK(make_plan(shape, spec, 1, limits).total_bytes() == device_without.total_bytes());
  CHECK(make_plan(shape, spec, 1, limits).host_bytes == device_without.host_bytes + limits.source_bytes);
  limits.kept_residency = Residency::kHost;
  limits.memory_bytes = device_without.total_bytes() + limits.source_bytes;
  CHECK(make_plan(shape, spec, 1, limits).total_bytes() == limits.memory_bytes);
  limits.chunk_rows = device_without.chunk_rows;
  limits.memory_bytes -= 1;
  CHECK_THAT(error_of([&] { make_plan(shape, spec, 1, limits); }).second,
             ContainsSubstring("chunks of the files 1 GiB"));
}

TEST_CASE("Copies of the sketch for its files are FP64, on the host backend its own memory, beside a GPU the host's") {
  const ProblemShape shape{100'000, 50, 2, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  for (const Compression compression : {Compression::kSketch, Compression::kGram}) {
    const std::int64_t copy = (compression == Compression::kGram ? 52 : spec.d) * 52 * 8;
    PlanLimits limits;
    limits.chunk_row_bytes = 2 * shape.row_bytes();
    limits.source_bytes = 1 << 20;
    const Plan without = make_plan(shape, spec, 1, limits, compression);
    limits.sketch_copies = 3;
    const Plan device = make_plan(shape, spec, 1, limits, compression);
    CHECK(device.total_bytes() == without.total_bytes());
    CHECK(device.host_bytes == without.host_bytes + 3 * copy);
    limits.kept_residency = Residency::kHost;
    const Plan host = make_plan(shape, spec, 1, limits, compression);
    CHECK(host.copies_bytes == 3 * copy);
    CHECK(host.total_bytes() == without.total_bytes() + limits.source_bytes + 3 * copy);
    limits.chunk_rows = host.chunk_rows;
    limits.memory_bytes = host.total_bytes();
    CHECK(make_plan(shape, spec, 1, limits, compression).total_bytes() == limits.memory_bytes);
    limits.memory_bytes -= 1;
    const auto [code, message] = error_of([&] { make_plan(shape, spec, 1, limits, compression); });
    CHECK(code == 7);
    CHECK_THAT(message, ContainsSubstring("copies of the sketch for its files"));
  }
}

TEST_CASE("What was predicted is told: passes, and seconds where somebody knows them") {
  const ProblemShape shape{6000, 7, 1, ElementType::kFloat32};
  Plan plan = make_plan(shape, make_sketch_spec(shape, {}), 1, {});
  CHECK_THAT(describe(plan), !ContainsSubstring("predicted"));
  plan.passes = 12;
  plan.seconds = 3.5;
  CHECK_THAT(describe(plan), ContainsSubstring("about 12 passes") && ContainsSubstring("predicted: 3.5 s"));
}

TEST_CASE("Bytes are told in three digits and binary units") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1024) == "1 KiB");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(std::int64_t{3} << 30) == "3 GiB");
  CHECK(bytes_text(std::int64_t{1} << 60) == "1.02e+03 PiB");
}

TEST_CASE("The plan in words has the ranks with rows, the chunk and the memory") {
  const ProblemShape shape{600, 7, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});  // T = 512: two batches
  const std::string text = describe(make_plan(shape, spec, 5, {}));
  CHECK_THAT(text, ContainsSubstring("5 MPI ranks (2 with rows)") && ContainsSubstring("up to 512 rows") &&
                       ContainsSubstring("1 pass"));
  CHECK_THAT(describe(make_plan(shape, spec, 1, {})), ContainsSubstring("1 MPI rank,"));
}

TEST_CASE("Rows kept in host memory are planned like those on a device, with their own buffers") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.chunk_rows = 1000;
  limits.kept_residency = Residency::kHost;
  limits.kept_row_bytes = shape.row_bytes();
  limits.kept_chunk_row_bytes = 0;  // read into their place
  limits.chunk_row_bytes = shape.row_bytes();
  const Plan kept = make_plan(shape, spec, 3, limits);  // memory 0: not limited
  CHECK(kept.residency == Residency::kHost);
  CHECK(kept.slab_bytes == kept.rank_rows.front().size() * shape.row_bytes());
  CHECK(kept.chunk_bytes == 0);
  CHECK_THAT(describe(kept), ContainsSubstring("A kept in memory"));
  CHECK(kept.host_bytes == 0);  // the backend's own memory
  limits.memory_bytes = kept.total_bytes();
  CHECK(make_plan(shape, spec, 3, limits).residency == Residency::kHost);
  limits.memory_bytes -= 1;
  const Plan streamed = make_plan(shape, spec, 3, limits);
  CHECK(streamed.residency == Residency::kFile);
  CHECK(streamed.slab_bytes == 0);
  CHECK(streamed.chunk_bytes == 1000 * shape.row_bytes());
  CHECK_THAT(describe(streamed), ContainsSubstring("A read from the file"));
  limits.memory_bytes = 0;
  limits.kept_row_bytes = 0;  // a job that keeps no rows, however much memory there is
  CHECK(make_plan(shape, spec, 3, limits).residency == Residency::kFile);
  limits.kept_row_bytes = shape.row_bytes();
  limits.kept_chunk_row_bytes = 3 * shape.row_bytes();
  limits.kept_residency = Residency::kDevice;
  CHECK(make_plan(shape, spec, 3, limits).chunk_bytes == 3 * 1000 * shape.row_bytes());
  CHECK(std::string(to_word(Residency::kHost)) == "host");
  CHECK(std::string(to_word(Residency::kDevice)) == "device");
  CHECK(std::string(to_word(Residency::kFile)) == "file");
}

TEST_CASE("A Gram matrix is planned with (n + r)^2 numbers of 8 bytes, whatever d and the sketch's precision") {
  const ProblemShape shape{100'000, 50, 2, ElementType::kFloat32};
  for (const double ratio : {2.0, 16.0}) {
    for (const SketchPrecision precision : {SketchPrecision::kFp16, SketchPrecision::kFp32, SketchPrecision::kFp64}) {
      SketchOptions options = with_oversample(ratio);
      options.precision = precision;
      const Plan plan = make_plan(shape, make_sketch_spec(shape, options), 2, {}, Compression::kGram);
      CHECK(plan.sketch_bytes == 52 * 52 * 8);
      CHECK(plan.factor_bytes == 5 * 52 * 52 * 8);
      CHECK(plan.rank_rows.back().end == shape.m);
    }
  }
  PlanLimits limits;
  limits.memory_bytes = 52 * 52 * 8;
  const auto [code, message] =
      error_of([&] { make_plan(shape, make_sketch_spec(shape, {}), 2, limits, Compression::kGram); });
  CHECK(code == 7);
  CHECK_THAT(message, ContainsSubstring("52 x 52"));
}

TEST_CASE("Rows that are settled stay where they are, whatever a new sketch's batches would want") {
  const ProblemShape shape{100'000, 50, 1, ElementType::kFloat64};
  const SketchSpec spec = make_sketch_spec(shape, {});
  PlanLimits limits;
  limits.kept_row_bytes = shape.row_bytes();
  limits.kept_residency = Residency::kHost;
  limits.rank_rows = {{0, 40'001}, {40'001, 70'002}, {70'002, 100'000}};  // no whole batches
  const Plan plan = make_plan(shape, spec, 3, limits);
  REQUIRE(plan.rank_rows.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(plan.rank_rows[i].begin == limits.rank_rows[i].begin);
    CHECK(plan.rank_rows[i].end == limits.rank_rows[i].end);
  }
  CHECK(plan.slab_bytes == 40'001 * shape.row_bytes());
}

TEST_CASE("Check rows come on top of d, in whole granules, and give way where a strip would overflow") {
  const ProblemShape shape{1'000'000, 100, 1, ElementType::kFloat32};
  const auto with_checks = [](std::int64_t count, double ratio = 0, std::int64_t rows = 0) {
    SketchOptions options;
    options.check_rows = count;
    options.oversample = ratio;
    options.sketch_rows = rows;
    return options;
  };
  for (const SketchOptions& options : {with_checks(64), with_checks(1), with_checks(64, 4), with_checks(64, 0, 512)}) {
    const SketchSpec spec = make_sketch_spec(shape, options);
    SketchOptions without = options;
    without.check_rows = 0;
    const CheckRows held_back = held_back_rows(spec, options);
    CHECK(held_back.count == 64);  // 16 zeta
    CHECK(spec.d == make_sketch_spec(shape, without).d + 64);
    CHECK(held_back_rows(make_sketch_spec(shape, without), without).count == 0);
  }
  // 2 n = 2048 is what a strip holds: the check rows are taken from it, unless d was asked for.
  const ProblemShape wide{1'000'000, 1024, 1, ElementType::kFloat32};
  CHECK(make_sketch_spec(wide, with_checks(64)).d == 2048);
  CHECK(make_sketch_spec(wide, with_checks(64, 2)).d == 2112);
  // What is solved by must exceed n, without the check rows.
  CHECK(spec_error(shape, with_checks(64, 0, 104)).first == 0);
  CHECK(spec_error(shape, with_checks(64, 0, 100)).first == 2);
}

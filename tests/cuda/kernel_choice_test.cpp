// --kernel through the CUDA backend: each kernel sketches a BlockPerm problem as the oracle does, chunk by chunk.
#include <memory>
#include <vector>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/row_pass.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"
#include "tests/support/exact_data.h"
#include "tests/support/exact_source.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

/// The sketch of a source by one rank with one kernel.
std::vector<double> sketch_with(KernelChoice kernel, const SketchSpec& spec, RowSource& source, bool resident) {
  const Communicator comm(MPI_COMM_WORLD);
  PhaseTimer timer;
  RunOptions options;
  options.backend = BackendChoice::kCuda;
  options.kernel = kernel;
  const auto backend = make_backend(options, comm, timer);
  PlanLimits limits;
  limits.chunk_rows = 777;
  Plan plan = make_plan(source.shape(), spec, 1, limits);
  plan.residency = resident ? Residency::kDevice : Residency::kFile;
  const RowRange all = plan.rank_rows[0];
  backend->begin({.spec = spec, .shape = source.shape(), .plan = plan, .rows = all});
  for_each_chunk(all, plan.chunk_rows, [&](RowRange rows) {
    ChunkBuffer& chunk = backend->next_buffer(rows);
    source.read(rows, chunk.a, chunk.b);
    backend->upload(chunk);
  });
  backend->exchange();
  backend->sketch();
  return backend->sketch_copy();
}

}  // namespace

TEST_CASE("Scatter and flash sketch [A | b] in chunks as the oracle does, resident or streamed") {
  const std::int64_t m = 3001, n = 37, r = 2;
  ExactSource source(m, n, r, ElementType::kFloat32);
  const std::vector<float> a = make_exact_matrix<float>(0, m, 0, n, n), b = make_exact_matrix<float>(0, m, n, r, r);
  for (const std::int64_t total_rows : {std::int64_t{0}, m}) {
    const SketchSpec spec = make_block_spec(SketchHash::kPermuted, 384, 64, 2, 2, total_rows);
    const std::vector<double> oracle = oracle_sketch(spec, {a.data(), m, n, n, ElementType::kFloat32, 0},
                                                     {b.data(), m, r, r, ElementType::kFloat32, 0});
    for (const KernelChoice kernel : {KernelChoice::kScatter, KernelChoice::kFlash}) {
      for (const bool resident : {true, false}) {
        const std::vector<double> got = sketch_with(kernel, spec, source, resident);
        REQUIRE(got.size() == oracle.size());
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < oracle.size(); ++i) wrong += got[i] == oracle[i] ? 0 : 1;
        INFO("kernel " << to_word(kernel) << " m if contiguous " << total_rows << " resident " << resident);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("Flash refuses what it does not apply, before a row is read") {
  ExactSource source(1000, 8, 1, ElementType::kFloat32);
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 64, 4);
  CHECK(error_kind_of([&] { sketch_with(KernelChoice::kFlash, spec, source, true); }) == ErrorKind::kUsage);
}

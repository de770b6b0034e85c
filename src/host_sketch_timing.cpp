#include <chrono>

#include "kernels/philox.h"
#include "kernels/read_pass_host.h"
#include "kernels/sketch_host.h"
#include "src/error.h"
#include "src/host_buffer.h"
#include "src/sketch_timing.h"

namespace tallsketch {

namespace {

template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

SketchTiming time_host_sketch(const SketchSpec& spec, const TimedShape& shape, int repeats, int threads) {
  const auto [m, n, r, type] = shape;
  require(type == ElementType::kFloat32, ErrorKind::kUsage, "--dtype f2, bf2 and f8 are measured on GPUs only");
  HostBuffer data(m * n * 4);
  auto* a = reinterpret_cast<float*>(data.data());
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < m; ++i) {
    // One draw a row, spread by a multiplicative congruence: the values only have to look unstructured.
    std::uint32_t state = random_words(1, i, DrawPurpose::kMatrixEntries, 0).word[0];
    for (std::int64_t j = 0; j < n; ++j) {
      state = state * 1664525U + 1013904223U;
      a[i * n + j] = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
    }
  }
  const std::vector<float> b(static_cast<std::size_t>(m * r), 1.0F);
  HostBuffer scratch(host::sketch_workspace_bytes(spec, n, r, threads));
  HostBuffer out(spec.d * (n + r) * sketch_element_size(spec.precision));
  const host::SketchWorkspace workspace{scratch.data(), scratch.bytes(), n, r, threads};
  const SlabView slab{a, m, n, n, ElementType::kFloat32, 0};
  const SlabView b_slab{b.data(), m, r, r, ElementType::kFloat32, 0};

  std::vector<double> floors, sketches;
  volatile float sink = 0;
  for (int repeat = 0; repeat <= repeats; ++repeat) {  // interleaved, so that both see the same neighbours
    const double floor = seconds_of([&] { sink = static_cast<float>(host::read_pass(slab, threads)); });
    const double sketch = seconds_of([&] {
      host::sketch_begin(spec, n, r, workspace);
      host::sketch_add(spec, slab, b_slab, workspace);
      if (spec.precision == SketchPrecision::kFp64) {
        host::sketch_end(spec, workspace,
                         SketchView<double>{reinterpret_cast<double*>(out.data()), spec.d, n + r, n + r});
      } else {
        host::sketch_end(spec, workspace,
                         SketchView<float>{reinterpret_cast<float*>(out.data()), spec.d, n + r, n + r});
      }
    });
    if (repeat == 0) continue;  // first touch
    floors.push_back(floor);
    sketches.push_back(sketch);
  }
  SketchTiming timing;
  timing.floor = median(floors);
  timing.complete = median(sketches);
  return timing;
}

}  // namespace tallsketch
